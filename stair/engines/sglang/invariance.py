"""Whether a server's tokens depend on the other requests of their batch: observed, not assumed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from stair.engines.base import Request
from stair.records.seeds import seed_of

TOGETHER = 40
_TOKENS = 64

Scored = tuple[tuple[int, ...], tuple[float, ...]]
"""A response's tokens, and the log-probability of each."""

Ask = Callable[[Sequence[Request]], Sequence[Scored]]
"""Sends requests together and returns their responses in order."""


def variants(request: Request) -> list[Request]:
    """The observed prompt, then others of all lengths, each with its own seed."""
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
    """Whether one prompt's response was equal alone and among others; None if it could not be compared."""

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


def compare(ask: Ask, request: Request) -> Comparison:
    """Samples one prompt alone, then among 40, with one seed.

    Args:
        ask: sends requests.
        request: the prompt and the settings of the comparison.
    """
    observed, *others = variants(request)
    (alone,) = ask([observed])
    among, *_ = ask([observed, *others])
    return Comparison(alone[0] == among[0], alone[1] == among[1])
