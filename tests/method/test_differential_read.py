"""Every backend against the paper's equations as printed, and what the equations promise."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_cases import relative
from torch import Tensor

from benchmarks import one_pass
from stair.method import differential_read
from stair.method.reads import naive, streaming
from stair.method.reads.naive import unit_normals


@st.composite
def inputs(draw: st.DrawFn) -> dict[str, object]:
    """Random shapes: groups of query heads, rows of different lengths, an empty bank, a permutation, both variants."""
    kv_heads, groups = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    batch, tokens, bank = draw(st.integers(1, 2)), draw(st.integers(1, 9)), draw(st.integers(1, 70))
    head_dim = draw(st.sampled_from([2, 16, 128]))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    spread = draw(st.sampled_from([0.1, 1.0, 4.0]))  # how sharp the attention is

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    order = torch.stack([torch.randperm(bank, generator=generator) for _ in range(batch * kv_heads)])
    lengths = [bank, draw(st.integers(0, bank))][:batch]
    ordered = draw(st.booleans()) and min(lengths) == bank
    return {
        "queries": normal(batch, kv_heads * groups, tokens, head_dim) * spread,
        "keys": normal(batch, kv_heads, bank, head_dim) * spread,
        "values": normal(batch, kv_heads, bank, head_dim),
        "normals": normal(kv_heads * groups, head_dim),
        "spread": spread,
        "gradient": normal(batch, kv_heads * groups, tokens, head_dim),
        "options": {
            "bank_lengths": torch.tensor(lengths),
            "value_order": order.view(batch, kv_heads, bank) if ordered else None,
            "smoothing": draw(st.sampled_from([1e-6, 1e-2, 1e-12, 1.0])),
            "variant": draw(st.sampled_from(["differential", "direct"])),
        },
    }


def run(case: dict, backend: str, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """The read and its gradients in queries and normals. What lies past a row's bank is set to NaN: it is not read."""
    queries, keys, values = (case[name].to(dtype, copy=True) for name in ("queries", "keys", "values"))
    for row, length in enumerate(case["options"].get("bank_lengths", torch.tensor([])).tolist()):
        keys[row, :, length:] = values[row, :, length:] = torch.nan
    normals = case["normals"].to(torch.promote_types(dtype, torch.float32)).requires_grad_()
    queries.requires_grad_()
    out = differential_read(queries, keys, values, normals, backend=backend, **case["options"])
    assert out.dtype == dtype
    return out, *torch.autograd.grad(out, (queries, normals), case["gradient"].to(dtype))


@settings(deadline=None, max_examples=60)
@given(inputs())
def test_streaming_equals_the_equations(case: dict) -> None:
    expected = run(case, "naive", torch.float64)
    scale = float(case["values"].norm())
    for dtype, bound, rounding in ((torch.float64, 1e-10, 1e-13), (torch.float32, 1e-5, 1e-6)):
        if dtype == torch.float32 and case["spread"] > 1.0:
            continue  # logits of hundreds, which float32 rounds by more than the bound
        for found, wanted in zip(run(case, "torch", dtype), expected, strict=True):
            assert relative(found, wanted) < bound or float((found - wanted).detach().norm()) < rounding * scale


@pytest.mark.parametrize("variant", ["differential", "direct"])
@pytest.mark.parametrize("head_dim", [128, 256])
def test_float32_and_bfloat16_stay_close_to_float64(head_dim: int, variant: str) -> None:
    generator = torch.Generator().manual_seed(head_dim)
    case = {
        "queries": torch.randn(1, 4, 33, head_dim, generator=generator, dtype=torch.float64),
        "keys": torch.randn(1, 2, 1500, head_dim, generator=generator, dtype=torch.float64),
        "values": torch.randn(1, 2, 1500, head_dim, generator=generator, dtype=torch.float64),
        "normals": torch.randn(4, head_dim, generator=generator, dtype=torch.float64),
        "gradient": torch.randn(1, 4, 33, head_dim, generator=generator, dtype=torch.float64),
        "options": {"variant": variant},
    }
    for found, wanted in zip(run(case, "torch", torch.float32), run(case, "naive", torch.float64), strict=True):
        assert relative(found, wanted) < 1e-5
    # In bfloat16 the inputs are rounded first, so that only the arithmetic is compared.
    for name in ("queries", "keys", "values", "gradient"):
        case[name] = case[name].bfloat16().double()
    exact = run(case, "naive", torch.float64)
    low = run(case, "naive", torch.bfloat16)
    for found, plain, wanted in zip(run(case, "torch", torch.bfloat16), low, exact, strict=True):
        assert relative(found, wanted) <= 2.0 * relative(plain, wanted)


def one_row(tokens: int = 5, bank: int = 40, heads: int = 3, head_dim: int = 8) -> list[Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = ((1, heads, tokens, head_dim), (1, heads, bank, head_dim), (1, heads, bank, head_dim), (heads, head_dim))
    return [torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in shapes]


def test_the_centred_form_is_the_same_read() -> None:
    queries, keys, values, normals = one_row()
    units = unit_normals(normals, torch.float64)
    plain, centred = (
        naive.read_row(queries[0], keys[0], values[0], units, smoothing=1e-6, variant="differential", centered=centered)
        for centered in (False, True)
    )
    assert relative(centred, plain) < 1e-12


def test_difference_weights_sum_to_zero() -> None:
    """Equal values cancel, whatever the weights."""
    queries, keys, values, normals = one_row()
    for backend in ("naive", "torch"):
        out = differential_read(queries, keys, torch.ones_like(values), normals, backend=backend)
        assert out.abs().max() < 1e-14
        assert differential_read(queries, keys, values, normals, backend=backend).abs().max() > 1e-3


def test_a_normal_orthogonal_to_every_query_changes_nothing() -> None:
    queries, keys, values, normals = one_row()
    queries[..., 0] = 0.0
    normals = torch.zeros_like(normals)
    normals[:, 0] = 2.5
    for backend in ("naive", "torch"):
        assert differential_read(queries, keys, values, normals, backend=backend).abs().max() < 1e-15


def test_scaling_a_normal_changes_nothing() -> None:
    queries, keys, values, normals = one_row()
    out = differential_read(queries, keys, values, normals)
    assert relative(differential_read(queries, keys, values, normals * 37.0), out) < 1e-13
    assert relative(differential_read(queries, keys, values, -normals), out) < 1e-13


def test_a_zero_normal_meets_the_floor() -> None:
    queries, keys, values, normals = one_row()
    normals.zero_().requires_grad_()
    out = differential_read(queries, keys, values, normals)
    out.sum().backward()
    assert out.abs().max() < 1e-15
    assert torch.isfinite(normals.grad).all()


def test_the_direct_read_is_the_difference_plus_the_reference() -> None:
    queries, keys, values, normals = one_row()
    weights = torch.softmax(queries @ keys.mT * queries.shape[-1] ** -0.5, -1) * (1 - 1e-6) + 1e-6 / keys.shape[2]
    direct = differential_read(queries, keys, values, normals, variant="direct")
    assert relative(direct, differential_read(queries, keys, values, normals) + weights @ values) < 1e-12


@pytest.mark.parametrize("tiles", [(4, 7, 0), (4, 7, 1 << 20), (512, 7, 1 << 20), (512, 512, 0), (512, 512, 1 << 20)])
def test_the_size_of_tiles_does_not_matter(tiles: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    queries, keys, values, normals = one_row(tokens=13, bank=101)
    monkeypatch.setattr(streaming, "CPU_TILES", streaming.Tiles(*tiles))
    wanted = differential_read(queries, keys, values, normals, backend="naive")
    assert relative(differential_read(queries, keys, values, normals, backend="torch"), wanted) < 1e-12


def test_extreme_logits_stay_finite() -> None:
    """Logits of several hundred, where exponentials without their maximum overflow."""
    queries, keys, values, normals = (tensor.float() for tensor in one_row())
    queries = (queries * 60).requires_grad_()
    normals.requires_grad_()
    out = differential_read(queries, keys * 60, values, normals)
    out.square().sum().backward()
    assert torch.isfinite(out).all()
    assert torch.isfinite(queries.grad).all()
    assert torch.isfinite(normals.grad).all()
    wanted = differential_read(queries.double(), keys.double() * 60, values.double(), normals.double(), backend="naive")
    assert relative(out, wanted) < 1e-3


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normals": torch.zeros(2, 8)}, "normals have shape"),
        ({"bank_lengths": torch.tensor([41])}, "from 0 to 40"),
        ({"bank_lengths": torch.tensor([4, 4])}, "1 lengths"),
        ({"smoothing": 0.0}, "smoothing lies from 1e-12 to 1"),
        ({"backend": "cuda"}, "backend is"),
        ({"variant": "reflected"}, "variant is"),
        ({"bank_lengths": torch.tensor([3.5])}, "integers"),
        ({"bank_lengths": torch.tensor([[3]])}, "integers"),
        ({"value_order": torch.zeros(1, 3, 40)}, "need integers"),
        ({"value_order": torch.zeros(1, 3, 39, dtype=torch.long)}, "need integers"),
        ({"value_order": torch.full((1, 3, 40), 40)}, "leaves its 40 entries"),
        (
            {"value_order": torch.arange(40).flip(0).expand(1, 3, 40), "bank_lengths": torch.tensor([9])},
            "its 9 entries",
        ),
        ({"keys": torch.zeros(1, 2, 40, 8)}, "do not fit"),
        ({"values": torch.zeros(1, 3, 40, 8)}, "one dtype"),
        ({"queries": torch.zeros(1, 3, 5, 8, dtype=torch.long)}, "float64, not torch.int64"),
    ],
)
def test_what_does_not_fit_is_named(change: dict, message: str) -> None:
    queries, keys, values, normals = one_row()
    arguments = {"queries": queries, "keys": keys, "values": values, "normals": normals, **change}
    with pytest.raises(ValueError, match=message) as caught:
        differential_read(**arguments)
    assert "\n" not in str(caught.value)


def test_the_one_pass_form_is_the_same_read() -> None:
    queries, keys, values, normals = one_row(tokens=13, bank=101)
    for smoothing in (1e-6, 0.2):
        found = one_pass.read(queries, keys, values, normals, smoothing=smoothing, tiles=streaming.Tiles(12, 16))
        wanted = differential_read(queries, keys, values, normals, smoothing=smoothing, backend="naive")
        assert relative(found, wanted) < 1e-10


def turned_round() -> list[Tensor]:
    """Queries along their normals, so that reflection turns them round, and so sharp that the two reads share no entry."""
    queries, keys, values, normals = (tensor.float() for tensor in one_row(bank=200))
    return [80.0 * torch.sign(queries[..., :1]) * unit_normals(normals, torch.float32)[:, None], keys, values, normals]


@pytest.mark.parametrize("smoothing", [1e-6, 1e-12])
def test_a_query_along_its_normal_reads_the_other_end_of_the_bank(smoothing: float) -> None:
    tensors = turned_round()
    queries, *others = (tensor.double() for tensor in tensors)
    wanted = differential_read(queries, *others, backend="naive", smoothing=smoothing)
    assert relative(differential_read(*tensors, backend="torch", smoothing=smoothing), wanted) < 1e-4


@pytest.mark.parametrize("gaps", [(100.0, 120.0), (120.0, 140.0), (126.0, 155.0)])
def test_an_entry_far_above_those_before_it_keeps_its_weight(gaps: tuple[float, float]) -> None:
    """Logits that rise from block to block, and a reflection that turns the query from the last peak to the one before."""
    head_dim, width = 16, streaming.CPU_TILES.entries
    entries = 3 * width
    generator = torch.Generator().manual_seed(0)
    keys, values = (torch.randn(1, 1, entries, head_dim, generator=generator) for _ in range(2))
    keys *= 0.01
    queries, normals = torch.zeros(1, 1, 1, head_dim), torch.zeros(1, head_dim)
    queries[..., :2] = 10.0
    normals[0, 0] = 1.0
    for entry, logit, change in ((width + 88, gaps[0], 60.0), (2 * width + 176, gaps[1], 0.0)):  # to base 2
        scale = head_dim**0.5 * math.log(2.0)
        keys[0, 0, entry] = 0.0
        keys[0, 0, entry, 0] = -change * scale / 20.0
        keys[0, 0, entry, 1] = (logit + change / 2.0) * scale / 10.0
    tensors = (queries, keys, values, normals)
    wanted = differential_read(*(tensor.double() for tensor in tensors), backend="naive")
    assert relative(differential_read(*tensors, backend="torch"), wanted) < 1e-5


@pytest.mark.parametrize("spread", [0.1, 0.3, 1.0])
def test_a_small_difference_of_two_long_reads_is_not_lost(spread: float) -> None:
    """In float32, log N is the difference of logarithms as large as the bank's length: held to the equations in float32."""
    queries, keys, values, normals = (tensor.float() for tensor in one_row(bank=1500, head_dim=128))
    queries, keys = queries * spread, keys * spread
    wanted = differential_read(*(tensor.double() for tensor in (queries, keys, values, normals)), backend="naive")
    plain = relative(differential_read(queries, keys, values, normals, backend="naive"), wanted)
    assert relative(differential_read(queries, keys, values, normals, backend="torch"), wanted) < plain


@pytest.mark.parametrize("backend", ["naive", "torch"])
def test_autocast_does_not_reach_the_sums(backend: str) -> None:
    tensors = [tensor.float() for tensor in one_row()]
    plain = differential_read(*tensors, backend=backend)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(differential_read(*tensors, backend=backend), plain)


@pytest.mark.parametrize("backend", ["naive", "torch"])
def test_keys_and_values_are_constants(backend: str) -> None:
    tensors = [tensor.requires_grad_() for tensor in one_row()]
    differential_read(*tensors, backend=backend).sum().backward()
    assert [tensor.grad is not None for tensor in tensors] == [True, False, False, True]


@pytest.mark.parametrize("backend", ["naive", "torch"])
def test_empty_banks_alone_have_gradients_of_zero(backend: str) -> None:
    queries, keys, values, normals = one_row()
    queries.requires_grad_()
    normals.requires_grad_()
    empty = {"bank_lengths": torch.tensor([0])}
    for bank, options in (((keys, values), empty), ((keys[:, :, :0], values[:, :, :0]), {})):
        out = differential_read(queries, *bank, normals, backend=backend, **options)
        assert torch.equal(out, torch.zeros_like(queries))
        for gradient in torch.autograd.grad(out.sum(), (queries, normals)):
            assert gradient.abs().max() == 0.0
