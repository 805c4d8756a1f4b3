"""No tensor of the streaming read grows with tokens x bank, forward or backward."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from stair.method import differential_read

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


@pytest.mark.parametrize(("tokens", "bank"), [(256, 4096), (1024, 4096), (256, 16384)])
def test_memory_does_not_grow_with_tokens_times_bank(tokens: int, bank: int) -> None:
    inputs = max(HEADS * tokens * HEAD_DIM, 2 * KV_HEADS * bank * HEAD_DIM)
    tiles = 3 * 512 * 512
    assert largest(tokens, bank, "torch") <= max(inputs, tiles) < HEADS * tokens * bank / 2


def test_the_watch_sees_a_read_that_forms_the_matrix() -> None:
    assert largest(256, 4096, "naive") >= HEADS * 256 * 4096
