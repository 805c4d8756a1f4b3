"""The differential read of a bank (Eqs. 5 to 9): one name, three backends."""

from __future__ import annotations

import importlib.util
from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor

from stair.core import SMOOTHING, Readout, check_smoothing
from stair.method.reads import naive, streaming

Backend = Literal["auto", "naive", "torch", "triton"]


def differential_read(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normals: Tensor,
    *,
    bank_lengths: Tensor | None = None,
    smoothing: float = SMOOTHING,
    backend: Backend = "auto",
    variant: Readout = "differential",
    value_order: Tensor | None = None,
) -> Tensor:
    """Return the reflected read of the bank minus its reference read (Eq. 9), [batch, query_heads, tokens, head_dim].

    queries       [batch, query_heads, tokens, head_dim], with the auxiliary RoPE applied
    keys, values  [batch, kv_heads, bank, head_dim], keys with the auxiliary RoPE applied; constants, no gradient reaches them
    normals       [query_heads, head_dim], raw; normalised inside, in float32 or the inputs' precision if that is higher
    bank_lengths  [batch] integers: row b reads its first bank_lengths[b] entries only; None reads all. Length 0 reads zero
    smoothing     the paper's epsilon, from 1e-12 to 1
    backend       `naive` (the paper's equations as printed), `torch` (streaming), `triton` (fused, CUDA), or `auto`
    variant       `differential`, or `direct` for the reflected read r^R alone
    value_order   [batch, kv_heads, bank] integers: entry j carries the value at value_order[..., j] instead of its own

    The result has the queries' dtype; sums are float32 or wider. Differentiable in queries and normals.
    Raises ValueError for shapes, dtypes, lengths or an order that do not fit, and for an unknown or unusable backend.
    """
    _check(queries, keys, values, normals, smoothing)
    lengths = _lengths(keys, bank_lengths)
    if value_order is not None:
        _check_order(value_order, keys, lengths)
    if variant not in get_args(Readout):
        raise ValueError(f"variant is 'differential' or 'direct', not {variant!r}")
    options: ReadOptions = {"smoothing": smoothing, "variant": variant, "value_order": value_order}
    return read_rows(queries, keys, values, normals, lengths, backend, options)


def read_rows(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    normals: Tensor,
    lengths: list[int],
    backend: Backend,
    options: ReadOptions,
) -> Tensor:
    """`differential_read` of arguments that are known to fit: the check of an order waits for the device."""
    chosen = choose_backend(backend, queries)
    if not any(lengths):
        return _nothing(queries, normals)
    # Autocast would round the products to 16 bits.
    with torch.autocast(queries.device.type, enabled=False):
        if chosen == "triton":
            from stair.method.reads import fused

            return fused.read(queries, keys, values, normals, lengths, **options)
        module = naive if chosen == "naive" else streaming
        return module.read(queries, keys, values, normals, lengths, **options)


class ReadOptions(TypedDict):
    """What every backend takes besides the tensors."""

    smoothing: float
    variant: Readout
    value_order: Tensor | None


def choose_backend(backend: Backend, queries: Tensor) -> Literal["naive", "torch", "triton"]:
    """Return the backend to use: `auto` is `triton` on CUDA where it is installed and takes these queries, else `torch`.

    Raises ValueError for an unknown backend, and for `triton` where it cannot be used.
    """
    if backend not in ("auto", "naive", "torch", "triton"):
        raise ValueError(f"backend is 'auto', 'naive', 'torch' or 'triton', not {backend!r}")
    if backend in ("naive", "torch"):
        return backend
    if importlib.util.find_spec("triton") is None:
        if backend == "triton":
            raise ValueError("backend 'triton' needs the package triton, which is not installed here")
        return "torch"
    if backend == "triton":
        return "triton"
    if not queries.is_cuda:
        return "torch"
    from stair.method.reads import fused

    return "torch" if fused.unsupported(queries) else "triton"


def _nothing(queries: Tensor, normals: Tensor) -> Tensor:
    """Zeros of the queries' shape, with gradients of zero: a loss over empty banks alone is no error."""
    everywhere = torch.ones((), dtype=torch.bool, device=queries.device)
    return queries.masked_fill(everywhere, 0.0) + normals.to(queries).masked_fill(everywhere, 0.0).sum()


def _lengths(keys: Tensor, bank_lengths: Tensor | None) -> list[int]:
    batch, bank = keys.shape[0], keys.shape[2]
    if bank_lengths is None:
        return [bank] * batch
    if bank_lengths.shape != (batch,) or bank_lengths.is_floating_point():
        raise ValueError(
            f"bank_lengths has to give {batch} lengths, integers [{batch}], not "
            f"{list(bank_lengths.shape)} {bank_lengths.dtype}"
        )
    lengths = [int(length) for length in bank_lengths.tolist()]
    if any(not 0 <= length <= bank for length in lengths):
        raise ValueError(f"bank_lengths has to give {batch} lengths from 0 to {bank}, not {lengths}")
    return lengths


def _check_order(order: Tensor, keys: Tensor, lengths: list[int]) -> None:
    """On a GPU nothing else would stop a read beyond a row's values."""
    if order.shape != keys.shape[:3] or order.dtype not in (torch.int32, torch.int64):
        raise ValueError(
            f"value_order has shape {list(order.shape)}, {order.dtype}; these keys need integers {list(keys.shape[:3])}"
        )
    for row, length in enumerate(lengths):
        used = order[row, :, :length]
        if length and not 0 <= int(used.min()) <= int(used.max()) < length:
            raise ValueError(f"value_order of row {row} leaves its {length} entries")


def _check(queries: Tensor, keys: Tensor, values: Tensor, normals: Tensor, smoothing: float) -> None:
    if queries.dim() != 4 or keys.dim() != 4 or keys.shape != values.shape:
        raise ValueError(
            f"queries {list(queries.shape)}, keys {list(keys.shape)}, values {list(values.shape)} do not fit"
        )
    batch, heads, _, head_dim = queries.shape
    if keys.shape[0] != batch or keys.shape[3] != head_dim or heads % keys.shape[1]:
        raise ValueError(f"queries {list(queries.shape)} and keys {list(keys.shape)} do not fit")
    if normals.shape != (heads, head_dim):
        raise ValueError(f"normals have shape {list(normals.shape)}; these queries need {[heads, head_dim]}")
    if queries.dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(f"queries are float16, bfloat16, float32 or float64, not {queries.dtype}")
    if not queries.dtype == keys.dtype == values.dtype:
        raise ValueError(f"queries, keys and values have one dtype, not {queries.dtype}, {keys.dtype}, {values.dtype}")
    check_smoothing(smoothing)
