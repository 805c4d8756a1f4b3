"""The time left of a run, for plans and paces whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.pipeline.plan import Planner, Work
from stair.pipeline.time_left import Running, TimeLeft
from stair.records.progress import ProgressFile

ROOT = Path(__file__).parents[2]
HOUR = 3600.0
KEY = ("training", "training", "4B")
WORKS = [
    Work("training", "small", "stair", KEY, 0.0, 1.0, 1 / HOUR, 1.0, 1, 1),
    Work("training", "large", "stair", KEY, 0.0, 3.0, 1 / HOUR, 1.0, 1, 1),
]
"""An hour, and three."""


def begun(job: str, seconds: float, done: int = 0) -> Running:
    hours = 1 if job == "small" else 3
    progress = ProgressFile("training", done, 100, "updates", "", done, {}, seconds, 0.0, "here", 1)
    return Running("train_controller", hours * HOUR, seconds, progress if done else None)


def of(places: float | None) -> TimeLeft:
    return TimeLeft({"train_controller": 2}, WORKS, places)


@pytest.mark.parametrize("places", [1, 2])
def test_before_anything_is_known_it_is_the_plans(places: int) -> None:
    left = of(places)
    assert left.seconds([], 0.0) == pytest.approx(4 * HOUR / places)
    assert left.share([]) == 0.0
    assert left.start("train_controller", {"model": "large", "controller": "stair"}) == 3 * HOUR


def test_it_follows_the_pace_and_ends_with_the_longest_job() -> None:
    left = of(1)
    left.start("train_controller", {"model": "small", "controller": "stair"})
    small = begun("small", HOUR, done=50)  # twice the planned time
    assert left.share([small]) == pytest.approx(1 / 8)
    slower = left.seconds([small], HOUR)
    assert slower is not None and 5 * HOUR < slower <= 7 * HOUR
    left.finish(begun("small", 2 * HOUR))
    left.start("train_controller", {"model": "large", "controller": "stair"})
    assert left.share([]) == pytest.approx(1 / 4)
    assert left.seconds([begun("large", 3 * HOUR, done=50)], 5 * HOUR) == pytest.approx(3 * HOUR, rel=0.1)


def test_on_a_cluster_it_is_unknown_until_a_job_reports_progress() -> None:
    left = of(None)
    left.start("train_controller", {"model": "small", "controller": "stair"})
    assert left.seconds([begun("small", 60.0)], 60.0) is None, "it may wait in the queue"
    assert left.seconds([begun("small", HOUR / 2, done=50)], HOUR / 2) == pytest.approx(3.5 * HOUR, rel=0.1)


def test_a_run_begins_with_the_seconds_of_its_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Downloads and jobs without a model add seconds; a GPU that is not there yet is unknown."""
    config = resolve(ROOT, {"run": "pilot", "results": str(tmp_path), "transformers": {"device": "cuda"}})
    paths = RunPaths.of(config)
    counts = {"rollout_shard": 1, "train_controller": 1, "evaluation_shard": 6, "measure_runtime": 1, "table": 20}
    planned = HOUR * sum(work.job_hours * work.jobs for work in Planner(config, paths).works())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert TimeLeft.of_run(counts, config, paths).seconds([], 0.0) == pytest.approx(planned, rel=0.2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert TimeLeft.of_run(counts, config, paths).seconds([], 0.0) is None
