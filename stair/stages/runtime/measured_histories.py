"""A measured history of the runtime study, and histories of random tokens (appendix C.4). Needs no package of the pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stair.records.seeds import seed_of


@dataclass(frozen=True)
class History:
    """A T1 turn and the T2 prompt behind it.

    Attributes:
        name: `<session>-<sample>`, or `synthetic-<number>`.
        first_prompt: token ids of the T1 prompt.
        response: token ids of the T1 response, the stop token included.
        prompt: token ids of the full visible T2 prompt.
        span: the control span in `prompt`, end exclusive.
        entries: states that the response gives to the bank.
    """

    name: str
    first_prompt: tuple[int, ...]
    response: tuple[int, ...]
    prompt: tuple[int, ...]
    span: tuple[int, int]
    entries: int


def synthetic_lengths(median: int, most: int, count: int) -> list[int]:
    """Return `count` lengths, evenly spaced from `2 * median - most` to `most`; one length is the median."""
    if count == 1:
        return [median]
    return [round(length) for length in np.linspace(2 * median - most, most, count)]


def synthetic_histories(
    lengths: Sequence[int], *, prompt: int, question: int, vocabulary: int, seed: str
) -> list[History]:
    """Return a history of random tokens for each length, a function of the seed's name.

    Args:
        lengths: entries of each bank.
        prompt: tokens of the T2 prompt.
        question: tokens of its control span, the last ones; the T1 prompt has as many.
        vocabulary: ids are drawn below it.
        seed: names the draw.
    """
    histories = []
    for number, entries in enumerate(lengths, start=1):
        name = f"synthetic-{number}"
        drawn = np.random.default_rng(seed_of(seed, name))
        # The token drawn last has no state, so a response has one token more than entries.
        first, response, ids = (
            tuple(drawn.integers(vocabulary, size=size).tolist()) for size in (question, entries + 1, prompt)
        )
        histories.append(History(name, first, response, ids, (prompt - question, prompt), entries))
    return histories
