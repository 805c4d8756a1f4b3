"""The optimisers of the parts, the schedule of an adapter, and workers' shares."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel, get_cosine_schedule_with_warmup

from stair.stages.training.optimizers import Optimizers, schedule
from stair.stages.training.workers import Workers
from tests.training.training_cases import settings, student_of


@pytest.mark.parametrize(("warmup", "updates"), [(56, 1851), (2, 17), (0, 5), (1, 2)])
def test_the_schedule_is_the_usual_one(warmup: int, updates: int) -> None:
    adam = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=2e-4)
    usual = get_cosine_schedule_with_warmup(adam, warmup, updates)
    for update in range(updates):
        assert 2e-4 * schedule(update, warmup, updates) == pytest.approx(usual.get_last_lr()[0], rel=1e-12, abs=1e-18)
        adam.step()
        usual.step()
    assert schedule(warmup, warmup, updates) == 1.0
    assert schedule(updates, warmup, updates) == 0.0


def test_each_part_has_adamw_with_settings_and_a_schedule_of_its_own(
    small_model: Callable[..., PreTrainedModel],
) -> None:
    own = {"learning_rate": 0.02, "betas": [0.8, 0.95], "eps": 1e-3, "weight_decay": 0.1}
    adapters = {"learning_rate": 0.01, "betas": [0.7, 0.9], "eps": 1e-2, "weight_decay": 0.2}
    changes: dict[str, Any] = {"optimizer": own, "adapter": {"warmup_updates": 2, "optimizer": adapters}}
    rates = {
        "controller": [0.02] * 5,
        "adapter": [0.0, 0.005, *(0.005 * (1 + math.cos(math.pi * step / 3)) for step in range(3))],
    }
    generator = torch.Generator().manual_seed(0)
    with student_of(small_model("qwen3", torch.float64), "lora_stair") as student:
        optimizers = Optimizers(student, settings("lora_stair", **changes), updates=5)
        parameters = optimizers.parameters
        wanted = {name: each.detach().double() for name, each in parameters.items()}
        first, second = ({name: torch.zeros_like(each) for name, each in wanted.items()} for _ in range(2))
        for update in range(5):
            for name, parameter in parameters.items():
                part = name.split(".")[0]
                gradient = torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter.dtype)
                parameter.grad = gradient.clone()
                use, rate = adapters if part == "adapter" else own, rates[part][update]
                one, two = use["betas"]
                first[name] = one * first[name] + (1 - one) * gradient
                second[name] = two * second[name] + (1 - two) * gradient**2
                mean, spread = first[name] / (1 - one ** (update + 1)), second[name] / (1 - two ** (update + 1))
                wanted[name] = wanted[name] * (1 - rate * use["weight_decay"]) - rate * mean / (
                    spread.sqrt() + use["eps"]
                )
            optimizers.step(update)
            for name, parameter in parameters.items():
                assert torch.allclose(parameter.detach().double(), wanted[name], rtol=1e-5, atol=1e-6), (name, update)


def test_shares_are_whole_and_balanced() -> None:
    costs = [9.0, 1.0, 2.0, 8.0, 3.0, 7.0, 1.0, 5.0]
    shares = [Workers(rank, 3).share(list(range(8)), lambda item: costs[item]) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == list(range(8))
    loads = [sum(costs[item] for item in share) for share in shares]
    assert max(loads) <= sum(costs) / 3 + 1.0
    assert Workers().share([3, 1, 2], float) == [3, 1, 2]
    assert [len(Workers(rank, 4).share([1, 2], float)) for rank in range(4)] == [1, 1, 0, 0]
