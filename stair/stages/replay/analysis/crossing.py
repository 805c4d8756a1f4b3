"""One group's problem coverage at full depth: the cells that all statistics are of, read one layer at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from stair.config.replay import ReplayAnalysis
from stair.records.rows import ReplayHistory
from stair.stages.replay.analysis.block_intervals import BlockResamples
from stair.stages.replay.analysis.decomposition import displacement
from stair.stages.replay.states import CoverageName, ReplayStates

Floats = npt.NDArray[np.float64]
Measured = npt.NDArray[np.floating]

COVERAGE: CoverageName = "problem_coverage"


@dataclass(frozen=True)
class Crossing:
    """Arrays have the current problems first, then the histories, in the order of `problems` and `histories`."""

    number: int
    """1 or 2."""
    states: ReplayStates
    lengths: tuple[int, ...]
    """[histories] tokens of the whole prefix, template included."""
    blocks: tuple[int, ...]
    """[histories] source blocks."""

    @classmethod
    def of(cls, number: int, states: ReplayStates, histories: Iterable[ReplayHistory]) -> Crossing:
        """One group's crossing, of the design's histories."""
        rows = {row.history: row for row in histories if row.group == number}
        chosen = [rows[name] for name in states.histories(number, COVERAGE)]
        lengths = tuple(row.prefix_tokens[states.depth - 1] for row in chosen)
        blocks = tuple(row.problem_coverage_block for row in chosen if row.problem_coverage_block is not None)
        assert len(blocks) == len(chosen), "the design gives every history of the problem coverage a block"
        return cls(number, states, lengths, blocks)

    @property
    def label(self) -> str:
        return f"group {self.number}"

    @cached_property
    def problems(self) -> tuple[str, ...]:
        return self.states.problems(self.number, COVERAGE)

    @cached_property
    def histories(self) -> tuple[str, ...]:
        return self.states.histories(self.number, COVERAGE)

    def resamples(self, settings: ReplayAnalysis) -> BlockResamples:
        return BlockResamples(self.blocks, settings.resamples, (settings.seed, self.label))

    def displacements(self, layer: int) -> Floats:
        """FP64 [problems, histories, hidden] of a block's output (Eq. 1)."""
        return displacement(self._cells("block_outputs", layer), self._references("block_outputs", layer))

    def masses(self, place: int) -> Measured:
        """FP32 [problems, histories, categories] attention masses of one full-attention layer, by its place among these."""
        return self._cells("masses", place)

    def reads(self, place: int) -> Measured:
        """FP32 [problems, histories, categories, hidden] historical reads of one measured layer, by its place among these."""
        return self._cells("reads", place)

    def inputs(self, layer: int) -> tuple[Measured, Measured]:
        """A block's pooled inputs: [problems, histories, hidden], and [problems, hidden] without history."""
        if layer:
            return self._cells("block_outputs", layer - 1), self._references("block_outputs", layer - 1)
        # No history changes the embedding of the current problem.
        embedding = self._references("embedding", None)
        return np.repeat(embedding[:, None], len(self.histories), axis=1), embedding

    def next_mlp(self, place: int) -> Floats:
        """FP64 [problems, histories, hidden]: what a history changes in the next block's MLP output (appendix A.6)."""
        return displacement(self._cells("next_mlp", place), self._references("next_mlp", place))

    def _cells(self, tensor: str, layer: int) -> Measured:
        return self.states.cells(self.number, COVERAGE, self.states.depth, tensor, layer)

    def _references(self, tensor: str, layer: int | None) -> Measured:
        return self.states.references(self.number, COVERAGE, tensor, layer)
