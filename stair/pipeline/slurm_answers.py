"""Mends what Snakemake's Slurm executor makes of some answers and errors. It is the only module that changes the executor.

- Slurm does not answer: after a few questions the executor drops the jobs that it asked about, and says nothing. It now asks
  again later, and a warning says so.
- Slurm no longer knows a job, because its controller lost its state, or because the driver was suspended for longer than
  Slurm remembers ended jobs: the executor keeps waiting for it. Such a job now counts as failed, and is submitted again.
- Accounting says who cancelled a job (`CANCELLED by 0`): the executor does not know this state and keeps waiting. It now
  gets the first word.
- A job lost its node or was preempted: the executor waits for ever for Slurm to put it back into the queue, and asks
  accounting for its node, which is "None assigned" by then; sbatch refuses every later job with these words. Such a job now
  counts as waiting, and as failed if Slurm does not put it back.
- The submission of a group of jobs raises an exception: the executor's own handler fails, and the group never ends. It now
  counts as failed.
- A group of jobs fails: Snakemake loses the executor's message, such as sbatch's refusal. The display now gets it.
- A group of jobs begins: the executor starts its jobs one after another, each in a Snakemake of its own, within the time of
  jobs that run side by side. One Snakemake now runs them side by side (`graph.job_groups`).
- Accounting does not answer: the executor asks it about the account before each submission, and gives up. The start of a run
  asks once (`jobs.slurm_account`); sbatch still refuses a wrong account.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import snakemake_executor_plugin_slurm as executor
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

from stair.config.resolve import ConfigError
from stair.pipeline.cluster import ask_slurm
from stair.pipeline.job_logs import GROUP_MESSAGE

_UNKNOWN_SECONDS = 600.0
"""How long an answer may leave out a job that an earlier one had: accounting lags behind."""

_MAY_BE_REQUEUED = ("NODE_FAIL", "PREEMPTED")
"""States after which Slurm may put a job back into its queue."""


def mend_answers() -> None:
    """Makes these changes to the executor of this process."""
    ask, submit, report = executor.query_job_status, executor.Executor.run_job, executor.Executor.print_job_error
    command_of = executor.Executor.format_job_exec
    if ask.__module__ == __name__:
        return
    seen: dict[str, float] = {}
    silent = False

    async def asked(command: str, logger: Any) -> tuple[dict[str, str], float]:
        nonlocal silent
        states, seconds = await ask(command, logger)
        if states is None:
            if not silent:
                program = command.partition(" ")[0]
                logger.warning(f"Slurm does not answer {program}; submitted jobs continue, and the run asks again")
            silent = True
            return {}, 0.0  # an answer without jobs makes the executor ask again
        silent = False
        states = {job: state.partition(" ")[0] for job, state in states.items()}
        taken = [job for job, state in states.items() if state in _MAY_BE_REQUEUED]
        now = time.monotonic()
        seen.update({job: seen.get(job, now) if job in taken else now for job in states})
        unknown = [job for job, when in seen.items() if now - when > _UNKNOWN_SECONDS]
        return states | dict.fromkeys(taken, "REQUEUED") | dict.fromkeys(_lost(unknown), "FAILED"), seconds

    def submitted(self: executor.Executor, job: Any) -> None:
        try:
            submit(self, job)
        except Exception as error:
            cause = error.__context__ or error
            self._report_job_error_threadsafe(SubmittedJobInfo(job), f"Job submission failed with exception: {cause}")

    def reported(self: executor.Executor, job_info: SubmittedJobInfo, msg: str | None = None, **more: Any) -> None:
        report(self, job_info, msg, **more, **({GROUP_MESSAGE: msg or ""} if job_info.job.is_group() else {}))

    def command(self: executor.Executor, job: Any) -> str:
        words: str = command_of(self, job)
        step = self.additional_general_args()
        if not job.is_group():
            return words
        assert step in words, f"Snakemake's command for a group has no `{step}`: {words}"
        return words.replace(step, "")

    executor.query_job_status, executor.Executor.run_job = asked, submitted
    executor.Executor.print_job_error, executor.Executor.format_job_exec = reported, command
    executor.validate_account = lambda account, logger: account


def _lost(jobs: Iterable[str]) -> set[str]:
    """The jobs that are not in Slurm's queue, which knows more than accounting; none where it does not answer."""
    if not (unknown := set(jobs)):
        return unknown
    try:
        return unknown.difference(ask_slurm("squeue", "--me", "--noheader", "--format=%i").split())
    except ConfigError:
        return set()
