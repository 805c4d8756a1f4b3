"""Whether a run's prompts and output limits fit into a model's context. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from stair.core import TURNS
from stair.models.architecture import Architecture
from stair.sessions.renderer import Renderer
from stair.stages.preflight.properties import PropertyError, conversation_text, outer_white_space

_BATCH = 512


@dataclass(frozen=True)
class Limit:
    """The longest prompt of one kind, and the output limit after it."""

    what: str
    longest_prompt: int
    problem_id: str
    max_new_tokens: int
    context: int

    @property
    def four_turns(self) -> int:
        """The tokens of four turns in the worst case: every turn at its limit and visible."""
        return TURNS * (self.longest_prompt + self.max_new_tokens)


def longest_prompt(
    renderer: Renderer,
    architecture: Architecture,
    what: str,
    users: Iterable[tuple[str, str]],
    max_new_tokens: int,
    *,
    files: tuple[Path, Path],
) -> Limit:
    """The longest first prompt of the user messages, which must fit into the context with the output limit.

    Args:
        users: (problem id, user message).
        files: the table whose rows these are, and the data set's file that it was made from, for messages.

    Raises:
        PropertyError: the prompt does not fit, or a message contains a turn marker.
    """
    longest, problem = 0, ""
    for row, (name, ids) in enumerate(_encoded(renderer, users), 1):
        if ids.count(renderer.turn_start) != 2 or ids.count(renderer.turn_end) != 1:
            raise PropertyError(
                f"{what}: the text of problem {name}, row {row} of {files[0]}, contains a turn marker; clean it in {files[1]}"
            )
        if len(ids) > longest:
            longest, problem = len(ids), name
    if longest + max_new_tokens > architecture.context:
        raise PropertyError(
            f"{what}: the prompt of problem {problem} has {longest} tokens and max_new_tokens is {max_new_tokens}, together "
            f"more than the {architecture.context} positions of the model's RoPE (max_position_embeddings)"
        )
    return Limit(what, longest, problem, max_new_tokens, architecture.context)


def _encoded(renderer: Renderer, users: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[int]]]:
    """The ids of first prompts, encoded in batches; the template renders every one of them."""
    remaining, outer = iter(users), outer_white_space(renderer)
    while some := list(islice(remaining, _BATCH)):
        texts = [renderer.prompt_text([], user) for _, user in some]
        for (name, user), text in zip(some, texts, strict=True):
            if text != conversation_text(renderer, [], user, outer):
                raise PropertyError(f"the template does not write the prompt of problem {name} as it writes others")
        encoded = renderer.tokenizer(texts, add_special_tokens=False)["input_ids"]
        yield from zip((name for name, _ in some), encoded, strict=True)
