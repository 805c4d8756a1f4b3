from __future__ import annotations

from pydantic import Field

from stair.config.field_types import Strict


class ClaimBounds(Strict):
    """Bounds of claims that the paper states without a number."""

    persisting_attention: float = Field(5.0, ge=0, le=100)
    small_interaction: float = Field(5.0, ge=0, le=100)
    comparable_reads: float = Field(0.5, gt=0, le=1)
