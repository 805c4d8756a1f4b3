"""`stair status`, from outputs, progress files and logs; a run is named by its overlay, or by its folder, as remedies do."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, dump, load_run, resolve
from stair.pipeline.status import as_json, job_states
from stair.records.progress import Progress, progress_file, report_stop
from tests.workflow.conftest import ROOT, run_in


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run in the middle of its evaluation."""
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path)})
    paths = RunPaths.of(config)
    paths.folder.mkdir()
    paths.resolved.write_text(dump(config))
    Progress(paths.progress, "evaluation/qwen3.5-4b/math500/vanilla/0", 10, "responses", done=10)
    going = Progress(paths.progress, "evaluation/qwen3.5-4b/math500/stair/0", 100, "responses", done=20)
    going._start -= 60  # a minute of work
    going._file_time -= 60
    going.done = 50
    going.beat("16 running · 250 tokens/s", {"running": 16, "tokens_per_s": 250.4})
    return paths


def changed(run: RunPaths, **facts: object) -> str:
    """The state of the running job with other facts in its progress file."""
    path = progress_file(run.progress, "evaluation/qwen3.5-4b/math500/stair/0")
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))
    return {job.name: job.state for job in job_states(run)}["evaluation/qwen3.5-4b/math500/stair/0"]


def test_a_job_runs_while_its_process_lives(run: RunPaths) -> None:
    """However long it is silent; on another machine, while it reports."""
    dead = subprocess.Popen(["true"])
    dead.wait()
    assert changed(run, updated=0.0) == "running"
    assert changed(run, process=dead.pid) == "stopped"
    assert changed(run, host="node17") == "stopped", "no word since 1970"
    assert changed(run, host="node17", updated=2e9) == "running"
    assert report_stop(), "it has finished units"
    assert changed(run, host="node17") == "stopped", "its last word was that it stops"
    assert changed(run, host=socket.gethostname(), process=1) == "running", "another user's process"
    assert changed(run, process=os.getpid(), done=100) == "done"


def test_for_programs_and_people(run: RunPaths) -> None:
    log = run.folder / "logs" / "training" / "qwen3.5-4b" / "stair.log"
    log.parent.mkdir(parents=True)
    log.write_text("step 1\nstair: error: a is b\n")
    config = resolve(ROOT, {"run": "tiny", "results": str(run.folder.parent)})
    found = as_json(config, run)
    (job,) = [job for job in found["jobs"] if job["state"] == "running"]
    assert (job["done"], job["total"], job["tokens_per_s"]) == (50, 100, 250.4)
    assert found["failed"] == [{"name": "training/qwen3.5-4b/stair", "error": "a is b", "log": str(log)}]
    shown = run_in(run.folder, "stair", "status", "--run", str(run.folder)).stdout
    assert "50 of 100 responses" in shown and "1m40s left" in shown
    assert f"failed: training/qwen3.5-4b/stair: a is b (log: {log})" in shown and "to go on" not in shown
    dead = subprocess.Popen(["true"])
    dead.wait()
    assert changed(run, process=dead.pid) == "stopped"
    shown = run_in(run.folder, "stair", "status", "--run", str(run.folder)).stdout
    assert "running" not in shown and " left" not in shown
    assert shown.endswith("\nstopped; to go on: stair reproduce --run .\n")


def test_a_finished_run_says_when_and_where(finished_run: Path) -> None:
    *_, last = run_in(finished_run, "stair", "status", "--run", "smoke").stdout.splitlines()
    assert re.fullmatch(r"finished at \d{4}-\d\d-\d\dT\S+; on one page: results/smoke/report.html", last)
    assert run_in(finished_run, "stair", "check", "--run", "smoke").stdout.endswith(
        " checks hold: results/smoke/checks.csv\n"
    )


SETTINGS = ("--set", "evaluation={samples: 3, seed: it's mine}", "--set", "results=out")


@pytest.mark.parametrize(
    "start", [("config", "--write"), ("reproduce", "--target", "out/mine/data/benchmarks/math500.parquet")]
)
def test_a_remedy_names_the_runs_folder_which_has_its_settings(tmp_path: Path, start: tuple[str, ...]) -> None:
    (tmp_path / "mine.yaml").write_text("extends: smoke\n")
    run_in(tmp_path, "stair", *start, "--run", "mine.yaml", *SETTINGS)
    done = run_in(tmp_path, "stair", "check", "--run", "out/mine", check=False)
    (line,) = done.stderr.splitlines()
    assert line.endswith("to make it: stair reproduce --run out/mine")
    resolved = (tmp_path / "out/mine" / RESOLVED).read_text()
    (tmp_path / "mine.yaml").unlink()
    run_in(tmp_path, "stair", "config", "--write", "--run", "out/mine")
    assert (tmp_path / "out/mine" / RESOLVED).read_text() == resolved, "the command starts the same run"
    run_in(tmp_path, "stair", "config", "--write", "--run", "out/mine", "--set", "evaluation={samples: 2}")
    config = load_run(tmp_path / "out/mine")
    assert (config.evaluation.samples, config.evaluation.seed) == (2, "it's mine")
    (tmp_path / "out/mine").rename(tmp_path / "copied")
    assert resolve(ROOT, {"run": str(tmp_path / "copied")}).run == "copied"


def test_an_expensive_run_is_started_with_its_settings(tmp_path: Path) -> None:
    done = run_in(tmp_path, "stair", "reproduce", "--run", "paper", "--set", "evaluation={samples: 3}")
    assert "stair plan --run paper --set 'evaluation={samples: 3}'\n" in done.stdout
    assert done.stdout.endswith("To start it: stair reproduce --go --run paper --set 'evaluation={samples: 3}'\n")
