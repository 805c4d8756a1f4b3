"""The bounds of the paper's claims that the paper states in words alone."""

from __future__ import annotations

from pydantic import Field

from stair.config.field_types import Strict


class ClaimBounds(Strict):
    """Bounds of claims that the paper states without a number."""

    persisting_attention: float = Field(
        5.0, ge=0, le=100, description="Claim 4: attention to earlier responses persists above this share, in percent."
    )
    small_interaction: float = Field(
        5.0, ge=0, le=100, description="Claim 5: the interaction is small below this share of the energy, in percent."
    )
    comparable_reads: float = Field(
        0.5, gt=0, le=1, description="Claim 6: two reads are comparable where each is above this share of the other."
    )
