"""Whether this server's tokens depend on what else it computes: looked at, not taken from a flag."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from stair.engines.base import Request
from stair.records.seeds import seed_of

TOGETHER = 40
_TOKENS = 64

Scored = tuple[tuple[int, ...], tuple[float, ...]]
"""A response's tokens, and the log-probability of each."""

Ask = Callable[[Request], Awaitable[Scored]]


def variants(request: Request) -> list[Request]:
    """The prompt that is watched, then others of all lengths, each with a seed of its own."""
    limit = min(_TOKENS, request.max_new_tokens)
    first = replace(request, key="probe-0", seed=seed_of("probe", 0), max_new_tokens=limit)
    others = []
    for number in range(1, TOGETHER):
        ids = request.prompt_ids
        cut = 1 + (number * 7) % len(ids)
        others.append(
            replace(
                first,
                key=f"probe-{number}",
                prompt_ids=ids[-cut:],
                seed=seed_of("probe", number),
                max_new_tokens=1 + (number * 13) % limit,  # so that the batch changes all the time
            )
        )
    return [first, *others]


@dataclass(frozen=True)
class Comparison:
    """What one prompt gave alone and among others; None where it could not be compared."""

    same_tokens: bool | None
    same_log_probabilities: bool | None

    @property
    def batch_invariant(self) -> bool | None:
        """Log-probabilities that differ in their last bits are enough for another token somewhere in a long run."""
        if self.same_tokens is None:
            return None
        return bool(self.same_tokens and self.same_log_probabilities)

    def __str__(self) -> str:
        outcome = {True: "the same", False: "OTHERS", None: "not known"}
        return (
            f"alone and among others, one prompt's tokens are {outcome[self.same_tokens]}, their log-probabilities "
            f"{outcome[self.same_log_probabilities]} (batch_invariant: {self.batch_invariant})"
        )


NOT_COMPARED = Comparison(None, None)


async def compare(ask: Ask, request: Request) -> Comparison:
    """Samples one prompt alone, then among 40, with one seed.

    Args:
        ask: sends a request.
        request: the prompt and the settings to look at.
    """
    watched, *others = variants(request)
    alone = await ask(watched)
    among, *_ = await asyncio.gather(*(ask(one) for one in (watched, *others)))
    return Comparison(alone[0] == among[0], alone[1] == among[1])
