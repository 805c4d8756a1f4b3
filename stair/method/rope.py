"""Rotary position encoding of the auxiliary branch (Eq. 4), with angles in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from stair.models.rope_settings import Llama3Scaling


@dataclass(frozen=True)
class Rotary:
    """A model's RoPE: channel pairs (i, i + rotary_dim / 2) turn by position * theta ** (-2 i / rotary_dim), scaled by `scaling`.

    Channels from `rotary_dim` on stay as they are. Auxiliary positions pass 300,000, where a float32 angle is off by
    about 0.02 rad; so angles are float64, and only cosines and sines are rounded.
    """

    rotary_dim: int
    theta: float
    scaling: Llama3Scaling | None = None

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """Rotate `x` [..., tokens, head_dim] to `positions` [tokens] (integers); shape and dtype stay.

        The arithmetic is float32, float64 for float64 input; the result is rounded once. Differentiable in `x`.
        """
        half = self.rotary_dim // 2
        exponents = torch.arange(half, dtype=torch.float64, device=x.device) * (-2.0 / self.rotary_dim)
        # Filled there: a number that is copied to a GPU would hold up the host until all queued before it is done.
        frequencies = torch.full((), self.theta, dtype=torch.float64, device=x.device) ** exponents
        if self.scaling is not None:
            frequencies = self.scaling.scaled(frequencies)
        angles = positions.to(device=x.device, dtype=torch.float64)[:, None] * frequencies
        working = torch.float64 if x.dtype == torch.float64 else torch.float32
        cos, sin = angles.cos().to(working), angles.sin().to(working)
        first, second = x[..., :half].to(working), x[..., half : self.rotary_dim].to(working)
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)
        if self.rotary_dim == x.shape[-1]:
            return turned
        return torch.cat((turned, x[..., self.rotary_dim :]), dim=-1)
