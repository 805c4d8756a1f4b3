"""The token objective: cross entropy plus KL(native || student) over the full vocabulary (Eq. 10)."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

CHUNK_TOKENS = 256
"""Tokens of a chunk of the objective."""


# Rows of the output layer that are widened at once on a CPU: 80 MiB at 2,560 channels.
_WIDENED_ROWS = 8192


class ObjectiveParts(NamedTuple):
    """Means over a response's tokens."""

    loss: Tensor
    cross_entropy: Tensor
    kl: Tensor


def response_objective_naive(
    student: Tensor, teacher: Tensor, head: Tensor, targets: Tensor, *, cross_entropy: float = 1.0, kl: float = 1.0
) -> ObjectiveParts:
    """The objective as written, with whole `tokens x vocabulary` tensors; arguments as `response_objective`."""
    wide = torch.promote_types(student.dtype, torch.float32)
    student_log = (student.to(wide) @ head.to(wide).T).log_softmax(-1)
    teacher_log = (teacher.to(wide) @ head.to(wide).T).log_softmax(-1)
    ce = -student_log.gather(1, targets[:, None])[:, 0].mean()
    divergence = (teacher_log.exp() * (teacher_log - student_log)).sum(-1).mean()
    return ObjectiveParts(cross_entropy * ce + kl * divergence, ce.detach(), divergence.detach())


def response_objective(
    student: Tensor, teacher: Tensor, head: Tensor, targets: Tensor, *, cross_entropy: float = 1.0, kl: float = 1.0
) -> ObjectiveParts:
    """The objective of one response, averaged over its tokens, in chunks: no `tokens x vocabulary` tensor exists.

    The output layer is frozen, so the gradient of the hidden states is formed chunk by chunk in the forward pass.

    16-bit inputs: products have 16-bit operands and FP32 sums; logits are never rounded to 16 bits. The slope in the logits is
    rounded once, as an operand of its product with the output layer. The gradient of the hidden states stays FP32 until the
    backward pass, which multiplies it with the factor of the loss (w_r / |U|, Eq. 21) and rounds it once.

    Args:
        student: `[tokens, hidden]` last hidden states of the student at the positions that predict the targets.
        teacher: the same of the native teacher; detached.
        head: `[vocabulary, hidden]` weight of the output layer; gets no gradient.
        targets: `[tokens]` int64, the stored response.
        cross_entropy, kl: coefficients.

    Returns:
        Scalars in FP32 (FP64 for FP64 inputs).
    """
    loss, ce, divergence = _Chunked.apply(student, teacher, head, targets, cross_entropy, kl)
    return ObjectiveParts(loss, ce, divergence)


class _Chunked(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, student: Tensor, teacher: Tensor, head: Tensor, targets: Tensor, cross_entropy: float, kl: float
    ) -> tuple[Tensor, Tensor, Tensor]:
        wide = torch.promote_types(student.dtype, torch.float32)
        tokens = student.shape[0]
        needs_gradient = ctx.needs_input_grad[0]
        gradient = torch.empty_like(student, dtype=wide) if needs_gradient else student.new_empty(0)
        ce = torch.zeros((), dtype=wide, device=student.device)
        divergence = torch.zeros_like(ce)
        for start in range(0, tokens, CHUNK_TOKENS):
            part = slice(start, start + CHUNK_TOKENS)
            sums, slope = _chunk(
                student[part], teacher[part], head, targets[part, None], cross_entropy, kl, needs_gradient
            )
            ce, divergence = ce + sums[0], divergence + sums[1]
            if slope is not None:
                gradient[part] = _states(slope.to(head.dtype), head)
            del slope  # or it would live beside the next chunk's
        # Behind the product: 1 / tokens is no 16-bit number; -1, near which the target's slope lies, is.
        ctx.save_for_backward(gradient.div_(tokens))
        ctx.dtype = student.dtype
        ce, divergence = ce / tokens, divergence / tokens
        ctx.mark_non_differentiable(ce, divergence)
        return cross_entropy * ce + kl * divergence, ce, divergence

    @staticmethod
    def backward(ctx: Any, loss: Tensor, *_: Any) -> tuple[Tensor, None, None, None, None, None]:
        (gradient,) = ctx.saved_tensors
        scaled = torch.mul(gradient, loss, out=torch.empty_like(gradient, dtype=ctx.dtype))
        return scaled, None, None, None, None, None


def _chunk(
    student: Tensor, teacher: Tensor, head: Tensor, index: Tensor, cross_entropy: float, kl: float, needs_gradient: bool
) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
    """Sums of both parts over a chunk, and the slope of the objective in its logits; at most four wide tensors live."""
    wide = torch.promote_types(student.dtype, torch.float32)
    student_log = torch.log_softmax(_logits(student, head), -1)
    teacher_log = torch.log_softmax(_logits(teacher, head), -1)
    ce = -student_log.gather(1, index).sum()
    teacher_p = teacher_log.exp()
    divergence = teacher_log.sub_(student_log).mul_(teacher_p).sum()
    if not needs_gradient:
        return (ce, divergence), None
    # d(ce)/d(logits) = p_student - onehot; d(kl)/d(logits) = p_student - p_teacher.
    slope = student_log.exp_().mul_(cross_entropy + kl).sub_(teacher_p, alpha=kl)
    slope.scatter_add_(1, index, torch.full_like(index, -1, dtype=wide) * cross_entropy)
    return (ce, divergence), slope


def _logits(states: Tensor, head: Tensor) -> Tensor:
    """`states @ head.T` [tokens, vocabulary] in FP32 or wider, from 16-bit operands too."""
    if not _narrow(states):
        return states @ head.T
    if states.is_cuda:
        return torch.mm(states, head.T, out_dtype=torch.float32)
    logits = torch.empty(len(states), len(head), dtype=torch.float32, device=states.device)
    wide = states.float()
    for start in range(0, len(head), _WIDENED_ROWS):
        rows = slice(start, start + _WIDENED_ROWS)
        logits[:, rows] = wide @ head[rows].float().T
    return logits


def _states(slope: Tensor, head: Tensor) -> Tensor:
    """`slope @ head` [tokens, hidden] in FP32 or wider, as `_logits`."""
    if not _narrow(slope):
        return slope @ head
    if slope.is_cuda:
        return torch.mm(slope, head, out_dtype=torch.float32)
    states = torch.zeros(len(slope), head.shape[1], dtype=torch.float32, device=slope.device)
    for start in range(0, len(head), _WIDENED_ROWS):
        rows = slice(start, start + _WIDENED_ROWS)
        states.addmm_(slope[:, rows].float(), head[rows].float())
    return states


def _narrow(tensor: Tensor) -> bool:
    return tensor.element_size() < 4
