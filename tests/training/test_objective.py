"""The chunked objective against the objective as written (Eq. 10)."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from stair.stages.training import objective
from stair.stages.training.objective import ObjectiveParts, response_objective, response_objective_naive


def case(tokens: int, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Student and teacher states, the output layer, and targets."""
    generator = torch.Generator().manual_seed(seed)
    student, teacher = (torch.randn(tokens, 12, generator=generator, dtype=dtype) for _ in range(2))
    head = torch.randn(37, 12, generator=generator, dtype=dtype)
    targets = torch.randint(0, 37, (tokens,), generator=generator)
    return student.requires_grad_(), teacher, head, targets


def gradient(parts: ObjectiveParts, student: Tensor, scale: float = 1.0) -> Tensor:
    (found,) = torch.autograd.grad(parts.loss * scale, student)
    return found


@pytest.mark.parametrize(("tokens", "chunk"), [(1, 256), (7, 3), (7, 7), (8, 7), (13, 5), (300, 256), (9, 1)])
@pytest.mark.parametrize(("cross_entropy", "kl"), [(1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.3, 2.5)])
def test_values_and_gradients_are_the_written_ones(
    tokens: int, chunk: int, cross_entropy: float, kl: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objective, "CHUNK_TOKENS", chunk)
    student, teacher, head, targets = case(tokens)
    found = response_objective(student, teacher, head, targets, cross_entropy=cross_entropy, kl=kl)
    expected = response_objective_naive(student, teacher, head, targets, cross_entropy=cross_entropy, kl=kl)
    for one, other in zip(found, expected, strict=True):
        assert torch.allclose(one, other, rtol=1e-12, atol=1e-12)
    assert torch.allclose(gradient(found, student, 0.7), gradient(expected, student, 0.7), rtol=1e-11, atol=1e-13)


def test_the_written_objective_is_cross_entropy_and_divergence_from_the_native_model() -> None:
    student, teacher, head, targets = case(11)
    parts = response_objective_naive(student, teacher, head, targets)
    logits, native = student @ head.T, teacher @ head.T
    ce = torch.nn.functional.cross_entropy(logits, targets)
    kl = torch.nn.functional.kl_div(
        logits.log_softmax(-1), native.log_softmax(-1), reduction="batchmean", log_target=True
    )
    assert torch.allclose(parts.cross_entropy, ce)
    assert torch.allclose(parts.kl, kl)
    assert torch.allclose(parts.loss, ce + kl)


def test_a_student_that_is_its_teacher_diverges_by_nothing() -> None:
    student, _, head, targets = case(9)
    parts = response_objective(student, student.detach(), head, targets, cross_entropy=0.0)
    assert float(parts.kl) == pytest.approx(0.0, abs=1e-14)
    assert gradient(parts, student).abs().max() < 1e-14


def test_only_the_student_and_only_through_the_loss() -> None:
    student, teacher, head, targets = case(5)
    teacher.requires_grad_()
    head.requires_grad_()
    parts = response_objective(student, teacher, head, targets)
    assert not parts.cross_entropy.requires_grad
    assert not parts.kl.requires_grad
    parts.loss.backward()
    assert student.grad is not None
    assert teacher.grad is None
    assert head.grad is None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_sums_in_single_precision(dtype: torch.dtype) -> None:
    """The error stays within twice that of the written objective in the same precision."""
    exact = case(300)
    parts = response_objective_naive(*exact)
    wanted = gradient(parts, exact[0])
    low = [tensor.detach().to(dtype) if tensor.is_floating_point() else tensor for tensor in exact]
    errors = []
    for function in (response_objective, response_objective_naive):
        student = low[0].clone().requires_grad_()
        found = function(student, *low[1:])
        assert found.loss.dtype == torch.float32
        slope = gradient(found, student)
        assert slope.dtype == dtype
        errors.append(
            (
                float((found.loss.detach() - parts.loss.detach()).abs()),
                float((slope.double() - wanted).norm() / wanted.norm()),
            )
        )
    for chunked, written in zip(*errors, strict=True):
        assert chunked <= 2 * written + 1e-6
