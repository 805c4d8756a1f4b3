"""The time left of a run, for plans and paces whose answer is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.pipeline.plan import Planner
from stair.pipeline.time_left import TimeLeft
from stair.records.progress import ProgressFile

ROOT = Path(__file__).parents[2]
HOUR = 3600.0


def begun(seconds: float, done: int = 0, before: int = 0) -> tuple[str, ProgressFile | None]:
    progress = ProgressFile("training", done, 100, "updates", "", done - before, {}, seconds, 0.0, "here", 1)
    return "train_controller", progress if done else None


def of(at_a_time: float | None) -> TimeLeft:
    """Two trainings, planned with an hour each, and a download."""
    return TimeLeft({"train_controller": 2, "fetch_hub": 1}, {"training": HOUR}, at_a_time)


@pytest.mark.parametrize("at_a_time", [1, 2])
def test_before_anything_is_known_it_is_the_plans(at_a_time: int) -> None:
    left = of(at_a_time)
    left.start("fetch_hub", 0.0)
    assert left.seconds([("fetch_hub", None)], HOUR) == pytest.approx(2 * HOUR / at_a_time), "a download is no pace"
    assert left.share([]) == 0.0
    only = TimeLeft({"fetch_hub": 1}, {}, 1.0)
    assert (only.share([]), only.seconds([], HOUR)) == (0.0, None)


def test_it_follows_the_pace_and_ends_with_the_longest_job() -> None:
    left = of(1)
    left.start("train_controller", 0.0)
    half = begun(HOUR, done=50)  # twice the planned time
    assert left.share([half]) == pytest.approx(1 / 4)
    slower = left.seconds([half], HOUR)
    assert slower is not None and 2.5 * HOUR < slower < 3 * HOUR
    left.finish(*begun(2 * HOUR, done=100))
    assert left.share([]) == pytest.approx(1 / 2)
    assert left.seconds([begun(HOUR, done=20)], 3 * HOUR) == pytest.approx(4 * HOUR), "the job's own pace"
    again = of(1)
    again.start("train_controller", 0.0)
    resumed = begun(HOUR / 10, done=60, before=50)  # the pace of the plan
    assert again.seconds([resumed], HOUR / 10) == pytest.approx(1.4 * HOUR), "earlier work is no pace"


def test_on_a_cluster_it_is_unknown_until_a_job_reports_progress() -> None:
    left = of(None)
    left.start("train_controller", 0.0)
    left.finish("evaluation_sessions", None)
    assert left.seconds([begun(60.0)], 60.0) is None, "it may wait in the queue"
    assert left.seconds([begun(HOUR / 2, done=50)], HOUR / 2) == pytest.approx(1.5 * HOUR, rel=0.01)


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
