"""`stair status`: the state of every job, from outputs, progress files, the driver's journal and Slurm's queue."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import dump, resolve
from stair.pipeline.job_list import ListedJob, list_jobs
from stair.pipeline.slurm_queue import Queue, parse_queue
from stair.pipeline.status import (
    QUIET_SECONDS,
    Entry,
    Job,
    append,
    as_json,
    failure_lines,
    job_states,
    journal_path,
    totals,
)
from stair.records.progress import Progress
from stair.records.start_command import record_start
from tests.programs import needs
from tests.workflow.conftest import environment, run_in, snakemake

ROOT = Path(__file__).parents[2]
STARTED = {"run": "tiny", "evaluation": {"shards": 2}}


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run of two shards a condition, in the middle of its evaluation."""
    overrides = {**STARTED, "results": str(tmp_path)}
    config = resolve(ROOT, overrides)
    paths = RunPaths.of(config)
    paths.folder.mkdir()
    paths.resolved.write_text(dump(config))
    record_start(ROOT, config, paths, overrides)
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
    return paths


@contextmanager
def driven(paths: RunPaths) -> Iterator[None]:
    """This process drives the run."""
    lock = paths.folder / ".snakemake" / "locks" / "0.output.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    yield
    lock.unlink()


@cache
def listed() -> tuple[ListedJob, ...]:
    return tuple(list_jobs(ROOT, STARTED, fresh=True))


def jobs_of(run: RunPaths, now: float | None = None, queue: Queue | None = None) -> dict[str, Job]:
    """The states while Snakemake has all jobs still to run."""
    return {job.name: job for job in job_states(run, listed(), listed(), now, queue)}


def test_every_shard_tells_speed_running_done_and_time_left(run: RunPaths) -> None:
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


def test_all_shards_together(run: RunPaths) -> None:
    sums = as_json(list(jobs_of(run).values()))
    assert (sums["tokens_per_s"], sums["running"]) == (300.4, 20)
    assert sums["seconds_left"] == pytest.approx(100, rel=0.05)
    assert (sums["counts"]["done"], sums["counts"]["running"], sums["counts"]["quiet"]) == (2, 2, 0)
    assert sum(sums["counts"].values()) == len(sums["jobs"])


def test_a_job_that_fell_silent_is_not_counted_as_running(run: RunPaths) -> None:
    written = json.loads(run.progress_of("evaluation/qwen3.5-4b/math500/stair/0").read_text())["updated"]
    found = jobs_of(run, now=written + QUIET_SECONDS + 1)
    silent = found["evaluation/qwen3.5-4b/math500/stair/0"]
    assert (silent.state, silent.done, silent.tokens_per_s, silent.seconds_left) == ("quiet", 50, None, None)


def test_a_damaged_progress_file_is_as_none(run: RunPaths) -> None:
    path = run.progress_of("evaluation/qwen3.5-4b/math500/stair/0")
    path.write_text(path.read_text()[:20])
    assert jobs_of(run)["evaluation/qwen3.5-4b/math500/stair/0"].state == "waiting"


def test_in_the_terminal(run: RunPaths) -> None:
    shell = environment() | {"COLUMNS": "150"}
    command = ["stair", "status", "--run", str(run.folder)]
    lines = subprocess.run(command, env=shell, stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    row = next(line for line in lines if "math500/stair/0" in line).split()
    assert row[1:7] == ["running", "50", "of", "100", "responses", "16"]
    assert row[7] == "250"
    assert lines[-1].startswith("2 of ")
    assert "2 running" in lines[-1]


# ---------------------------------------------------------------- the driver's journal and Slurm's queue

SHARD = "evaluation/qwen3-4b-instruct/math500/native/1"


def log_of(paths: RunPaths) -> Path:
    return Path(paths.log("evaluation", "qwen3-4b-instruct", "math500", "native-1-of-2"))


def note(paths: RunPaths, event: Any, **details: Any) -> None:
    """A line of the driver's."""
    append(paths, Entry(SHARD, event, time.time(), **{"logs": (str(log_of(paths)),), **details}))


@pytest.fixture
def submitted(run: RunPaths) -> RunPaths:
    """A shard was submitted as Slurm's job 71."""
    note(run, "started")
    note(run, "started", slurm="71")
    return run


def queue(*lines: str) -> Queue:
    return parse_queue("\n".join(lines))


def state_of(run: RunPaths, queue: Queue | None = None) -> Job:
    return jobs_of(run, queue=queue)[SHARD]


def test_a_job_in_the_queue(submitted: RunPaths) -> None:
    pending = state_of(submitted, queue("71|PENDING|Resources||stair-1_a", "72|RUNNING|None|n1|stair-1_a"))
    assert (pending.state, pending.slurm, pending.reason) == ("pending", "71 PENDING", "Resources")
    running = state_of(submitted, queue("71|RUNNING|None|node3|stair-1_a"))
    assert (running.state, running.reason) == ("running", "node3")


def test_a_job_that_slurm_ended(submitted: RunPaths) -> None:
    """The driver is gone, so the queue alone knows of it."""
    ended_by = queue("71|OUT_OF_MEMORY|OutOfMemory|node3|stair-1_a")
    ended = state_of(submitted, ended_by)
    assert (ended.state, ended.log) == ("failed", "") and "its command did not start" in ended.reason
    log_of(submitted).parent.mkdir(parents=True)
    log_of(submitted).write_text("\n".join(f"line {number}" for number in range(9)) + "\n\n")
    ended = state_of(submitted, ended_by)
    assert (ended.state, ended.slurm) == ("failed", "71 OUT_OF_MEMORY")
    assert "OUT_OF_MEMORY" in ended.reason
    assert ended.tail == tuple(f"line {number}" for number in range(4, 9))
    told = failure_lines([ended])
    assert told[1].startswith(f"failed: {SHARD} (Slurm 71 OUT_OF_MEMORY)") and told[-1] == "  | line 8"


def test_without_an_answer_of_the_queue_the_log_tells(submitted: RunPaths) -> None:
    assert state_of(submitted).state == "waiting", "its driver is gone, and no queue has it"
    with driven(submitted):
        assert state_of(submitted).state == "pending"
        log_of(submitted).parent.mkdir(parents=True)
        log_of(submitted).touch()
        assert state_of(submitted).state == "running"


def test_a_failure_a_further_attempt_and_a_torn_line(submitted: RunPaths) -> None:
    paths = submitted
    note(paths, "failed", slurm="71", reason="out of memory", logs=("/a.log",), tail=("one", "two"))
    failed = state_of(paths)
    assert (failed.state, failed.slurm, failed.log, failed.tail) == ("failed", "71", "/a.log", ("one", "two"))
    assert failure_lines([failed])[1] == f"failed: {SHARD} (Slurm 71): out of memory"
    note(paths, "again", reason="out of memory")
    assert state_of(paths).state == "waiting", "it is tried again by itself"
    note(paths, "started")
    with open(journal_path(paths), "a") as file:
        file.write('{"job": "evaluation/qwen3-4b-instruct/math500/native/1", "event": "fai')
    with driven(paths):
        assert state_of(paths).state == "running", "it has no number yet"
    left = [job for job in listed() if job.wildcards.get("shard") != "1"]
    assert {job.name: job for job in job_states(paths, listed(), left)}[SHARD].state == "done"


def test_a_failure_is_shown_at_once_and_until_the_job_goes_on(run: RunPaths) -> None:
    note(run, "started")
    Progress(run.progress, SHARD, 10, "responses", done=3)._write()
    with driven(run):
        assert (state_of(run).state, state_of(run).done) == ("running", 3)
    note(run, "failed", reason="out of memory")
    failed = state_of(run)
    assert (failed.state, failed.done, failed.seconds_left, failed.reason) == ("failed", 3, None, "out of memory")
    Progress(run.progress, SHARD, 10, "responses", done=10)  # by hand
    assert state_of(run).state == "done"
    note(run, "failed", reason="the disk is full")
    assert state_of(run).state == "failed", "it had finished its units, and not its output"


@pytest.mark.parametrize("events", [("started", "stopped"), ("started",)], ids=["stopped", "killed"])
def test_after_a_stop_no_job_runs(run: RunPaths, events: tuple[str, ...]) -> None:
    """The driver is gone, and the last progress is a moment old."""
    for event in events[:1]:
        note(run, event)
    going = Progress(run.progress, SHARD, 10, "responses", done=3)
    going.beat("4 running · 50 tokens/s", {"running": 4, "tokens_per_s": 50.0})
    for event in events[1:]:
        note(run, event)
    stopped = state_of(run)
    assert (stopped.state, stopped.done, stopped.total) == ("stopped", 3, 10)
    assert (stopped.running, stopped.tokens_per_s, stopped.seconds_left) == (None, None, None)
    assert "1 stopped" in totals([stopped]) and "0 running" in totals([stopped])
    if "stopped" in events:
        going.beat("by hand", {})
        going._write()
        assert state_of(run).state == "running"


@needs("squeue", "slurm")
def test_slurm_that_does_not_answer_is_a_warning(submitted: RunPaths) -> None:
    shell = environment() | {"SLURM_CONF": "/nowhere/slurm.conf"}
    command = ["stair", "status", "--run", str(submitted.folder), "--json"]
    done = subprocess.run(command, env=shell, capture_output=True, text=True, timeout=60, check=True)
    assert "warning: Slurm's queue is unknown: squeue" in done.stderr
    content = json.loads(done.stdout)
    assert content["tokens_per_s"] == 300.4
    assert content["queue_error"] in done.stderr
    assert {job["name"]: job["state"] for job in content["jobs"]}[SHARD] == "waiting"


# ---------------------------------------------------------------- a real run


def test_failures_of_a_real_run(copied_run: Path) -> None:
    """A scored file is damaged and two tables are gone: their jobs fail, and succeed when the file is whole again."""
    results = copied_run / "results" / "smoke"

    def states() -> dict[str, dict[str, str]]:
        told = run_in(copied_run, "stair", "status", "--run", "results/smoke", "--json").stdout
        return {job["name"]: job for job in json.loads(told)["jobs"]}

    (scored,) = (results / "evaluation").rglob("native.parquet")
    whole, times = scored.read_bytes(), scored.stat()
    scored.write_bytes(whole[: len(whole) // 2])
    os.utime(scored, ns=(times.st_atime_ns, times.st_mtime_ns))
    for suffix in (".csv", ".md", ".tex"):
        (results / "tables" / f"native_accuracy{suffix}").unlink()
    assert snakemake(copied_run, "tables", check=False).returncode == 1
    failed = {name: job for name, job in states().items() if job["state"] == "failed"}
    assert "table/native_accuracy" in failed
    job = failed["table/native_accuracy"]
    assert job["log"] == str(results / "logs" / "tables" / "native_accuracy.log")
    assert job["tail"] and job["tail"][-1] == Path(job["log"]).read_text().strip().splitlines()[-1]
    told = run_in(copied_run, "stair", "status", "--run", "results/smoke").stdout
    assert "failed: table/native_accuracy" in told and f"  | {job['tail'][-1]}" in told
    assert f"{len(failed)} failed" in told
    scored.write_bytes(whole)
    os.utime(scored, ns=(times.st_atime_ns, times.st_mtime_ns))
    snakemake(copied_run, "tables")
    assert Counter(job["state"] for job in states().values()).keys() == {"done"}
