"""The read from three ordinary reads and their log-sum-exps, beside the project's own: time and error.

    python -m benchmarks.log_sum_exp                     on the CPU, one thread, float32
    python -m benchmarks.log_sum_exp --device cuda       on a GPU, bfloat16 and float16

With c = q^R - q, the reflected read is a mixture of the reads of q^R and of c (benchmarks/one_pass.py). So one call of an
attention kernel, with the queries q, q^R and c of a head side by side, gives both reads. On a GPU in 16 bits that kernel is
torch's own FlashAttention, elsewhere that of `stair.models.attention.attend`. Times are those of the fastest round; errors
are relative to the equations in float64, over the whole readout and the gradients of queries and normals.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.figures import Figures
from benchmarks.read import SHAPES, Inputs, Meter, measure
from stair.method import differential_read
from stair.method.reads.naive import unit_normals
from stair.models import attention

Read = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--banks", nargs="+", type=int, default=[2_048, 8_192], help="entries")
    parser.add_argument("--prompts", nargs="+", type=int, default=[64, 256], help="tokens")
    parser.add_argument("--rounds", type=int, default=3, help="at least so many of each call")
    parser.add_argument("--least-seconds", type=float, default=0.5, help="and more until so much time is used")
    parser.add_argument("--threads", type=int, default=1, help="CPU threads")
    Figures.add_argument(parser)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    figures = Figures(arguments.json)
    dtypes = [torch.bfloat16, torch.float16] if arguments.device == "cuda" else [torch.float32]
    for shape, bank, tokens, dtype in itertools.product(arguments.shapes, arguments.banks, arguments.prompts, dtypes):
        where = f"{shape}, bank {bank:,}, {tokens} tokens, {str(dtype).removeprefix('torch.')}"
        with figures.case(where):
            compare(arguments, where, Inputs.random(shape, bank, tokens, arguments.device, dtype), figures)
    figures.finish()


def compare(arguments: argparse.Namespace, where: str, inputs: Inputs, figures: Figures) -> None:
    """Print and record times and errors of both forms at one size."""
    forms: dict[str, Read] = {"project's own": differential_read, "log-sum-exp": read}
    calls: dict[str, Callable[[], object]] = {}
    for name, form in forms.items():
        calls[f"{name}, forward"] = partial(form, inputs.queries, inputs.keys, inputs.values, inputs.normals)
        calls[f"{name}, both"] = partial(gradients, form, inputs)
    timings = measure(calls, Meter(arguments.device), arguments.rounds, arguments.least_seconds)
    for name, (seconds, extra) in timings.items():
        show(figures, f"{where}, {name}", seconds * 1e3, "ms", f"+{extra:.1f} MiB")
    for part in ("forward", "both"):
        ratio = timings[f"log-sum-exp, {part}"][0] / timings[f"project's own, {part}"][0]
        show(figures, f"{where}, {part}: log-sum-exp over the project's own", ratio, "x")
    wide = Inputs(*(part.double() for part in vars(inputs).values()))
    exact = gradients(lambda *tensors: differential_read(*tensors, backend="naive"), wide)
    for name, form in forms.items():
        for of, found, wanted in zip(("readout", "queries", "normals"), gradients(form, inputs), exact, strict=True):
            error = float((found.double() - wanted).norm() / wanted.norm())
            show(figures, f"{where}, {name}: error of the {of}", error, "of its norm")


def show(figures: Figures, name: str, value: float, unit: str, note: str = "") -> None:
    print(f"{name:90} {value:10.4g} {unit}  {note}", flush=True)
    figures.add(name, value, unit, note=note)


def gradients(form: Read, inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """The readout, and the gradients of queries and normals for a gradient equal to the queries."""
    queries, normals = inputs.queries.detach().requires_grad_(), inputs.normals.detach().requires_grad_()
    out = form(queries, inputs.keys, inputs.values, normals)
    of_queries, of_normals = torch.autograd.grad(out, (queries, normals), inputs.queries)
    return out.detach(), of_queries, of_normals


def read(queries: Tensor, keys: Tensor, values: Tensor, normals: Tensor, *, smoothing: float = 1e-6) -> Tensor:
    """The differential read of one row, all of the bank; shapes as in `differential_read`. Differentiable as that."""
    _, heads, tokens, head_dim = queries.shape
    kv_heads, entries = keys.shape[1:3]
    wide = torch.promote_types(queries.dtype, torch.float32)
    units = unit_normals(normals, queries.dtype).to(wide)[:, None]
    query = queries[0].to(wide)
    change = -2 * (query * units).sum(-1, keepdim=True) * units
    three = torch.stack((query, query + change, change), 1).to(queries.dtype)
    out, sums = attend(three.reshape(kv_heads, -1, head_dim), keys[0], values[0])
    plain, reflected, changed = out.to(wide).reshape(heads, 3, tokens, head_dim).unbind(1)
    of_plain, of_reflected, of_changed = sums.reshape(heads, 3, tokens, 1).unbind(1)
    odds = math.log1p(-smoothing) + of_reflected - of_plain - math.log(smoothing / entries) - of_changed
    mean = values[0].to(wide).mean(1).repeat_interleave(heads // kv_heads, 0)[:, None]
    mixed = torch.lerp(changed, reflected, torch.sigmoid(odds))
    return (mixed - (1 - smoothing) * plain - smoothing * mean).to(queries.dtype)[None]


def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    """Attention `[heads, rows, head_dim]` and its log-sum-exp `[heads, rows]` in FP32; differentiable in `q`."""
    out, sums = _attend(q, k, v)
    if q.requires_grad:
        with torch.no_grad():
            mean_key, _ = _attend(q, k, k)
        sums = _LogSumExp.apply(q, sums.detach(), mean_key)
    return out, sums


class _LogSumExp(torch.autograd.Function):
    """The log-sum-exp of a kernel that gives it no gradient: d lse / dq is the scaled attention over the keys."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, sums: Tensor, mean_key: Tensor) -> Tensor:
        ctx.save_for_backward(mean_key)
        return sums

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (mean_key,) = ctx.saved_tensors
        return (gradient[..., None] * mean_key * mean_key.shape[-1] ** -0.5).to(mean_key), None, None


def _attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
    if not q.is_cuda or q.dtype.itemsize > 2:
        out, sums = attention.attend(q[None], k[None], v[None])
        return out[0], sums[0]
    from torch.nn.attention.varlen import AuxRequest, varlen_attn

    queries, keys, entries = (part.transpose(0, 1) for part in (q, k, v))
    of_queries, of_keys = (torch.tensor([0, len(part)], dtype=torch.int32, device=q.device) for part in (queries, keys))
    aux = AuxRequest(lse=True)
    out, sums = varlen_attn(queries, keys, entries, of_queries, of_keys, len(queries), len(keys), return_aux=aux)
    return out.transpose(0, 1), (sums if sums.shape[0] == len(q) else sums.T).float()


if __name__ == "__main__":
    main()
