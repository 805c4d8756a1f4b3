"""The schedule of an adapter, and workers' shares."""

from __future__ import annotations

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup

from stair.training.optimizers import schedule
from stair.training.workers import Workers


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


def test_shares_are_whole_and_balanced() -> None:
    costs = [9.0, 1.0, 2.0, 8.0, 3.0, 7.0, 1.0, 5.0]
    shares = [Workers(rank, 3).share(list(range(8)), lambda item: costs[item]) for rank in range(3)]
    assert sorted(item for share in shares for item in share) == list(range(8))
    loads = [sum(costs[item] for item in share) for share in shares]
    assert max(loads) <= sum(costs) / 3 + 1.0
    assert Workers().share([3, 1, 2], float) == [3, 1, 2]
    assert [len(Workers(rank, 4).share([1, 2], float)) for rank in range(4)] == [1, 1, 0, 0]
