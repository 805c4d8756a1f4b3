"""Test-time interventions on a trained read (appendix C.4): random directions, and permuted pairs of keys and values.

Both are functions of their names alone, drawn on the CPU: equal on every machine and in every batch.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor

from stair.method.controllers import Reflector


def random_reflector(layers: Sequence[int], query_heads: int, head_dim: int, seed: int) -> Reflector:
    """Return a reflector of fixed unit directions, uniform on the sphere, each a function of (seed, layer, query head).

    The normals are [layers, query_heads, head_dim], float32.
    """

    def direction(layer: int, head: int) -> Tensor:
        normal = torch.randn(head_dim, generator=_generator(f"direction {seed} {layer} {head}"), dtype=torch.float64)
        return normal / normal.norm()

    normals = [torch.stack([direction(layer, head) for head in range(query_heads)]) for layer in layers]
    return Reflector(layers, torch.stack(normals))


def permuted_order(seed: int, layer: int, kv_heads: int, entries: int, device: torch.device) -> Tensor:
    """Return [kv_heads, entries] int64: a permutation for each K/V head, a function of (seed, layer, head) alone.

    The K-V pairing control reads entry j's key with the value at order[head, j], for all query heads of a K/V head. Each
    answer has a `seed` of its own.
    """
    orders = [
        torch.randperm(entries, generator=_generator(f"pairing {seed} {layer} {head}")) for head in range(kv_heads)
    ]
    return torch.stack(orders).to(device)


def _generator(name: str) -> torch.Generator:
    """Return a generator on the CPU, seeded with the SHA-256 of a name."""
    digest = hashlib.sha256(name.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
