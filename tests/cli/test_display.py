"""The lines of a run's display, from the events that Snakemake sends."""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

from stair.config.paths import INPUTS_CHECKED, RUN, START, RunPaths
from stair.config.resolve import dump, resolve
from stair.pipeline.display import LogHandler
from stair.records.progress import Progress

ROOT = Path(__file__).parents[2]
NAME = "rollouts/qwen3-4b-instruct/0"


class Shown:
    """A display of three jobs, its events, and what it shows."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self.paths = capsys, RunPaths(folder / "results" / "smoke")
        self.log = folder / "results" / "smoke" / "logs" / "0.log"
        self.log.parent.mkdir(parents=True)
        self.paths.resolved.write_text(dump(resolve(ROOT, {"run": "smoke", "results": str(folder / "results")})))
        self.handler = LogHandler(SimpleNamespace(dryrun=False, nocolor=True), None)  # type: ignore[arg-type]
        self.send(LogEvent.RUN_INFO, stats={"rollout_shard": 2, "table": 1, "all": 1, "total": 4})
        assert self.text() == "3 jobs to do\n"

    def send(self, event: LogEvent | None = None, message: str = "", level: int = logging.INFO, **facts: Any) -> None:
        record = logging.LogRecord("snakemake", level, "", 0, message, None, None)
        vars(record).update(facts, event=event)
        self.handler.handle(record)

    def begin(self, number: int = 7) -> None:
        wildcards = {"model": "qwen3-4b-instruct", "shard": str(number - 7), "of": "2"}
        facts = {"rule_name": "rollout_shard", "wildcards": wildcards, "log": [str(self.log)], "input": []}
        self.send(LogEvent.JOB_INFO, jobid=number, **facts)

    def fail(self, text: str | None, message: str = "") -> str:
        """The line of a job that begins, writes its log and fails."""
        self.begin()
        self.text()
        if text is not None:
            self.log.write_text(text + "\n")
        failed = "CalledProcessError in file rollouts.smk, line 5"
        self.send(LogEvent.ERROR, failed, logging.ERROR, exception="RuleException")
        self.send(LogEvent.JOB_ERROR, jobid=7, rule_name="rollout_shard", log=[str(self.log)], rule_msg=message)
        return self.text()

    def text(self) -> str:
        return self._capsys.readouterr().err


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    monkeypatch.setenv(START, str(tmp_path))
    monkeypatch.setenv(RUN, str(tmp_path / "results" / "smoke"))
    before = signal.getsignal(signal.SIGINT)
    yield Shown(tmp_path, capsys)
    signal.signal(signal.SIGINT, before)


def test_without_a_terminal_a_line_ends_each_stage_and_the_last_one_says_100_percent(shown: Shown) -> None:
    for number in (7, 8):
        shown.begin(number)
        text = shown.text()
        assert text == "" if number == 8 else text.startswith("0% after 0s, about "), "the plan's estimate"
        shown.send(LogEvent.JOB_FINISHED, job_id=number)
        text = shown.text()
        assert (
            text == "" if number == 7 else text.startswith("96% after 0s, ") and text.endswith(" · rollouts finished\n")
        )
    for number, rule in enumerate(("table", "all"), start=9):
        shown.send(LogEvent.JOB_INFO, jobid=number, rule_name=rule, wildcards={"table": "intervals"}, log=[], input=[])
        shown.send(LogEvent.JOB_FINISHED, job_id=number)
    assert shown.text() == "100% after 0s\n", "a target is no job"


def test_the_progress_of_a_job_counts(shown: Shown) -> None:
    """Half of one job of two took a hundred times the planned seconds."""
    shown.begin()
    progress = Progress(shown.paths.progress, NAME, 10, "responses")
    progress._start -= 1000
    progress._file_time = 0.0
    progress.advance(5)
    share, _, left = shown.handler._state().partition(", ")
    assert share == "24% after 0s" and left == "about 16m40s left", "of the job, however many run at a time"


def test_a_failure_names_the_reason_and_the_log(shown: Shown) -> None:
    assert shown.fail("Traceback\nstair: error: a is b") == f"failed: {NAME}: a is b (log: results/smoke/logs/0.log)\n"
    for number in (8, 9):
        shown.begin(number)
        shown.send(LogEvent.JOB_ERROR, jobid=number, rule_name="rollout_shard", log=[str(shown.log)], rule_msg="")
    same = [line.rpartition(" (log")[0].partition(": ")[2] for line in shown.text().splitlines()]
    assert same == [f"rollouts/qwen3-4b-instruct/{number}: the same" for number in (1, 2)], "a cause is said once"
    shown.begin()
    assert shown.text() == f"tried again: {NAME}\n"
    for _ in range(2):
        shown.handler.close()
    assert shown.text() == "failed jobs: 2, after 0s\n"


def test_a_job_that_was_killed_on_a_cluster_has_slurms_word(shown: Shown) -> None:
    line = shown.fail("rollouts: 3 of 8 responses", "SLURM-job '7' failed, SLURM status is: 'OUT_OF_MEMORY'.\n more")
    assert line.startswith(f"failed: {NAME}: SLURM-job '7' failed, SLURM status is: 'OUT_OF_MEMORY'. rollouts: 3 of 8")
    refused = shown.fail(None, "SLURM sbatch failed. The error message was 'sbatch: error: no partition'.")
    assert "sbatch: error: no partition" in refused


def test_after_ctrl_c_nothing_reads_as_a_failure(shown: Shown) -> None:
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert shown.fail("rollouts: 3 of 8 responses") == ""
    shown.handler.close()
    assert shown.text() == ""


def test_the_lock_of_another_driver_is_left_to_the_command(shown: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    (lock := shown.paths.folder / ".snakemake/locks/0.output.lock").parent.mkdir(parents=True)
    lock.touch()
    for by_command in (True, False):
        monkeypatch.setenv(INPUTS_CHECKED, "1") if by_command else monkeypatch.delenv(INPUTS_CHECKED)
        shown.send(LogEvent.ERROR, "cannot be locked", logging.ERROR, exception="LockException")
        assert shown.text() == "cannot be locked\n" * (not by_command)


def test_other_warnings_and_errors_are_shown(shown: Shown) -> None:
    shown.send(message="No suitable partition", level=logging.WARNING)
    shown.send(LogEvent.ERROR, "Unable to cancel jobs", logging.ERROR, exception="WorkflowError")
    shown.send(message="Select jobs to execute...")
    assert shown.text() == "No suitable partition\nUnable to cancel jobs\n"
