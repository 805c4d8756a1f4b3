"""The four source categories of a prompt's tokens, and the current user body (appendix A.2). Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stair.models.turn_markers import TurnMarkers
from stair.sessions.renderer import Exchange, Renderer

CATEGORIES = ("user", "assistant", "template", "current")
"""Earlier user bodies, earlier assistant bodies, earlier template and system, current turn."""

_USER, _ASSISTANT, _TEMPLATE, _CURRENT = range(len(CATEGORIES))


class SourceTokens(NamedTuple):
    """A source history: everything before the current user header."""

    ids: tuple[int, ...]
    categories: tuple[int, ...]
    """Each token's index in `CATEGORIES`."""


class CurrentTurn(NamedTuple):
    """A current turn's ids, and its user body as positions in the turn (end exclusive)."""

    ids: tuple[int, ...]
    body: tuple[int, int]


@dataclass(frozen=True)
class Labelled:
    """A prompt whose tokens have categories.

    `categories` are indices in `CATEGORIES`. The first `prefix` tokens are the source history: everything before the current
    user header. `body` is the current user body, as positions in the prompt (end exclusive).
    """

    ids: tuple[int, ...]
    categories: tuple[int, ...]
    prefix: int
    body: tuple[int, int]

    def __post_init__(self) -> None:
        assert len(self.ids) == len(self.categories)
        assert self.prefix <= self.body[0] <= self.body[1] <= len(self.ids)

    @property
    def history(self) -> SourceTokens:
        """The source history."""
        return SourceTokens(self.ids[: self.prefix], self.categories[: self.prefix])

    @property
    def turn(self) -> CurrentTurn:
        """The current turn."""
        start, end = self.body
        return CurrentTurn(self.ids[self.prefix :], (start - self.prefix, end - self.prefix))


def label(renderer: Renderer, history: Sequence[Exchange], user: str) -> Labelled:
    """Return the prompt of `renderer.prompt_ids(history, user)` with its tokens' categories.

    A token belongs to a body when all its characters do. So a token that joins a header's line end with a body's first
    characters is template.
    Raises ValueError if the template changes a message beyond its outer white space, or the current body has no token.
    """
    text = renderer.prompt_text(history, user)
    bodies = list(_bodies(renderer.markers, text, history, user))
    ids, places = renderer.encode_places(text)
    last = bodies[-1][1]
    header = text.rfind(renderer.markers.start, 0, last.start + 1)
    categories, current = [], []
    for position, place in enumerate(places):
        if place.start >= header:
            categories.append(_CURRENT)
            if last.start <= place.start and place.stop <= last.stop:
                current.append(position)
            continue
        while bodies[0][1].stop <= place.start:
            bodies.pop(0)
        category, body = bodies[0]
        categories.append(category if body.start <= place.start and place.stop <= body.stop else _TEMPLATE)
    if not current:
        raise ValueError(f"the current user body has no token of its own in {text[header:]!r}")
    return Labelled(tuple(ids), tuple(categories), categories.index(_CURRENT), (current[0], current[-1] + 1))


def _bodies(markers: TurnMarkers, text: str, history: Sequence[Exchange], user: str) -> Iterator[tuple[int, range]]:
    """Yield category and characters of every message's body, in order."""
    cursor = 0
    messages = [(role, one) for turn in history for role, one in (("user", turn.user), ("assistant", turn.assistant))]
    for number, (role, message) in enumerate([*messages, ("user", user)]):
        header = markers.header(role)
        start = text.find(header, cursor) + len(header)
        forms = (message, message.strip(), message.strip("\n"), message.lstrip(), message.lstrip("\n"))
        body = next((form for form in forms if text.startswith(form + markers.end, start)), None)
        if body is None or start < cursor + len(header):
            raise ValueError(
                f"turn {number // 2 + 1}: the chat template does not write the {role} message between {header!r} and "
                f"{markers.end!r} as it is; the tokens of the message and of the template cannot be separated"
            )
        cursor = start + len(body)
        yield (_USER if role == "user" else _ASSISTANT), range(start, cursor)
