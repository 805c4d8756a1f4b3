"""The analysis of a measured replay: layers, neighborhoods, projections, shuffles and resamples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from stair.config.field_types import Count, Layer, Positive, Strict, Text, once

REPLAY_PARTS = ("attention", "geometry", "read_prediction")
"""The parts of the analysis, a file each."""

Sizes = Annotated[tuple[Positive, ...], Field(strict=False, min_length=1), AfterValidator(once)]


class Whitening(Strict):
    """The second coordinate view of neighborhoods."""

    dimension: Count = Field(128, description="Dimensions of the Gaussian projection that is whitened.")
    rho: Annotated[float, Field(gt=0)] = Field(1e-3, description="The ridge, relative to the diagonal's mean.")


class ReplayAnalysis(Strict):
    """Statistics of the problem coverage at full depth (appendices A.2, A.3 and A.6)."""

    seed: Text = Field("replay-analysis", description="Names folds, projections, shuffles and resamples.")
    reported_layer: Layer = Field(19, description="The layer whose numbers the text gives.")
    neighborhoods: Sizes = Field(
        (8, 16, 32),
        description="Sizes of neighborhoods. The first is measured at every layer, all of them at the reported layer.",
    )
    folds: int = Field(4, ge=2, le=100_000, description="Equal folds of a group's current problems.")
    history_pairs: int = Field(8, ge=2, le=100_000, description="Pairs of histories, at evenly spaced lengths.")
    shuffles: Count = Field(20, description="Shuffles of anchors, over which the control is averaged.")
    exclude_fixed_points: bool = Field(False, description="Whether no anchor may keep its own neighborhood.")
    whitening: Whitening = Field(Whitening(), description="Projection and ridge of the whitened coordinates.")
    read_dimension: Count = Field(64, description="Dimensions of the projection in the read prediction.")
    resamples: int = Field(1000, ge=100, le=100_000, description="Resamples of source blocks behind each interval.")

    def contradictions(self, problems: int) -> Iterator[str]:
        """Settings that a group of `problems` current problems cannot meet, as sentences without their key's place."""
        size, rest = divmod(problems, self.folds)
        if rest:
            yield f"folds: {problems} current problems have no {self.folds} equal folds"
        elif (most := max(self.neighborhoods)) > problems - size:
            yield f"neighborhoods: {most} is more than the {problems - size} candidates of a fold"
        elif self.exclude_fixed_points and size == 1:
            yield "exclude_fixed_points: a fold of one anchor has no other anchor"
