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
from stair.stages.replay.design.crossed import Group
from stair.stages.replay.states import ReplayStates

Floats = npt.NDArray[np.float64]
Measured = npt.NDArray[np.floating]


@dataclass(frozen=True)
class Crossing:
    """Arrays have the current problems first, then the histories, in the order of `problems` and `histories`."""

    group: Group
    states: ReplayStates
    lengths: tuple[int, ...]
    """[histories] tokens of the whole prefix, template included."""
    blocks: tuple[int, ...]
    """[histories] source blocks."""

    @classmethod
    def of(cls, group: Group, states: ReplayStates, histories: Iterable[ReplayHistory]) -> Crossing:
        """One group's crossing, of the design's histories."""
        rows = [row for row in histories if row.group == group.number and row.problem_coverage_block is not None]
        blocks = tuple(row.problem_coverage_block for row in rows if row.problem_coverage_block is not None)
        return cls(group, states, tuple(row.prefix_tokens[-1] for row in rows), blocks)

    @property
    def label(self) -> str:
        return f"group {self.group.number}"

    @cached_property
    def problems(self) -> tuple[str, ...]:
        return self.group.problem_coverage.problems

    @cached_property
    def histories(self) -> tuple[str, ...]:
        return tuple(history.name for history in self.group.problem_coverage.histories)

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
        coverage = self.group.problem_coverage
        depth = len(coverage.histories[0].sources)
        return self.states.cells(self.group.number, coverage, depth, tensor, layer)

    def _references(self, tensor: str, layer: int | None) -> Measured:
        return self.states.references(self.group.number, self.group.problem_coverage, tensor, layer)
