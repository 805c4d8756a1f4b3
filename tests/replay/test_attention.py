"""Attention masses (appendix A.2) and historical reads (appendix A.6) beside the formulas as written."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from stair.stages.replay.measurement import naive
from stair.stages.replay.measurement.attention import Layer, masses_and_reads
from stair.stages.replay.measurement.categories import CATEGORIES

HEADS, KV_HEADS, COLUMNS, DIM, HIDDEN, PROBLEMS = 4, 2, 9, 8, 12, 3
BODIES = ((2, 7), (1, 3), (2, 9))
TOLERANCE = {torch.float64: 1e-12, torch.float32: 2e-6}
CURRENT = CATEGORIES.index("current")


def drawn(prefix: int, dtype: torch.dtype, gated: bool) -> tuple[Layer, list[int], Tensor, Tensor]:
    """A layer, the prefix's categories, the weights of the bodies and an output projection."""
    generator = torch.Generator().manual_seed(prefix)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) * 1.5

    layer = Layer(
        normal(PROBLEMS, HEADS, COLUMNS, DIM), normal(KV_HEADS, prefix, DIM), normal(KV_HEADS, prefix, DIM),
        normal(PROBLEMS, KV_HEADS, COLUMNS, DIM), normal(PROBLEMS, KV_HEADS, COLUMNS, DIM),
        normal(PROBLEMS, COLUMNS, HEADS, DIM) if gated else None,
    )  # fmt: skip
    kinds = torch.randint(0, CURRENT, (prefix,), generator=generator).tolist()
    weights = torch.zeros(PROBLEMS, COLUMNS, dtype=dtype)
    for row, (start, end) in enumerate(BODIES):
        weights[row, start:end] = 1 / (end - start)
    return layer, kinds, weights, normal(HIDDEN, HEADS * DIM)


def sources_of(kinds: list[int]) -> list[Tensor]:
    return [
        torch.tensor([place for place, own in enumerate(kinds) if own == kind], dtype=torch.long)
        for kind in range(CURRENT)
    ]


def naive_cell(layer: Layer, kinds: list[int], projection: Tensor, row: int) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities, masses and reads of one problem; positions of the prefix ask nothing."""
    prefix, columns = len(kinds), layer.k_BKTD.shape[2]
    keys = torch.cat([layer.prefix_k_KPD, layer.k_BKTD[row]], dim=1)
    values = torch.cat([layer.prefix_v_KPD, layer.v_BKTD[row]], dim=1)
    queries = torch.cat([layer.q_BHTD.new_zeros(HEADS, prefix, DIM), layer.q_BHTD[row]], dim=1)
    gate = None
    if layer.gate_BTHD is not None:
        gate = torch.cat([layer.gate_BTHD.new_zeros(prefix, HEADS, DIM), layer.gate_BTHD[row]])
    of = [*kinds, *[CURRENT] * columns]
    body = (prefix + BODIES[row][0], prefix + BODIES[row][1])
    alpha = naive.probabilities(queries, keys)
    return alpha, naive.masses(alpha, of, body), naive.reads(alpha, values, projection, of, body, gate)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["fp64", "fp32"])
@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
@pytest.mark.parametrize("prefix", [0, 1, 40])
def test_masses_and_reads_equal_naive_ones(dtype: torch.dtype, gated: bool, prefix: int) -> None:
    layer, kinds, weights, projection = drawn(prefix, dtype, gated)
    sources = sources_of(kinds)
    masses, reads = masses_and_reads(layer, sources, weights, projection)
    assert reads is not None
    assert masses.dtype == reads.dtype == dtype
    for row in range(PROBLEMS):
        alpha, expected_masses, expected_reads = naive_cell(layer, kinds, projection, row)
        assert (alpha.sum(-1) - 1).abs().max() < TOLERANCE[dtype]
        assert (masses[row] - expected_masses).abs().max() < TOLERANCE[dtype]
        assert (reads[row] - expected_reads).norm() / expected_reads.norm() < TOLERANCE[dtype]
    assert (masses.sum(-1) - 1).abs().max() < TOLERANCE[dtype]
    alone, nothing = masses_and_reads(layer, sources, weights)
    assert nothing is None
    assert torch.equal(alone, masses)


@pytest.mark.parametrize("gated", [False, True], ids=["plain", "gated"])
def test_bf16_states_are_attended_in_fp32(gated: bool) -> None:
    layer, kinds, weights, projection = drawn(40, torch.bfloat16, gated)
    masses, reads = masses_and_reads(layer, sources_of(kinds), weights.float(), projection)
    assert reads is not None
    assert masses.dtype == reads.dtype == torch.float32
    wide = Layer(*(None if part is None else part.float() for part in vars(layer).values()))  # type: ignore[arg-type]
    rounded = weights.float()
    for row in range(PROBLEMS):
        _, expected_masses, expected_reads = naive_cell(wide, kinds, projection.float(), row)
        scale = rounded[row].sum()  # BF16 rounds 1 / |T_x|
        assert (masses[row] / scale - expected_masses).abs().max() < TOLERANCE[torch.float32]
        assert (reads[row] / scale - expected_reads).norm() / expected_reads.norm() < TOLERANCE[torch.float32]


def test_large_logits_do_not_overflow() -> None:
    layer, kinds, weights, projection = drawn(40, torch.float32, False)
    layer = replace(layer, q_BHTD=layer.q_BHTD * 1e4)
    masses, reads = masses_and_reads(layer, sources_of(kinds), weights, projection)
    assert reads is not None and torch.isfinite(reads).all()
    assert (masses.sum(-1) - 1).abs().max() < 1e-5


def test_columns_outside_the_bodies_count_for_nothing() -> None:
    layer, kinds, weights, projection = drawn(40, torch.float32, True)
    sources = sources_of(kinds)
    expected = masses_and_reads(layer, sources, weights, projection)
    changed = layer.k_BKTD.clone()
    changed[1, :, BODIES[1][1] :] = 7.0  # the padding of a shorter problem
    attended = masses_and_reads(replace(layer, k_BKTD=changed), sources, weights, projection)
    for one, other in zip(attended, expected, strict=True):
        assert one is not None and other is not None
        assert torch.equal(one[1], other[1])
