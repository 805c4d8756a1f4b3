"""The lines of a run's display, and what it writes to the journal, from the events that Snakemake sends."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from stair.config.paths import START, RunPaths
from stair.pipeline import display, driven_run
from stair.pipeline.display import LogHandler, seconds_left
from stair.pipeline.status import Entry, read_journal
from stair.records.files import MAKE_ROOM
from stair.records.progress import Progress

NAME = "rollouts/qwen3-4b-instruct/0"
STOPPED = "stair: stopped by SIGTERM; 5 responses are in the log; run the same command again to resume"
FULL = f"stair: error: responses.parquet cannot be written: {MAKE_ROOM}"
FAILED = "stair: error: could not generate session 1; run the same command again to try once more"
REFUSED = "SLURM sbatch failed. The error message was 'sbatch: error: {}'."


class Shown:
    """A display, its events, and what it shows."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self.paths = capsys, RunPaths(folder / "results" / "smoke")
        self.log = folder / "results" / "smoke" / "logs" / "0.log"
        self.log.parent.mkdir(parents=True)
        self.handler = LogHandler(SimpleNamespace(dryrun=False, nocolor=True), None)  # type: ignore[arg-type]
        self.send(LogEvent.RUN_INFO, stats={"rollout_shard": 2, "all": 1, "total": 3})

    def send(self, event: LogEvent | None = None, message: str = "", level: int = logging.INFO, **facts: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 0, message, None, None)
        vars(record).update(facts, event=event)
        self.handler.handle(record)

    def begin(self) -> None:
        self._capsys.readouterr()
        wildcards = {"model": "qwen3-4b-instruct", "shard": "0", "of": "2"}
        facts = {"rule_name": "rollout_shard", "wildcards": wildcards, "log": [str(self.log)], "input": []}
        self.send(LogEvent.JOB_INFO, jobid=7, **facts)

    def fail(self, text: str | None, message: str = "", aux_logs: Sequence[str] = ()) -> str:
        """The line of a job that begins, writes its log and fails."""
        self.begin()
        if text is not None:
            self.log.write_text(text + "\n")
        logs = [str(self.log), *aux_logs]
        self.send(LogEvent.JOB_ERROR, jobid=7, rule_name="rollout_shard", log=logs, rule_msg=message)
        return self.text()

    def text(self) -> str:
        return self._capsys.readouterr().err

    @property
    def entry(self) -> Entry:
        return read_journal(self.paths)[NAME]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    config, paths = SimpleNamespace(expected_seconds={"rollout_shard": 10.0}), RunPaths(tmp_path / "results" / "smoke")
    current = SimpleNamespace(config=config, paths=paths, retries=lambda rule: 0)
    monkeypatch.setattr(driven_run, "current", current)
    monkeypatch.setattr(display, "drives", lambda: True)
    monkeypatch.setenv(START, str(tmp_path))
    return Shown(tmp_path, capsys)


def test_a_job_begins_is_submitted_and_ends(shown: Shown) -> None:
    assert shown.text().startswith("3 jobs to do, about ")
    shown.begin()
    assert (shown.entry.event, shown.entry.logs) == ("started", [str(shown.log)])
    shown.send(message="Job 7 has been submitted with SLURM jobid 71 (log: /slurm/71.log).")
    assert (shown.entry.event, shown.entry.slurm) == ("started", "71")
    shown.send(LogEvent.JOB_FINISHED, job_id=7)
    assert f"· {NAME} took 0s\n" in shown.text()
    assert (shown.entry.event, shown.entry.slurm) == ("finished", "71")


def test_without_expected_seconds_the_time_left_is_unknown(shown: Shown) -> None:
    """The paper's run has GPU-days and seconds: a job of three seconds each would promise minutes."""
    shown.text()
    driven_run.current.config.expected_seconds = {}  # type: ignore[misc, union-attr]
    shown.send(LogEvent.RUN_INFO, stats={"rollout_shard": 200, "total": 200})
    assert shown.text() == "200 jobs to do, time left unknown\n"


def test_the_view_shows_the_progress_of_this_attempt_alone(shown: Shown) -> None:
    earlier = Progress(shown.paths.progress, NAME, 100, "responses", done=20)
    os.utime(earlier.path, (0, 0))
    shown.begin()
    (job,) = [job for _, job in shown.handler._running()]
    assert (job.state, job.done) == ("running", 20)
    shown.handler._jobs[7].started += 60
    (job,) = [job for _, job in shown.handler._running()]
    assert (job.state, job.done) == ("running", 0), "an earlier attempt wrote it"


def test_a_failure_names_the_reason_and_the_log(shown: Shown) -> None:
    lines = ["Traceback", "stair: error: a is b", "after it"]
    assert shown.fail("\n".join(lines)) == f"failed: {NAME}: a is b (log: results/smoke/logs/0.log)\n"
    entry = shown.entry
    assert (entry.event, entry.reason, entry.logs, entry.tail) == ("failed", "a is b", [str(shown.log)], lines)


def test_a_job_that_is_tried_again_is_not_announced_as_failed(shown: Shown) -> None:
    driven_run.current.retries = {"rollout_shard": 1}.__getitem__  # type: ignore[method-assign, union-attr]
    assert shown.fail("stair: error: no memory").startswith(f"tried again: {NAME}: no memory")
    assert shown.entry.event == "again"
    assert shown.fail("stair: error: no memory").startswith(f"failed: {NAME}: no memory")
    assert shown.entry.event == "failed"


def test_several_jobs_with_one_reason_show_it_once(shown: Shown) -> None:
    reason = "results/smoke has a damaged file: a.csv; delete a.csv"
    assert shown.fail(f"stair: error: {reason}").startswith(f"failed: {NAME}: {reason}")
    also = f"also failed: {NAME}, for the same reason (log: results/smoke/logs/0.log)\n"
    assert shown.fail(f"stair: error: {reason}") == also
    assert shown.entry.reason == reason
    for _ in range(2):
        assert shown.fail("the last line of a killed job").startswith(f"failed: {NAME}: "), "it is no shared reason"
    assert shown.fail("stair: error: another").startswith(f"failed: {NAME}: another")


@pytest.mark.parametrize(
    ("text", "message", "words", "event"),
    [
        (STOPPED, "", "stopped", "stopped"),
        (FULL, "", "failed", "failed"),
        (FAILED, "", "failed", "failed"),
        (None, REFUSED.format("Invalid partition"), "failed", "failed"),
    ],
)
def test_a_failure_is_told_from_a_stop_and_from_what_the_next_start_mends(
    shown: Shown, text: str | None, message: str, words: str, event: str
) -> None:
    assert shown.fail(text, message).startswith(f"{words}: {NAME}: ")
    assert shown.entry.event == event


def test_the_reason_of_a_job_that_slurm_ended(shown: Shown, tmp_path: Path) -> None:
    """The job's own log ends with its progress, and Snakemake's lines come last in Slurm's."""
    lines = (
        "Building DAG of jobs...",
        "slurmstepd-one: error: StepId=6.0 exceeded memory limit (527151104 > 524288000), being killed",
        "srun: error: one: task 0: Killed",
        "Exiting because a job execution failed. Look above for error messages",
    )
    cluster = tmp_path / "6.log"
    cluster.write_text("\n".join(lines))

    def fail(text: str | None) -> str:
        return shown.fail(text, aux_logs=[str(cluster)]).partition(" (log: ")[0]

    assert fail("5 of 9 responses") == f"failed: {NAME}: {lines[2]}"
    assert (shown.entry.logs, shown.entry.tail) == ([str(cluster)], list(lines[1:3]))
    assert fail("stair: error: the disk is full") == f"failed: {NAME}: the disk is full"
    # The line of Slurm that only repeats a command's failure explains nothing.
    cluster.write_text("srun: error: node1: task 0: Exited with exit code 1\n")
    assert fail("Traceback\nRuntimeError: CUDA error") == f"failed: {NAME}: RuntimeError: CUDA error"


@pytest.mark.parametrize(
    ("end", "text", "reason"),
    [
        (
            "died with <Signals.SIGKILL: 9>.",
            "5 of 9 responses",
            "the system killed its process; if memory ran out, use",
        ),
        ("returned non-zero exit status 137.", "", "the system killed its process; if memory ran out, use"),
        ("died with <Signals.SIGSEGV: 11>.", "", "the system killed its process (SIGSEGV); run the same command again"),
        ("returned non-zero exit status 1.", "", "its process ended with exit code 1 and without a message; run the"),
        ("returned non-zero exit status 2.", "stair: error: a is b", "a is b"),
        ("returned non-zero exit status 1.", "Traceback\nKeyError: 1", "KeyError: 1"),
    ],
)
def test_the_reason_of_a_job_that_ended_without_a_message(shown: Shown, end: str, text: str, reason: str) -> None:
    shown.text()
    shown.send(message=f"CalledProcessError:\nCommand 'exec stair train > {shown.log} 2>&1' {end}", level=logging.ERROR)
    assert shown.text() == "", "the line of the failed job has it"
    assert shown.fail(text).startswith(f"failed: {NAME}: {reason}")


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        ("NODE_FAIL", "5 of 9 responses", "the system killed its process (Slurm's status: NODE_FAIL); run the same"),
        ("OUT_OF_MEMORY", "stair: error: a is b", "a is b"),
        ("FAILED", "", "its process ended without a message (Slurm's status: FAILED); run the same command"),
        ("FAILED", "Traceback\nKeyError: 1", "KeyError: 1"),
    ],
)
def test_the_reason_of_a_job_that_ended_silently_on_slurm(shown: Shown, status: str, text: str, reason: str) -> None:
    message = f"SLURM-job '71' failed, SLURM status is: '{status}'. Reason: Unknown."
    assert shown.fail(text, message).startswith(f"failed: {NAME}: {reason}")


def test_the_reason_of_a_job_that_never_began(shown: Shown) -> None:
    shown.log.write_text("stair: error: of an earlier attempt\n")
    os.utime(shown.log, (0, time.time() - 3600))
    assert "its command did not start" in shown.fail(None)
    line = shown.fail(None, REFUSED.format("invalid partition\nsbatch: error: no job"))
    assert line == f"failed: {NAME}: Slurm refused the job: invalid partition; no job\n"


def test_other_messages_are_shown_from_warnings_on(shown: Shown) -> None:
    shown.text()
    shown.handler._plain.stream = sys.stderr  # pytest replaces it between a fixture and its test
    shown.send(message="Select jobs to execute...")
    shown.send(message="the disk is slow", level=logging.WARNING)
    assert shown.text() == "the disk is slow\n"


# ---------------------------------------------------------------- the time left


def test_before_anything_is_finished_it_is_the_expected_time_and_grows_slowly() -> None:
    start = seconds_left(0.0, 100.0, 0.0)
    assert 0.0 < start <= 100.0
    after_imports = seconds_left(2.0, 100.0, 11.0)  # packages were imported, and one job ended
    assert start < after_imports < 4.0 * start


def test_the_measured_pace_decides_in_the_end() -> None:
    assert seconds_left(90.0, 100.0, 300.0) == pytest.approx(10.0 * 300.0 / 90.0, rel=0.15)
    assert seconds_left(100.0, 100.0, 300.0) == 0.0
    assert seconds_left(0.0, 0.0, 5.0) == 0.0
