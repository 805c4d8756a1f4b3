"""A run on Slurm whose controller or accounting does not answer, or answers what the executor does not know."""

from __future__ import annotations

import asyncio
import logging
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import snakemake_executor_plugin_slurm as executor

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.config.site import Partition, Site
from stair.pipeline import cluster as module
from stair.pipeline import slurm_answers
from stair.pipeline.cluster import Cluster
from stair.pipeline.driver_lease import DRIVER
from stair.pipeline.job_logs import refusal
from stair.pipeline.run import Run
from stair.pipeline.slurm_answers import mend_answers
from stair.pipeline.status import Entry, append
from stair.records.leases import Lease


class Resources(dict[str, object]):
    """A job's resources, as Snakemake gives them."""

    def __getattr__(self, name: str) -> object:
        return self[name]


ROOT = Path(__file__).parents[2]
REFUSED = "SLURM sbatch failed. The error message was 'sbatch: error: {}'."


@pytest.fixture(autouse=True)
def _own_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("run_job", "print_job_error", "format_job_exec"):
        monkeypatch.setattr(executor.Executor, name, getattr(executor.Executor, name))
    for name in ("validate_account", "query_job_status"):
        monkeypatch.setattr(executor, name, getattr(executor, name))


def answer_with(monkeypatch: pytest.MonkeyPatch, answer: dict[str, str]) -> None:
    """Slurm answers so, as often as it is asked."""

    async def ask(command: str, logger: object) -> object:
        return dict(answer), 0.1

    monkeypatch.setattr(executor, "query_job_status", ask)


def states() -> dict[str, str]:
    """What the executor is told."""
    found: dict[str, str] = asyncio.run(executor.query_job_status("sacct", None))[0]
    return found


def test_a_group_whose_submission_raises_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group has no rule, which the executor's own handler names."""
    (tmp_path / "logs").write_text("a file where the executor makes a folder")
    told: list[str] = []
    submitter = executor.Executor.__new__(executor.Executor)
    submitter.logger, submitter.slurm_logdir = logging.getLogger("test"), tmp_path / "logs"
    monkeypatch.setattr(
        submitter, "_report_job_error_threadsafe", lambda job, message: told.append(message), raising=False
    )
    group = SimpleNamespace(name="summary", is_group=lambda: True)
    mend_answers()
    submitter.run_job(group)
    assert len(told) == 1
    assert refusal(told[0]).startswith("it was not submitted: [Errno 17] File exists")


def test_one_snakemake_runs_the_jobs_of_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any other job is a step of its Slurm job, to which Slurm's warnings go."""
    submitter = executor.Executor.__new__(executor.Executor)
    settings = SimpleNamespace(executor_settings=SimpleNamespace(pass_command_as_script=False))
    monkeypatch.setattr(submitter, "workflow", settings, raising=False)
    step = submitter.additional_general_args()
    assert "--executor slurm-jobstep" in step
    monkeypatch.setattr(
        executor.Executor, "format_job_exec", lambda self, job: f"snakemake --cores 4 {step} --mode remote"
    )
    mend_answers()
    group, job = SimpleNamespace(is_group=lambda: True), SimpleNamespace(is_group=lambda: False)
    assert submitter.format_job_exec(group).split() == ["snakemake", "--cores", "4", "--mode", "remote"]
    assert submitter.format_job_exec(job) == f"snakemake --cores 4 {step} --mode remote"


def test_accounts_are_asked_for_once_and_not_with_each_job() -> None:
    """An account that accounting would have to be asked about."""
    mend_answers()
    submitter = executor.Executor.__new__(executor.Executor)
    submitter.logger = logging.getLogger("test")
    job = SimpleNamespace(resources=Resources({"slurm_account": "lab"}))
    assert next(submitter.get_account_arg(job)) == " -A lab"


def test_jobs_outlast_questions_without_an_answer_and_one_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([(None, None), (None, None), ({"7": "RUNNING"}, 0.1), (None, None)])
    warnings: list[str] = []
    logger = SimpleNamespace(warning=warnings.append)

    async def ask(command: str, logger: object) -> object:
        return next(answers)

    assert "query_job_status" in executor.Executor.check_active_jobs.__code__.co_names
    monkeypatch.setattr(executor, "query_job_status", ask)
    mend_answers()
    mend_answers()
    told = []
    for expected in (({}, 0.0), ({}, 0.0), ({"7": "RUNNING"}, 0.1), ({}, 0.0)):
        assert asyncio.run(executor.query_job_status("squeue --states=all", logger)) == expected
        told.append(len(warnings))
    assert told == [1, 1, 1, 2]
    assert warnings[0].startswith("Slurm does not answer squeue; ")


def test_a_job_that_slurm_has_forgotten_counts_as_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Job 7 is gone; accounting forgets job 8, which the queue knows."""
    now = 0.0
    answer = {"7": "RUNNING", "8": "RUNNING", "9": "RUNNING"}

    answer_with(monkeypatch, answer)
    monkeypatch.setattr(slurm_answers, "ask_slurm", lambda *words: "8\n9\n")
    monkeypatch.setattr(slurm_answers.time, "monotonic", lambda: now)
    mend_answers()
    assert states() == answer
    del answer["7"], answer["8"]
    now = 599.0
    assert states() == {"9": "RUNNING"}
    now = 601.0
    assert states() == {"7": "FAILED", "9": "RUNNING"}

    def silent(*words: str) -> str:
        raise ConfigError("squeue does not answer")

    monkeypatch.setattr(slurm_answers, "ask_slurm", silent)
    assert states() == {"9": "RUNNING"}


def test_states_that_the_executor_does_not_know(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slurm puts job 8 back into its queue, and not job 9."""
    now = 0.0
    answer = {"7": "CANCELLED by 0", "8": "NODE_FAIL", "9": "PREEMPTED"}

    answer_with(monkeypatch, answer)
    monkeypatch.setattr(slurm_answers, "ask_slurm", lambda *words: "8\n")
    monkeypatch.setattr(slurm_answers.time, "monotonic", lambda: now)
    mend_answers()
    assert states() == {"7": "CANCELLED", "8": "REQUEUED", "9": "REQUEUED"}
    now = 601.0
    assert states() == {"7": "CANCELLED", "8": "REQUEUED", "9": "FAILED"}
    answer["8"] = "RUNNING"
    assert states()["8"] == "RUNNING"


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    config = resolve(ROOT, {"run": "smoke", "results": str(tmp_path)})
    monkeypatch.setattr(module, "_SILENCE_SECONDS", 0.0)
    return Cluster(Site(partitions={"main": Partition(minutes=60, mem_mb=9000)}), Run(config, RunPaths.of(config)), [])


def fail(cluster: Cluster, error: str) -> None:
    append(cluster._paths, Entry("check", "again", time.time(), reason=refusal(REFUSED.format(error))))


def test_a_start_follows_when_slurm_answers_again(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    before = time.time() - 1
    fail(cluster, "Invalid partition name specified")
    assert not cluster.outlast_silence(before), "another start would fail, too"
    fail(cluster, "Batch job submission failed: Unable to contact slurm controller (connect failure)")
    assert not cluster.outlast_silence(time.time() + 1), "an earlier start's failure"
    asked: list[str] = []

    def ask(*words: str) -> str:
        asked.append(words[0])
        if len(asked) < 3:
            raise ConfigError("squeue failed")
        return ""

    monkeypatch.setattr(module, "ask_slurm", ask)
    assert cluster.outlast_silence(before)
    assert asked == ["squeue"] * 3
    with Lease(cluster._paths.work(), DRIVER), pytest.raises(ConfigError, match="drives"):
        cluster.outlast_silence(before)


@pytest.mark.parametrize(
    ("kind", "asks_squeue"),
    [("accounting_storage/none", True), ("(null)", True), ("accounting_storage/slurmdbd", False)],
)
def test_without_accounting_the_queue_is_asked(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: str, asks_squeue: bool
) -> None:
    """Lines of `scontrol show config`. The site's arguments come later, so that they win."""
    listed = f"AccountingStorageTRES   = cpu,mem\nAccountingStorageType   = {kind}\nAccountingStoreFlags    = (null)\n"
    monkeypatch.setattr(module, "ask_slurm", lambda *words: listed)
    cluster.site = cluster.site.model_copy(update={"snakemake": ("--jobs", "50")})
    assert ("squeue" in cluster.arguments) == asks_squeue
    assert cluster.arguments[-2:] == ["--jobs", "50"]
