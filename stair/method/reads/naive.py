"""The read exactly as the paper prints it (Eqs. 5 to 9 and Eq. 19): slow, and the measure of the other backends."""

from __future__ import annotations

import torch
from torch import Tensor

from stair.core import Readout

FLOOR = 1e-8


def unit_normals(normals: Tensor, dtype: torch.dtype) -> Tensor:
    """Normalise raw `normals` [..., head_dim] with the norm's floor 1e-8, in float32 or `dtype`, whichever is wider."""
    wide = normals.to(torch.promote_types(torch.promote_types(normals.dtype, dtype), torch.float32))
    return wide / wide.norm(dim=-1, keepdim=True).clamp_min(FLOOR)


def displacement(queries: Tensor, units: Tensor) -> Tensor:
    """Return c = q^R - q = -2 u (u.q) for `queries` [..., heads, tokens, head_dim] and `units` [heads, head_dim]."""
    return -2.0 * (queries * units[:, None, :]).sum(-1, keepdim=True) * units[:, None, :]


def difference_weights(
    queries: Tensor, keys: Tensor, units: Tensor, *, smoothing: float, centered: bool = True
) -> tuple[Tensor, Tensor]:
    """Return (pi^R, pi^ref), each [heads, tokens, bank], for `queries` [heads, tokens, head_dim], `keys` [heads, bank, head_dim].

    `centered` subtracts the reference-weighted key mean from the keys first (Eq. 19); otherwise Eq. 7 as it stands.
    """
    scale = queries.shape[-1] ** -0.5
    reflected = queries + displacement(queries, units.to(queries.dtype))
    change = reflected - queries
    softmax = torch.softmax(queries @ keys.mT * scale, dim=-1)
    reference = (1.0 - smoothing) * softmax + smoothing / keys.shape[-2]
    logits = change @ keys.mT
    if centered:
        logits = logits - (change * (reference @ keys)).sum(-1, keepdim=True)
    return torch.softmax(reference.log() + logits * scale, dim=-1), reference


def read_row(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    units: Tensor,
    *,
    smoothing: float,
    variant: Readout,
    centered: bool = True,
) -> Tensor:
    """Return the read [heads, tokens, head_dim] of one row; keys and values [heads, bank, head_dim], one head a query head."""
    reflected, reference = difference_weights(queries, keys, units, smoothing=smoothing, centered=centered)
    return (reflected - reference if variant == "differential" else reflected) @ values


def read(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normals: Tensor,
    lengths: list[int],
    *,
    smoothing: float,
    variant: Readout,
    value_order: Tensor | None,
) -> Tensor:
    """The naive backend of `differential_read`; every row forms its tokens x bank matrices."""
    groups = queries.shape[1] // keys.shape[1]
    keys, values = keys.detach(), values.detach()
    units = unit_normals(normals, queries.dtype)
    rows = []
    for row, length in enumerate(lengths):
        if length == 0:
            rows.append(torch.zeros_like(queries[row]))
            continue
        bank_values = values[row, :, :length]
        if value_order is not None:
            order = value_order[row, :, :length, None].expand_as(bank_values)
            bank_values = bank_values.gather(1, order)
        rows.append(
            read_row(
                queries[row],
                keys[row, :, :length].repeat_interleave(groups, dim=0),
                bank_values.repeat_interleave(groups, dim=0),
                units,
                smoothing=smoothing,
                variant=variant,
            )
        )
    return torch.stack(rows)
