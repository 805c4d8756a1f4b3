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
    resamples: int = Field(1000, ge=100, le=100_000)

    def contradictions(self, problems: int) -> Iterator[str]:
        """Settings that a group of `problems` current problems cannot meet, as sentences without their key's place."""
        size, rest = divmod(problems, self.folds)
        if rest:
            yield f"folds: {problems} current problems have no {self.folds} equal folds"
        elif (most := max(self.neighborhoods)) > problems - size:
            yield f"neighborhoods: {most} is more than the {problems - size} candidates of a fold"
        elif self.exclude_fixed_points and size == 1:
            yield "exclude_fixed_points: a fold of one anchor has no other anchor"
