"""Whether a run's prompts and output limits fit into a model's context. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from stair.backbones.architecture import Architecture
from stair.conversation.renderer import Renderer
from stair.core import TURNS
from stair.preflight.properties import PropertyError, conversation_text, outer_white_space

_TOGETHER = 512


@dataclass(frozen=True)
class Limit:
    """The longest prompt of one kind, and what may be generated after it."""

    what: str
    longest_prompt: int
    problem_id: str
    max_new_tokens: int
    context: int

    @property
    def four_turns(self) -> int:
        """What four turns could take in the worst case: every turn at its limit, all of it visible."""
        return TURNS * (self.longest_prompt + self.max_new_tokens)


def longest_prompt(
    renderer: Renderer, architecture: Architecture, what: str, users: Iterable[tuple[str, str]], max_new_tokens: int
) -> Limit:
    """The longest first prompt among user messages, held to the context with the output limit after it.

    Args:
        users: (problem id, user message).

    Raises:
        PropertyError: it does not fit, or a message holds a marker that would open or end a turn.
    """
    longest, problem = 0, ""
    for name, ids in _encoded(renderer, users):
        if ids.count(renderer.turn_start) != 2 or ids.count(renderer.turn_end) != 1:
            raise PropertyError(f"{what}: the text of problem {name} holds a marker of turns")
        if len(ids) > longest:
            longest, problem = len(ids), name
    if longest + max_new_tokens > architecture.context:
        raise PropertyError(
            f"{what}: the prompt of problem {problem} has {longest} tokens and max_new_tokens is {max_new_tokens}, together "
            f"more than the {architecture.context} positions of the model's RoPE (max_position_embeddings)"
        )
    return Limit(what, longest, problem, max_new_tokens, architecture.context)


def _encoded(renderer: Renderer, users: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[int]]]:
    """First prompts as ids, many at a time, as the template writes every single one of them."""
    rest, outer = iter(users), outer_white_space(renderer)
    while some := list(islice(rest, _TOGETHER)):
        texts = [renderer.prompt_text([], user) for _, user in some]
        for (name, user), text in zip(some, texts, strict=True):
            if text != conversation_text([], user, renderer.thinking, outer):
                raise PropertyError(f"the template does not write the prompt of problem {name} as it writes others")
        encoded = renderer.tokenizer(texts, add_special_tokens=False)["input_ids"]
        yield from zip((name for name, _ in some), encoded, strict=True)
