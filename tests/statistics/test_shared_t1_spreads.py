"""Replication spreads of the study with a shared T1 history: naive sums, and test-time seeds that depend on one another."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from stair.core import ConditionName
from stair.statistics.grid import Responses
from stair.statistics.printed_comparison import replication, shared_t1_spreads
from stair.statistics.shared_t1_metrics import shared_t1_metrics
from tests.statistics.paper_rows import grid_rows

PLACE = ("qwen3.5-4b", "aime2025")
FAMILY = "random_reflector"
PROBLEMS, SAMPLES, SEEDS = 30, 4, 3
Bools = npt.NDArray[np.bool_]


def responses(native: Bools, seeds: Bools, prefix: str = FAMILY) -> Responses:
    """Of `native` [problems, samples] and `seeds` [seeds, problems, samples]; each problem in a session of its own."""
    grids = {
        "native": native,
        "stair": native,
        **{f"{prefix}-{seed}": grid for seed, grid in enumerate(seeds, start=1)},
    }
    frames = [grid_rows(*PLACE, name, 2, grid, np.arange(len(grid))) for name, grid in grids.items()]
    return Responses.from_frame(pd.concat(frames))


def drawn(random: np.random.Generator, shared: float) -> tuple[Bools, Bools]:
    """Native, and seeds whose answers are one common answer with probability `shared`, else their own."""
    rates = np.random.default_rng(1).beta(0.6, 0.9, PROBLEMS)[:, None]
    native, common = (random.random((2, PROBLEMS, SAMPLES)) < rates).astype(bool)
    own = random.random((SEEDS, PROBLEMS, SAMPLES)) < rates
    return native, np.where(random.random((SEEDS, PROBLEMS, SAMPLES)) < shared, common, own)


def test_conditions_of_other_keys_are_averaged_by_the_configured_family() -> None:
    def name_of(key: str) -> ConditionName:
        return ConditionName.of_key(key.replace("mine", FAMILY))

    native, seeds = drawn(np.random.default_rng(7), 0.5)
    own = shared_t1_spreads(responses(native, seeds, prefix="mine"), name_of)
    assert own == shared_t1_spreads(responses(native, seeds))
    assert own != shared_t1_spreads(responses(native, seeds, prefix="mine"))


def test_spreads_of_averages_are_naive_sums() -> None:
    native, seeds = drawn(np.random.default_rng(7), 0.5)
    spreads = shared_t1_spreads(responses(native, seeds))
    mean = seeds.mean(axis=0)
    for metric, influence in (("Avg@4", mean), ("Avg@4 minus Native", mean - native)):
        # The mean over problems of the mean of four samples, whose variance is that of a sample over four.
        naive = sum(np.var(row, ddof=1) / SAMPLES for row in influence) / PROBLEMS**2
        assert spreads[*PLACE, FAMILY, "T2", "", metric].variance == pytest.approx(1e4 * naive)


def test_copies_of_one_seed_say_no_more_than_the_seed() -> None:
    native, seeds = drawn(np.random.default_rng(8), 0.0)
    copies = np.repeat(seeds[:1], SEEDS, axis=0)
    three, one = (shared_t1_spreads(responses(native, each)) for each in (copies, seeds[:1]))
    for metric in ("Avg@4", "Pass@4"):
        key = (*PLACE, FAMILY, "T2", "", metric)
        assert three[key].variance == pytest.approx(one[key].variance)


@pytest.mark.parametrize("shared", [0.0, 0.95])
def test_two_runs_of_one_truth_seldom_differ(shared: float) -> None:
    """Not more often than 5% within three standard errors, however the seeds depend on one another."""
    random, draws = np.random.default_rng(9), 200
    runs = [responses(*drawn(random, shared)) for _ in range(draws + 1)]
    scores = [
        {value.metric: value.value for value in shared_t1_metrics(run, *PLACE) if value.condition == FAMILY}
        for run in runs
    ]
    spreads = [shared_t1_spreads(run) for run in runs[:-1]]
    for metric in ("Avg@4", "Pass@4", "Avg@4 minus Native"):
        outside = 0
        for ours, theirs, found in zip(scores[:-1], scores[1:], spreads, strict=True):
            spread = found[*PLACE, FAMILY, "T2", "", metric]
            value, other = ours[metric], theirs[metric]
            assert isinstance(value, float) and isinstance(other, float)
            outside += replication(value, other, spread).p_value < 0.05
        assert outside / draws < 0.05 + 3 * (0.05 * 0.95 / draws) ** 0.5, metric
