"""The kernel of the attention masses against the formula as written: on a GPU, elsewhere in Triton's interpreter."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
import torch
from torch import Tensor

from stair.stages.replay.measurement import naive
from stair.stages.replay.measurement.attention import Layer, Sources, attend
from stair.stages.replay.measurement.categories import CATEGORIES

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
CURRENT = CATEGORIES.index("current")
COLUMNS, BODIES = 70, ((2, 60), (64, 66), (10, 70))

pytestmark = pytest.mark.skipif(
    find_spec("triton") is None or not (GPU or os.environ.get("TRITON_INTERPRET") == "1"),
    reason="the kernel needs triton, and without a GPU TRITON_INTERPRET=1",
)


def drawn(prefix: list[int], dtype: torch.dtype, head_dim: int) -> tuple[Layer, Tensor]:
    generator = torch.Generator().manual_seed(len(prefix))

    def normal(*shape: int) -> Tensor:
        return (torch.randn(*shape, generator=generator) * 1.5).to(DEVICE, dtype)

    # Queries and keys as a model has them: the heads of a token side by side.
    layer = Layer(
        normal(3, COLUMNS, 4, head_dim).transpose(1, 2), normal(2, len(prefix), head_dim), normal(2, 0, head_dim),
        normal(3, COLUMNS, 2, head_dim).transpose(1, 2), normal(3, 2, 0, head_dim),
    )  # fmt: skip
    weights = torch.zeros(3, COLUMNS)
    for row, (start, end) in enumerate(BODIES):
        weights[row, start:end] = 1 / (end - start)
    return layer, weights.to(DEVICE)


@pytest.mark.parametrize("head_dim", [16, 128] if GPU else [16])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16] if GPU else [torch.float32])
@pytest.mark.parametrize("prefix", [[], [1], [2] * 64, [n // 7 % 3 for n in range(150)], [0] * 90 + [2] * 75], ids=len)
def test_masses_of_the_kernel_equal_naive_ones(prefix: list[int], dtype: torch.dtype, head_dim: int) -> None:
    from stair.stages.replay.measurement import mass_kernel

    layer, weights = drawn(prefix, dtype, head_dim)
    assert mass_kernel.takes(layer.q_BHTD)
    sources = Sources.of(prefix, torch.device(DEVICE))
    sorted_keys = layer.prefix_k_KPD.index_select(1, sources.order)
    found = mass_kernel.masses(layer.q_BHTD, sorted_keys, layer.k_BKTD, sources.ends, weights)
    assert (found.sum(-1) - 1).abs().max() < 1e-5
    if GPU:  # what measures replays takes it
        assert torch.equal(attend(layer, sources, weights)[0], found)
    behind = len(prefix)
    for row, (start, end) in enumerate(BODIES):
        keys = torch.cat([layer.prefix_k_KPD, layer.k_BKTD[row]], dim=1).double()
        queries = torch.cat([keys.new_zeros(4, behind, head_dim), layer.q_BHTD[row].double()], dim=1)
        of = [*prefix, *[CURRENT] * COLUMNS]
        expected = naive.masses(naive.probabilities(queries, keys), of, (behind + start, behind + end))
        assert (found[row].double() - expected).abs().max() < 1e-5
