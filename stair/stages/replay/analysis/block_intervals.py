"""Intervals by resampling whole source blocks: how far a number would move with other histories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from stair.statistics.named_random import named_generator

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

LEAST_BLOCKS = 5


class Ends(NamedTuple):
    """An interval in the number's unit."""

    low: float | None
    high: float | None
    method: str | None
    """How it is computed, or why there is none."""


@dataclass(frozen=True)
class BlockResamples:
    """Resamples of one group's source blocks: as many blocks as there are, drawn with replacement; none of too few blocks."""

    blocks: tuple[int, ...]
    """[histories] labels of source blocks."""
    resamples: int
    seed: tuple[str, ...]
    """Names the draws."""

    @property
    def count(self) -> int:
        """Source blocks."""
        return len(set(self.blocks))

    @property
    def places(self) -> Ints:
        """[histories] the place of each one's block among the sorted labels."""
        return np.unique(np.asarray(self.blocks), return_inverse=True)[1]

    def times(self) -> Ints:
        """[resamples, blocks] how often each block is drawn."""
        resamples = self.resamples if self.count >= LEAST_BLOCKS else 0
        generator = named_generator(*self.seed, "blocks", self.count)
        return generator.multinomial(self.count, np.full(self.count, 1 / self.count), size=resamples)

    def __iter__(self) -> Iterator[Ints]:
        """Each resample's histories, by index: those of a block as often as it is drawn."""
        for times in self.times():
            yield np.repeat(np.arange(len(self.blocks)), times[self.places])


def block_interval(
    estimate: float, resampled: Sequence[float], blocks: int, limits: tuple[float, float] = (-np.inf, np.inf)
) -> Ends:
    """The 95% interval of a number from its resamples.

    Copies of a history shrink the interaction, so resampled numbers lie beside the estimate by an effect of resampling
    alone. So the percentiles' distances from the resamples' median are laid about the estimate, spread by what so few blocks
    lose (`spread_factor`).

    Args:
        estimate: the number over all cells.
        resampled: the number in each resample, NaN where one has none.
        blocks: source blocks; of two resampled groups the smaller number.
        limits: the number's range.
    """
    from stair.statistics.intervals import LEVEL, spread_factor

    if blocks < LEAST_BLOCKS:
        counted = "1 source block" if blocks == 1 else f"{blocks} source blocks"
        return Ends(None, None, f"none: {counted}, and an interval needs {LEAST_BLOCKS}")
    numbers, tail = np.asarray(resampled), (1 - LEVEL) / 2
    numbers = numbers[np.isfinite(numbers)]
    middle, low, high = np.quantile(numbers, [0.5, tail, 1 - tail])
    spread = spread_factor(blocks)
    return Ends(
        float(max(limits[0], estimate + spread * (low - middle))),
        float(min(limits[1], estimate + spread * (high - middle))),
        f"{LEVEL:.0%}; {len(numbers)} resamples of {blocks} whole source blocks; centered percentiles",
    )
