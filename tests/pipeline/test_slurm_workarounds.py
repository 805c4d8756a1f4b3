"""What the executor gets to know when Slurm does not answer, or answers with a state that the executor waits on for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import snakemake_executor_plugin_slurm as plugin

from stair.pipeline import slurm_workarounds

REFUSED = "SLURM sbatch failed. The error message was 'sbatch: error: {}'."
Answer = tuple[dict[str, str] | None, float | None]


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[Answer]:
    """What Slurm answers, question by question, to an executor with the workarounds."""
    coming: list[Answer] = []

    async def ask(command: str, logger: object) -> Answer:
        return coming.pop(0)

    names = plugin.Executor.check_active_jobs.__code__.co_names
    assert "query_job_status" in names, "the executor asks by another function"
    monkeypatch.setattr(plugin, "query_job_status", ask)
    for name in ("get_account_arg", "_report_job_error_threadsafe"):
        monkeypatch.setattr(plugin.Executor, name, getattr(plugin.Executor, name))
    monkeypatch.setattr(slurm_workarounds, "_SILENCE_SECONDS", 0.0)
    slurm_workarounds.apply_workarounds()
    slurm_workarounds.apply_workarounds()
    return coming


def states(command: str, warnings: list[str]) -> dict[str, str]:
    """What the executor is told."""
    logger = SimpleNamespace(warning=warnings.append)
    found, seconds = asyncio.run(plugin.query_job_status(command, logger))
    assert isinstance(seconds, float)
    return dict(found)


def test_without_an_answer_the_jobs_continue(answers: list[Answer]) -> None:
    warnings: list[str] = []
    answers += [({"7": "RUNNING"}, 0.1), (None, None), ({"7": "COMPLETED"}, 0.1)]
    assert [states("squeue", warnings) for _ in range(3)] == [{"7": "RUNNING"}, {}, {"7": "COMPLETED"}]
    (warning,) = warnings
    assert warning.startswith("Slurm does not answer squeue; ")


def test_a_job_that_squeue_has_lost_counts_as_failed(answers: list[Answer]) -> None:
    """Job 7 is forgotten, 8 lost its node, 9 was preempted; job 6 is back in the queue."""
    answers += [
        ({"6": "RUNNING", "7": "RUNNING", "8": "RUNNING", "9": "RUNNING"}, 0.1),
        ({"6": "PENDING", "8": "NODE_FAIL", "9": "PREEMPTED"}, 0.1),
    ]
    states("squeue --states=all", [])
    lost = dict.fromkeys(("7", "8", "9"), "FAILED")
    assert states("squeue --states=all", []) == {"6": "PENDING"} | lost


def test_states_of_sacct(answers: list[Answer]) -> None:
    """Accounting may leave out a job for a while, so that this says nothing."""
    answers += [({"7": "CANCELLED by 0", "8": "NODE_FAIL", "9": "RUNNING"}, 0.1), ({"8": "RUNNING"}, 0.1)]
    assert states("sacct -X", []) == {"7": "CANCELLED", "8": "REQUEUED", "9": "RUNNING"}
    assert states("sacct -X", []) == {"8": "RUNNING"}


def submitted(monkeypatch: pytest.MonkeyPatch, refusals: Iterator[str]) -> list[str]:
    """Submits a job to an sbatch that fails with these messages; returns what is reported as the job's failure."""
    reported: list[str] = []
    submitter = plugin.Executor.__new__(plugin.Executor)

    def run_job(job: str) -> None:
        if refusal := next(refusals, ""):
            submitter._report_job_error_threadsafe(SimpleNamespace(job=job), REFUSED.format(refusal))

    attributes: dict[str, Any] = {
        "logger": SimpleNamespace(warning=lambda text: None),
        "_main_event_loop": None,
        "_job_submission_executor": SimpleNamespace(submit=lambda run, job: run(job)),
        "run_job": run_job,
        "report_job_error": lambda info, msg: reported.append(f"{info.job}: {msg}"),
    }
    for name, value in attributes.items():
        monkeypatch.setattr(submitter, name, value, raising=False)
    submitter.run_job("job")
    return reported


SILENT, LOST = "Unable to contact slurm controller", "Socket timed out on send/recv operation"


@pytest.mark.usefixtures("answers")
def test_a_job_is_submitted_when_slurm_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """sbatch is a program that fails twice; any other refusal counts as the job's failure."""
    refusals = iter((SILENT, LOST, "invalid partition"))
    assert submitted(monkeypatch, refusals) == [f"job: {REFUSED.format('invalid partition')}"]


@pytest.mark.xfail(
    strict=True, reason="a lost reply of sbatch is taken for a refusal, so a queued job is submitted twice"
)
@pytest.mark.usefixtures("answers")
def test_a_job_whose_submission_may_have_arrived_is_not_submitted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    refusals = iter((LOST, "a second submission"))
    submitted(monkeypatch, refusals)
    assert next(refusals) == "a second submission", "nobody has read it"


@pytest.mark.xfail(strict=True, reason="a job is submitted again for as long as Slurm does not answer, without a limit")
@pytest.mark.usefixtures("answers")
def test_a_job_fails_when_slurm_stays_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    assert submitted(monkeypatch, iter([SILENT] * 100)) == [f"job: {REFUSED.format(SILENT)}"]


@pytest.mark.usefixtures("answers")
def test_sbatch_checks_the_account() -> None:
    """The executor would ask accounting, or guess."""
    submitter = plugin.Executor.__new__(plugin.Executor)
    given, none = (SimpleNamespace(resources={"slurm_account": account}) for account in ("lab", None))
    assert next(submitter.get_account_arg(given)) == " -A lab"
    assert next(submitter.get_account_arg(none)) == ""
