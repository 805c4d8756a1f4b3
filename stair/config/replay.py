"""The crossed replay: what is replayed, the sizes of its design, and the analysis of its measurements."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from stair.config.field_types import Count, Key, Keys, Layer, Layers, Positive, Shards, Strict, Text, once

REPLAY_PARTS = ("attention", "geometry", "read_prediction")
"""The parts of the analysis, a file each."""

Sizes = Annotated[tuple[Positive, ...], Field(strict=False, min_length=1), AfterValidator(once)]


class Whitening(Strict):
    """The second coordinate view of neighborhoods."""

    dimension: Count = 128
    rho: Annotated[float, Field(gt=0)] = 1e-3


class ReplayAnalysis(Strict):
    """Statistics of the problem coverage at full depth (appendices A.2, A.3 and A.6)."""

    seed: Text = "replay-analysis"
    reported_layer: Layer = 19
    neighborhoods: Sizes = (8, 16, 32)
    folds: int = Field(4, ge=2, le=100_000)
    history_pairs: int = Field(8, ge=2, le=100_000)
    shuffles: Count = 20
    exclude_fixed_points: bool = False
    whitening: Whitening = Whitening()
    read_dimension: Count = 64
    resamples: int = Field(200, ge=100, le=100_000)

    def contradictions(self, problems: int) -> Iterator[str]:
        """Settings that a group of `problems` current problems cannot meet, as sentences without their key's place."""
        size, rest = divmod(problems, self.folds)
        if rest:
            yield f"folds: {problems} current problems have no {self.folds} equal folds"
        elif (most := max(self.neighborhoods)) > problems - size:
            yield f"neighborhoods: {most} is more than the {problems - size} candidates of a fold"
        elif self.exclude_fixed_points and size == 1:
            yield "exclude_fixed_points: a fold of one anchor has no other anchor"


class CrossedSizes(Strict):
    """A balanced design's size in each group."""

    current_problems: Count
    histories: Count


class SourceSizes(Strict):
    """Where a group's histories come from."""

    sessions: Count


class BlockSizes(SourceSizes):
    """Where a group's histories of the problem coverage come from."""

    blocks: Count


class ReplayGroup(Strict):
    """One of the two groups, which share no current problem and no source problem."""

    history_coverage: SourceSizes
    problem_coverage: BlockSizes


class Replay(Strict):
    """Current problems crossed with saved histories (appendix A.1)."""

    models: Keys = Field(min_length=1)
    benchmark: Key
    condition: Key = "native"
    layers: Layers
    shards: Shards = 1
    seed: Text = "replay"
    depth: Annotated[int, Field(ge=1, le=3)] = 3
    batch_problems: Count = 16
    history_coverage: CrossedSizes
    problem_coverage: CrossedSizes
    groups: Annotated[tuple[ReplayGroup, ReplayGroup], Field(strict=False)]
    analysis: ReplayAnalysis | None = None

    @property
    def references(self) -> int:
        """Current problems of both groups, each of which is replayed once without history."""
        return 2 * self.problem_coverage.current_problems

    @property
    def replays(self) -> int:
        """Replays behind a history, of both groups and at all depths."""
        many, few = self.history_coverage, self.problem_coverage
        outer = (few.current_problems - many.current_problems) * few.histories
        return 2 * self.depth * (many.current_problems * many.histories + outer)

    def states_bytes(self, layers: int, attention_layers: int, hidden: int) -> int:
        """Bytes of the measurements of a model with so many blocks, full-attention layers and channels."""
        few = self.problem_coverage
        numbers = (self.replays + self.references) * (layers * hidden + 4 * attention_layers) + self.references * hidden
        with_reads = 2 * few.current_problems * few.histories + self.references
        numbers += with_reads * len(self.layers) * (4 + 1) * hidden
        return 4 * numbers

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        for contradiction in self._contradictions():
            raise ValueError(contradiction)
        return self

    def _contradictions(self) -> Iterator[str]:
        """Numbers that no data can meet together."""
        many, few = self.history_coverage, self.problem_coverage
        if many.current_problems > few.current_problems:
            yield (
                f"history_coverage.current_problems is {many.current_problems}, but it is a part of problem_coverage's: "
                f"at most {few.current_problems}"
            )
        if few.histories > many.histories:
            yield (
                f"problem_coverage.histories is {few.histories}, but it is a part of history_coverage's: "
                f"at most {many.histories}"
            )
        for number, group in enumerate(self.groups, start=1):
            for contradiction in self._contradictions_of(group):
                yield f"group {number}: {contradiction}"
        if self.analysis is not None:
            for contradiction in self.analysis.contradictions(few.current_problems):
                yield f"analysis.{contradiction}"

    def _contradictions_of(self, group: ReplayGroup) -> Iterator[str]:
        whole, part = group.history_coverage, group.problem_coverage
        if part.sessions > whole.sessions:
            yield f"problem_coverage has {part.sessions} sessions of {whole.sessions} in history_coverage"
        for name, sources, crossed in (
            ("history_coverage", whole, self.history_coverage),
            ("problem_coverage", part, self.problem_coverage),
        ):
            if crossed.histories < sources.sessions:
                yield (
                    f"{sources.sessions} sessions need at least {sources.sessions} histories in {name}, one of each; "
                    f"there are {crossed.histories}"
                )
        if part.blocks > part.sessions:
            yield f"{part.sessions} sessions are at most {part.sessions} blocks, not {part.blocks}"
