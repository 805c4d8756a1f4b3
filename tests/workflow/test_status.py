"""`stair status`: what running jobs have told, over all shards of a run."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import dump, resolve
from stair.jobs.progress import Progress
from stair.workflow.status import QUIET_SECONDS, Job, as_json, job_states
from tests.workflow.conftest import environment

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(tmp_path: Path) -> tuple[Config, RunPaths]:
    """A run of two shards a condition, in the middle of its evaluation."""
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path), "evaluation": {"shards": 2}})
    paths = RunPaths.of(config)
    paths.folder.mkdir()
    paths.resolved.write_text(dump(config))
    for shard in (0, 1):
        Progress(paths.progress, f"evaluation/qwen3.5-4b/math500/vanilla/{shard}", 10, "responses", done=10)
    going = Progress(paths.progress, "evaluation/qwen3.5-4b/math500/stair/0", 100, "responses", done=20)
    going._start -= 60  # a minute of work
    going._file_time -= 60
    going.done = 50
    going.beat("16 running · 250 tokens/s", {"running": 16, "tokens_per_s": 250.4})
    other = Progress(paths.progress, "evaluation/qwen3.5-4b/math500/stair/1", 100, "responses")
    other._file_time -= 60
    other.beat("4 running · 50 tokens/s", {"running": 4, "tokens_per_s": 50.0})
    return config, paths


def jobs_of(run: tuple[Config, RunPaths], now: float | None = None) -> dict[str, Job]:
    return {job.name: job for job in job_states(*run, now)}


def test_every_shard_tells_speed_running_done_and_time_left(run: tuple[Config, RunPaths]) -> None:
    found = jobs_of(run)
    one = found["evaluation/qwen3.5-4b/math500/stair/0"]
    assert (one.state, one.done, one.total, one.running, one.tokens_per_s) == ("running", 50, 100, 16, 250.4)
    assert one.seconds_left == pytest.approx(60 / 30 * 50, rel=0.05), (
        "what was done before this start says nothing of speed"
    )
    assert found["evaluation/qwen3.5-4b/math500/stair/1"].seconds_left is None, "nothing has been finished yet"
    assert found["evaluation/qwen3.5-4b/math500/vanilla/1"].state == "done"
    assert found["training/qwen3.5-4b/stair"].state == "waiting"
    assert sum(name.endswith("/stair/1") for name in found) == 12, "three models, four benchmarks"


def test_all_shards_together(run: tuple[Config, RunPaths]) -> None:
    sums = as_json(job_states(*run))
    assert (sums["tokens_per_s"], sums["running"]) == (300.4, 20)
    assert sums["seconds_left"] == pytest.approx(100, rel=0.05)
    assert (sums["jobs"]["done"], sums["jobs"]["running"], sums["jobs"]["quiet"]) == (2, 2, 0)
    assert sum(sums["jobs"].values()) == len(sums["shards"])


def test_a_job_that_fell_silent_is_not_counted_as_running(run: tuple[Config, RunPaths]) -> None:
    written = json.loads(run[1].progress_of("evaluation/qwen3.5-4b/math500/stair/0").read_text())["updated"]
    found = jobs_of(run, now=written + QUIET_SECONDS + 1)
    silent = found["evaluation/qwen3.5-4b/math500/stair/0"]
    assert (silent.state, silent.done, silent.tokens_per_s, silent.seconds_left) == ("quiet", 50, None, None)


def test_a_damaged_progress_file_is_as_none(run: tuple[Config, RunPaths]) -> None:
    path = run[1].progress_of("evaluation/qwen3.5-4b/math500/stair/0")
    path.write_text(path.read_text()[:20])
    assert jobs_of(run)["evaluation/qwen3.5-4b/math500/stair/0"].state == "waiting"


def test_in_the_terminal_and_as_json(run: tuple[Config, RunPaths]) -> None:
    def told(*options: str) -> str:
        command = ["stair", "status", "--run", str(run[1].folder), *options]
        done = subprocess.run(
            command, env=environment() | {"COLUMNS": "150"}, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    lines = told().splitlines()
    row = next(line for line in lines if "math500/stair/0" in line).split()
    assert row[1:7] == ["running", "50", "of", "100", "responses", "16"]
    assert row[7] == "250"
    assert lines[-1].startswith("2 of ")
    assert "2 running" in lines[-1]
    assert json.loads(told("--json"))["tokens_per_s"] == 300.4
