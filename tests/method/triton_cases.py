"""The fused read against the equations. Run by test_triton.py in a process of its own, whose environment Triton looks at."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from method_cases import random_case, relative
from torch import Tensor
from transformers import PreTrainedModel

from benchmarks import one_pass_kernel
from stair.method import Attachment, Read, differential_read
from stair.method.differential import Backend
from stair.method.reads import fused, naive
from stair.method.reads.fused import Launch, Launches
from stair.method.reads.naive import unit_normals

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
CASES = {
    "plain": {},
    "direct": {"variant": "direct"},
    "heavy smoothing": {"smoothing": 0.3},
    "least smoothing": {"smoothing": 1e-12},
    "lengths differ": {"bank_lengths": torch.tensor([40, 21])},
    "a bank is empty": {"bank_lengths": torch.tensor([0, 40])},
    "permuted values": {"value_order": "random"},
}


def reduce_by_slices(reduction: Any, parts: tuple[Any, ...]) -> list[Any]:
    """Combines whole slices of `parts` along the axis, in their order, with the kernel's own function.

    Triton's interpreter does the same for one element after another, which takes most of its time.
    """
    assert reduction.axis is not None and not reduction.keep_dims
    arrays = [np.moveaxis(part.handle.data, reduction.axis, 0) for part in parts]
    slices = [
        tuple(reduction.to_tensor(array, part.dtype) for array, part in zip(each, parts, strict=True))
        for each in zip(*arrays, strict=True)
    ]
    return list(functools.reduce(lambda total, each: reduction.combine_fn.fn(*total, *each), slices))


if not CUDA:
    from triton.runtime.interpreter import ReduceOps

    ReduceOps.generic_reduce = reduce_by_slices


def random_inputs(dtype: torch.dtype, sharpness: float = 1.0, head_dim: int = 16) -> list[Tensor]:
    """Queries, keys, values, normals and the output's gradient; 2 rows, 2 K/V heads of 2, 17 tokens, 40 entries."""
    generator = torch.Generator().manual_seed(0)
    shapes = ((2, 4, 17, head_dim), (2, 2, 40, head_dim), (2, 2, 40, head_dim), (4, head_dim), (2, 4, 17, head_dim))
    queries, keys, values, normals, gradient = (torch.randn(*shape, generator=generator) for shape in shapes)
    tensors = [(queries * sharpness).to(dtype), keys.to(dtype), values.to(dtype), normals, gradient.to(dtype)]
    return [tensor.to(DEVICE) for tensor in tensors]


def with_gradients(read: Callable[..., Tensor], tensors: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    queries, keys, values, normals, gradient = tensors
    queries, normals = queries.clone().requires_grad_(), normals.clone().requires_grad_()
    out = read(queries, keys, values, normals)
    return out, *torch.autograd.grad(out, (queries, normals), gradient)


def small_tiles() -> Launches:
    """Tiles small enough that 17 tokens and 40 entries make several, whole and partial, in several splits."""
    return Launches(Launch(16, 16, 4, 1, 2), Launch(16, 32, 4, 1, 1), Launch(16, 16, 4, 1, 3))


@pytest.mark.parametrize("name", CASES)
def test_fused_equals_the_equations(name: str) -> None:
    options = {"smoothing": 1e-6, "variant": "differential", "value_order": None, **CASES[name]}
    lengths = options.pop("bank_lengths", torch.tensor([40, 40])).tolist()
    if options["value_order"] is not None:
        order = [torch.randperm(40, generator=torch.Generator().manual_seed(seed)) for seed in range(4)]
        options["value_order"] = torch.stack(order).view(2, 2, 40).to(DEVICE)
    tensors = random_inputs(torch.float32)
    for row, length in enumerate(lengths):  # what lies past a row's bank is not read
        tensors[1][row, :, length:] = tensors[2][row, :, length:] = float("nan")
    found = with_gradients(lambda *x: fused.read(*x, lengths, **options, launches=small_tiles()), tensors)
    expected = with_gradients(lambda *x: naive.read(*x, lengths, **options), [tensor.double() for tensor in tensors])
    for one, other in zip(found, expected, strict=True):
        assert relative(one, other) < 1e-5


def test_half_precision_errs_at_most_twice_as_much_as_the_naive_form() -> None:
    tensors = random_inputs(torch.bfloat16 if CUDA else torch.float16)
    found = with_gradients(lambda *x: differential_read(*x, backend="triton"), tensors)
    low = with_gradients(lambda *x: differential_read(*x, backend="naive"), tensors)
    exact = with_gradients(lambda *x: differential_read(*x, backend="naive"), [tensor.double() for tensor in tensors])
    for one, plain, wanted in zip(found, low, exact, strict=True):
        assert relative(one, wanted) <= 2.0 * relative(plain, wanted)


@pytest.mark.parametrize(("heads", "kv_heads", "head_dim"), [(32, 8, 128), (16, 4, 256)], ids=["qwen3", "qwen3_5"])
def test_the_launches_of_real_heads_err_at_most_twice_as_much_as_the_naive_form(
    heads: int, kv_heads: int, head_dim: int
) -> None:
    """With the tiles that a model's read takes; on a GPU in bfloat16 over a bank of several splits."""
    groups = heads // kv_heads
    tokens, bank, kv_heads = (250, 5003, kv_heads) if CUDA else (130, 150, 1)
    heads, dtype = groups * kv_heads, torch.bfloat16 if CUDA else torch.float16
    generator = torch.Generator().manual_seed(head_dim)
    shapes = ((1, heads, tokens, head_dim), (1, kv_heads, bank, head_dim), (1, kv_heads, bank, head_dim))
    queries, keys, values = (torch.randn(*shape, generator=generator).to(DEVICE, dtype) for shape in shapes)
    normals = torch.randn(heads, head_dim, generator=generator).to(DEVICE)
    tensors = [queries, keys, values, normals, torch.randn(shapes[0], generator=generator).to(DEVICE, dtype)]
    found = with_gradients(lambda *x: differential_read(*x, backend="triton"), tensors)
    low = with_gradients(lambda *x: differential_read(*x, backend="naive"), tensors)
    exact = with_gradients(lambda *x: differential_read(*x, backend="naive"), [tensor.double() for tensor in tensors])
    for one, plain, wanted in zip(found, low, exact, strict=True):
        assert relative(one, wanted) <= 2.0 * relative(plain, wanted)


@pytest.mark.parametrize("smoothing", [1e-6, 1e-12])
def test_reads_that_share_no_entry(smoothing: float) -> None:
    """Logits of several hundred, and queries along their normals; a float32 logit of that size is itself rounded by 3e-5."""
    tensors = random_inputs(torch.float32)
    units = unit_normals(tensors[3], torch.float32)
    tensors[0] = 100.0 * torch.sign(tensors[0][..., :1]) * units[:, None]

    def read(backend: Backend) -> Callable[..., Tensor]:
        return lambda *x: differential_read(*x, backend=backend, smoothing=smoothing)

    found = with_gradients(read("triton"), tensors)
    exact = with_gradients(read("naive"), [tensor.double() for tensor in tensors])
    for one, wanted in zip(found, exact, strict=True):
        assert relative(one, wanted) < 3e-4


def test_the_one_pass_kernel_is_the_same_read() -> None:
    tensors = random_inputs(torch.float32)[:4]
    found = one_pass_kernel.read(*tensors, smoothing=1e-6, launch=Launch(16, 16, 4, 1, 2))
    assert relative(found, differential_read(*(tensor.double() for tensor in tensors), backend="naive")) < 1e-5


def test_a_model_reads_through_the_kernels(model: PreTrainedModel) -> None:
    if CUDA:
        model.to(DEVICE)
    case = random_case()
    ids, positions = case.ids.to(DEVICE), torch.arange(19)[None]
    case.reflector.to(DEVICE)
    found = {}
    for backend in ("torch", "triton"):
        control = Read(case.bank, case.reflector, (case.start, 19))
        with Attachment(model, (1, 3), backend=backend).controlling([control], positions), torch.no_grad():
            found[backend] = model(ids, attention_mask=torch.ones_like(ids)).logits
    torch.testing.assert_close(found["triton"], found["torch"], atol=1e-4, rtol=1e-3)


def test_what_the_kernels_do_not_take_is_named() -> None:
    tensors = random_inputs(torch.float32)[:4]
    with pytest.raises(ValueError, match=r"does not take torch\.float64"):
        differential_read(*(tensor.double() for tensor in tensors), backend="triton")
    with pytest.raises(ValueError, match="power of two"):
        differential_read(*(tensor[..., :12] for tensor in tensors), backend="triton")
