"""No tensor of the streaming read grows with tokens x bank, forward or backward."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stair.method import differential_read
from stair.method.reads import streaming

HEADS, KV_HEADS, HEAD_DIM = 4, 2, 16


class LargestTensor(TorchDispatchMode):
    """Watches every operation inside, those of a backward too."""

    numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.numel = max(self.numel, leaf.untyped_storage().nbytes() // leaf.element_size())
        return out


def largest(tokens: int, bank: int, backend: str) -> int:
    queries = torch.randn(1, HEADS, tokens, HEAD_DIM, requires_grad=True)
    keys, values = torch.randn(2, 1, KV_HEADS, bank, HEAD_DIM)
    normals = torch.randn(HEADS, HEAD_DIM, requires_grad=True)
    with LargestTensor() as watched:
        differential_read(queries, keys, values, normals, backend=backend).sum().backward()
    return watched.numel


@pytest.mark.parametrize(("tokens", "bank"), [(256, 1024), (1024, 1024), (256, 8192)])
def test_memory_does_not_grow_with_tokens_times_bank(tokens: int, bank: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small tiles, so that small inputs show it: logits kept where 1 MiB holds enough of them, and not kept."""
    monkeypatch.setattr(streaming, "CPU_TILES", streaming.Tiles(rows=256, entries=128, kept=1 << 20))
    inputs = max(HEADS * tokens * HEAD_DIM, 2 * KV_HEADS * bank * HEAD_DIM)
    assert largest(tokens, bank, "torch") <= max(inputs, (1 << 20) // 4) < HEADS * tokens * bank / 2


def test_logits_are_kept_within_the_stated_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = streaming.CPU_TILES
    assert largest(512, 8192, "torch") <= tiles.kept // 4
    monkeypatch.setattr(streaming, "CPU_TILES", dataclasses.replace(tiles, kept=0))
    inputs = 2 * KV_HEADS * 8192 * HEAD_DIM
    assert largest(512, 8192, "torch") <= max(2 * tiles.rows * tiles.entries, inputs) < HEADS * 512 * 8192 / 8


def test_the_watch_sees_a_read_that_forms_the_matrix() -> None:
    assert largest(256, 1024, "naive") >= HEADS * 256 * 1024
