"""Workarounds for snakemake-executor-plugin-slurm 2.8.0. No other module changes the executor.

Numbers are issues of github.com/snakemake/snakemake-executor-plugin-slurm. Remove a piece when the executor behaves so by itself.

States of jobs (`query_job_status`):

- Slurm does not answer: the executor drops the jobs that it asked about and waits for ever (#207). It now asks again later.
- squeue no longer lists a job, because the driver did not run for longer than Slurm remembers ended jobs, or because the
  controller lost its state: the executor waits for ever. The job now counts as failed, and is submitted again.
- PREEMPTED or NODE_FAIL by squeue means that Slurm did not put the job back into its queue: the executor waits for ever. The
  job now counts as failed.
- NODE_FAIL by sacct is also the state of a job in the queue: the executor asks for its node, which is "None assigned" by then,
  and sbatch refuses every later job (#485). The job now counts as waiting.
- sacct says who cancelled a job (`CANCELLED by 0`): the executor does not know this state and waits for ever. It now gets the
  first word.

Submissions:

- Slurm does not answer sbatch: the job fails, and its retries follow within seconds (#313). It is now submitted when Slurm
  answers, and no retry is counted.
- Before each submission, the executor asks accounting whether it knows the account; without an account, it guesses one. sbatch
  now gets the site's account or none, and checks it by itself.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from typing import Any

import snakemake_executor_plugin_slurm as plugin
from snakemake_interface_executor_plugins.executors.base import SubmittedJobInfo

_SILENCE_SECONDS = 30.0
_SILENT = ("Unable to contact slurm controller", "Socket timed out")
"""What sbatch says when Slurm's controller does not answer."""


def apply_workarounds() -> None:
    """Changes the executor of this process; once is enough."""
    ask, report = plugin.query_job_status, plugin.Executor._report_job_error_threadsafe
    if ask.__module__ == __name__:
        return
    listed: set[str] = set()

    async def states_of(command: str, logger: Any) -> tuple[dict[str, str], float]:
        states, seconds = await ask(command, logger)
        program = command.split()[0]
        if states is None:
            logger.warning(f"Slurm does not answer {program}; submitted jobs continue, and the run asks again")
            return {}, 0.0  # an answer without jobs makes the executor ask again
        words = {job: state.split()[0] for job, state in states.items()}
        if program != "squeue":
            return {job: "REQUEUED" if word == "NODE_FAIL" else word for job, word in words.items()}, seconds
        lost = {job for job, word in words.items() if word in ("NODE_FAIL", "PREEMPTED")}
        listed.update(words)
        return words | dict.fromkeys(lost | (listed - words.keys()), "FAILED"), seconds

    def report_error(self: plugin.Executor, job_info: SubmittedJobInfo, msg: str) -> None:
        if not any(silent in msg for silent in _SILENT):
            report(self, job_info, msg)
            return
        self.logger.warning("Slurm does not answer sbatch; the job is submitted when it answers")
        time.sleep(_SILENCE_SECONDS)
        self._job_submission_executor.submit(self.run_job, job_info.job)

    def account_argument(self: plugin.Executor, job: Any) -> Iterator[str]:
        account = job.resources.get("slurm_account")
        yield f" -A {shlex.quote(account)}" if account else ""

    plugin.query_job_status = states_of
    plugin.Executor._report_job_error_threadsafe, plugin.Executor.get_account_arg = report_error, account_argument
