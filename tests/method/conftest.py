"""What the tests of the method share."""

from __future__ import annotations

import pytest
import torch
from method_cases import Case, random_case, tiny_llama, tiny_qwen3, tiny_qwen3_5
from transformers import PreTrainedModel


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(params=[tiny_qwen3, tiny_qwen3_5, tiny_llama], ids=["qwen3", "qwen3_5", "llama"])
def model(request: pytest.FixtureRequest) -> PreTrainedModel:
    """A random model in float32, frozen, in eval mode; weights large enough that every part matters."""
    torch.manual_seed(0)
    made = request.param().eval().requires_grad_(False)
    for parameter in made.parameters():
        if parameter.dim() == 2:
            parameter.copy_(torch.randn_like(parameter) * 0.15)
    return made


@pytest.fixture
def case() -> Case:
    return random_case()
