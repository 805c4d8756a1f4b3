"""The Householder reflection of a query (Eq. 5)."""

from __future__ import annotations

import torch
from torch import Tensor

FLOOR = 1e-8


def unit_normals(normals: Tensor, dtype: torch.dtype) -> Tensor:
    """Normalise raw `normals` [..., head_dim] with the norm's floor 1e-8, in float32 or `dtype`, whichever is wider."""
    wide = normals.to(torch.promote_types(torch.promote_types(normals.dtype, dtype), torch.float32))
    return wide / wide.norm(dim=-1, keepdim=True).clamp_min(FLOOR)


def displacement(queries: Tensor, units: Tensor) -> Tensor:
    """Return c = q^R - q = -2 u (u.q) for `queries` [..., heads, tokens, head_dim] and `units` [heads, head_dim]."""
    return -2.0 * (queries * units[:, None, :]).sum(-1, keepdim=True) * units[:, None, :]
