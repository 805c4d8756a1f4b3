"""The objective in BF16: FP32 logits, and one rounding of the gradient with its response weight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from stair.stages.training import objective
from stair.stages.training.objective import response_objective, response_objective_naive

TOKENS, HIDDEN, VOCABULARY = 40, 96, 700


@pytest.fixture(
    params=["cpu", pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU"))],
    autouse=True,
)
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every tensor of a test is made here: a GPU forms FP32 sums by another call than a CPU."""
    with torch.device(request.param):
        yield


def case() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Student, teacher and output layer in BF16, logits of standard deviation 3, and targets."""
    generator = torch.Generator(torch.get_default_device()).manual_seed(0)
    student, noise = (torch.randn(TOKENS, HIDDEN, generator=generator) for _ in range(2))
    head = torch.randn(VOCABULARY, HIDDEN, generator=generator) * (3 * HIDDEN**-0.5)
    targets = torch.randint(0, VOCABULARY, (TOKENS,), generator=generator)
    return student.bfloat16().requires_grad_(), (student + 0.1 * noise).bfloat16(), head.bfloat16(), targets


def exact(scale: float = 1.0) -> tuple[float, float, Tensor]:
    """Loss, divergence and the student's gradient of the same BF16 numbers in FP64."""
    student, teacher, head, targets = (
        tensor.detach().double() if tensor.is_floating_point() else tensor for tensor in case()
    )
    student.requires_grad_()
    parts = response_objective_naive(student, teacher, head, targets)
    (parts.loss * scale).backward()
    assert student.grad is not None
    return float(parts.loss.detach()), float(parts.kl), student.grad


def found(scale: float = 1.0) -> tuple[float, float, Tensor]:
    student, teacher, head, targets = case()
    parts = response_objective(student, teacher, head, targets)
    (parts.loss * scale).backward()
    assert student.grad is not None
    assert student.grad.dtype == torch.bfloat16
    return float(parts.loss.detach()), float(parts.kl), student.grad.double()


@pytest.mark.parametrize("chunk", [256, 7])
def test_logits_are_not_rounded_to_bf16(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss and divergence are those of FP64 to FP32's digits: BF16 logits of 3 are off by 0.004."""
    monkeypatch.setattr(objective, "CHUNK_TOKENS", chunk)
    loss, kl, _ = found()
    wanted = exact()
    assert loss == pytest.approx(wanted[0], rel=1e-6)
    assert kl == pytest.approx(wanted[1], rel=1e-5)


def test_the_head_is_widened_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objective, "_WIDENED_ROWS", 64)
    loss, kl, gradient = found()
    wanted = exact()
    assert loss == pytest.approx(wanted[0], rel=1e-6)
    assert kl == pytest.approx(wanted[1], rel=1e-5)
    assert float((gradient - wanted[2]).norm() / wanted[2].norm()) < 0.004


@pytest.mark.parametrize("weight", [1.0037, 1.3 / 24, 2.3 / 24])
def test_a_response_weight_is_not_rounded_and_adds_no_rounding(weight: float) -> None:
    """A power of two only shifts digits; any other weight has to cost no more.

    BF16 has no number between 1.0 and 1.0078: in BF16 the first weight would be 1.
    """
    gradient, wanted = found(weight)[2] / weight, exact()[2]
    plain = found(2.0**-4)[2] * 2.0**4
    assert float((gradient * plain).sum() / plain.square().sum()) == pytest.approx(1.0, abs=2e-4)
    errors = [float((one - wanted).norm() / wanted.norm()) for one in (gradient, plain)]
    assert errors[0] < 1.05 * errors[1]


def test_the_slope_is_divided_behind_its_product_and_the_product_is_not_rounded() -> None:
    """1 / T in BF16 would be one wrong factor of the whole gradient; a rounded product, a second rounding of each entry."""
    gradient, wanted = found()[2], exact()[2]
    assert float((gradient - wanted).norm() / wanted.norm()) < 0.00205
    assert float((gradient * wanted).sum() / wanted.square().sum()) == pytest.approx(1.0, abs=4e-4)
