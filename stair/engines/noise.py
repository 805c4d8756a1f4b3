"""Counter-based noise: a number for each (seed, step, token id), whatever the batch, the order or the device.

The counter is mixed by SplitMix64's finaliser (Steele, Lea and Flood 2014), twice, in 64-bit wrapping integers.
"""

from __future__ import annotations

import torch

_GOLDEN = 0x9E3779B97F4A7C15
_OTHER = 0xD1B54A32D192ED03


def _signed(value: int) -> int:
    """The 64-bit pattern of an unsigned constant as torch's signed integer."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _shift(x: torch.Tensor, bits: int) -> torch.Tensor:
    """Logical right shift of 64-bit integers."""
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def _mix(x: torch.Tensor) -> torch.Tensor:
    x = (x ^ _shift(x, 30)) * _signed(0xBF58476D1CE4E5B9)
    x = (x ^ _shift(x, 27)) * _signed(0x94D049BB133111EB)
    return x ^ _shift(x, 31)


def uniform(seeds: torch.Tensor, steps: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Uniform numbers in (0, 1), float64 `[rows, candidates]`, never 0 or 1.

    Args:
        seeds: `[rows]` int64.
        steps: `[rows]` int64, the index of the token to draw within its response.
        ids: `[rows, candidates]` int64 token ids.
    """
    base = _mix(seeds + (steps + 1) * _signed(_GOLDEN))
    bits = _shift(_mix(base[:, None] + (ids + 1) * _signed(_OTHER)), 11)
    return (bits.double() + 0.5) * 2.0**-53


def gumbel(seeds: torch.Tensor, steps: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Standard Gumbel noise, float64; shapes as `uniform`. argmax(log p + noise) draws from p."""
    return -torch.log(-torch.log(uniform(seeds, steps, ids)))
