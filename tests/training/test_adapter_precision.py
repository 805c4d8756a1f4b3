"""LoRA on a BF16 backbone: its two products are BF16, its parameters and their gradients FP32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from benchmarks.training import widen_products
from stair.method import load_adapter
from stair.sessions.renderer import Renderer
from stair.stages.training.student import Student
from tests.conftest import random_model
from tests.training.training_cases import gradient_of, session, student_of, teacher_forcing


def gradient(model: PreTrainedModel, renderer: Renderer, change: Callable[[Student], object] = id) -> torch.Tensor:
    """The adapter's gradient on one session."""
    with student_of(model, "lora", torch.float32) as student:
        change(student)
        return gradient_of(teacher_forcing(student, renderer), session(renderer))[1]


def test_gradients_err_like_those_of_fp32_products(renderer: Renderer) -> None:
    """The backbone's own rounding to BF16 is the larger part of the error either way."""
    model = random_model("qwen3", torch.bfloat16)
    narrow, wide = gradient(model, renderer), gradient(model, renderer, lambda student: widen_products(student.model))
    exact = gradient(model.float(), renderer)
    assert narrow.dtype == torch.float32
    errors = [float((one - exact).norm() / exact.norm()) for one in (narrow, wide)]
    assert 0 < errors[0] < 1.2 * errors[1] < 0.1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_no_tensor_of_a_pass_is_widened(dtype: torch.dtype) -> None:
    model, seen = random_model("qwen3", dtype), set()
    with student_of(model, "lora", torch.float32) as student:
        products = [module for name, module in model.named_modules() if ".lora_" in name and name.endswith("default")]
        for product in products:
            product.register_forward_hook(lambda _, args, output: seen.update({args[0].dtype, output.dtype}))
        model(torch.arange(30, 40)[None])
        assert {each.dtype for each in student.parts()["adapter"].values()} == {torch.float32}
    assert len(products) == 2 * 7 * 4 + 7 * 4
    assert seen == {dtype}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_loaded_adapter_computes_the_numbers_of_training(dtype: torch.dtype, tmp_path: Path) -> None:
    ids = torch.arange(30, 40)[None]
    model = random_model("qwen3", dtype)
    with torch.no_grad():
        with student_of(model, "lora", torch.float32) as student:
            student.save(tmp_path, "base")
            trained = model(ids).logits
        plain = model(ids).logits
        loaded = load_adapter(model, tmp_path)(ids).logits
    assert torch.equal(loaded, trained)
    assert not torch.equal(plain, trained)
