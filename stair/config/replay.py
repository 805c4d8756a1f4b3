"""The crossed replay: what is replayed, and the sizes of its design."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from stair.config.crossed_sizes import Crossed, GroupSizes, Sizes, Sources
from stair.config.field_types import Key, Keys, Layers, Positive, Shards, Strict, Text
from stair.config.replay_analysis import ReplayAnalysis


class CrossedSizes(Strict):
    """A balanced design's size in each group."""

    current_problems: Positive = Field(description="Current problems of a group.")
    histories: Positive = Field(description="Histories of a group: sampled paths of its sessions.")


class SourceSizes(Strict):
    """Where a group's histories come from."""

    sessions: Positive = Field(description="Sessions that a group's histories come from.")
    source_problems: Positive = Field(description="Distinct problems of these sessions' longest histories.")


class BlockSizes(SourceSizes):
    """Where a group's histories of the problem coverage come from."""

    blocks: Positive = Field(description="Source blocks: histories joined, also through others, by a source problem.")


class ReplayGroup(Strict):
    """One of the two groups, which share no current problem and no source problem."""

    history_coverage: SourceSizes = Field(description="The sources of all the group's histories.")
    problem_coverage: BlockSizes = Field(description="The sources of the problem coverage, a part of them.")


class Replay(Strict):
    """Current problems crossed with saved histories (appendix A.1)."""

    models: Keys = Field(min_length=1, description="The models that are replayed.")
    benchmark: Key = Field(description="The benchmark whose sessions give histories and current problems.")
    condition: Key = Field("native", description="The condition whose saved turns are the histories.")
    layers: Layers = Field(
        description="Layers whose historical reads are measured, at the full depth in the problem coverage: full attention, "
        "zero-based, not the last."
    )
    shards: Shards = Field(1, description="Jobs that share one model's histories. Changes no result.")
    seed: Text = Field("replay", description="Names every choice and order of the design.")
    depth: Annotated[int, Field(ge=1, le=3)] = Field(3, description="Completed turns of the longest histories.")
    batch_problems: Positive = Field(16, description="Current problems of a batch, which share one history.")
    history_coverage: CrossedSizes = Field(description="Few current problems with many histories.")
    problem_coverage: CrossedSizes = Field(description="More current problems, with some of its histories.")
    groups: Annotated[tuple[ReplayGroup, ReplayGroup], Field(strict=False)] = Field(description="The two groups.")
    analysis: ReplayAnalysis | None = Field(None, description="The statistics; null: none.")

    def sizes(self) -> Sizes:
        """The sizes as the library takes them.

        Raises:
            ValueError: no data can meet them together.
        """
        first, second = (
            GroupSizes(
                Sources(**group.history_coverage.model_dump()),
                Sources(**group.problem_coverage.model_dump(exclude={"blocks"})),
                group.problem_coverage.blocks,
            )
            for group in self.groups
        )
        return Sizes(
            self.depth,
            self.batch_problems,
            Crossed(**self.history_coverage.model_dump()),
            Crossed(**self.problem_coverage.model_dump()),
            (first, second),
        )

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        self.sizes()
        return self

    @model_validator(mode="after")
    def _analysis_fits(self) -> Self:
        if self.analysis is not None:
            for contradiction in self.analysis.contradictions(self.problem_coverage.current_problems):
                raise ValueError(f"analysis.{contradiction}")
        return self
