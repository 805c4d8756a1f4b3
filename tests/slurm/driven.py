"""A run that a driver submits to the test cluster, and the states of its jobs."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import yaml

from stair.records.worklog import WorkLog
from tests.slurm.cluster import ACCOUNT, NODES, Cluster
from tests.workflow.conftest import environment

# The plugin asks for the states of jobs after 1, 11, 21, ... seconds, so a job of five seconds would take half a minute.
_OFTEN = """\
import sys
if "--slurm-jobname-prefix" in sys.orig_argv:
    from snakemake_executor_plugin_slurm import Executor
    Executor.next_seconds_between_status_checks = property(lambda self: 1, lambda self, seconds: None)
"""

PATIENCE = 600
"""Seconds until a test gives a wait up, because something hangs. A slow machine needs more than half of it."""

NODE = {"max_runtime": 60, "max_mem_mb": 12_000, "max_gpu": 2, "available_gpu_models": ["h100"]}
SHIPPED = Path(__file__).parents[2] / "profiles" / "slurm" / "config.yaml"
PROFILE = "profile"
"""The folder of the run's profile."""


def write_profile(folder: Path, **rules: dict[str, object]) -> None:
    """Writes a profile for the small jobs of a smoke run on the test cluster, as a user would: the shipped one, changed.

    Args:
        folder: the folder of the start.
        rules: resources by rule.
    """
    profile = yaml.safe_load(SHIPPED.read_text())
    small = {"mem_mb": "attempt * 1600", "runtime": 5, "slurm_account": ACCOUNT}
    profile["default-resources"] |= small | {"slurm_extra": "'--signal=USR1@30'"}
    profile["set-resources"] = {rule: {"runtime": 60} for rule in profile["set-resources"]} | rules
    profile |= {"latency-wait": 5, "slurm-init-seconds-before-status-checks": 1}
    (folder / PROFILE).mkdir(exist_ok=True)
    (folder / PROFILE / "config.yaml").write_text(yaml.safe_dump(profile))
    (folder / PROFILE / "partitions.yaml").write_text(yaml.safe_dump({"partitions": {"main": NODE}}))


@dataclass
class DrivenRun:
    """A smoke run in a folder, which has a profile."""

    cluster: Cluster
    folder: Path
    command: Sequence[str]
    as_job: bool = False
    """Whether the driver is a job of the cluster, too, on the first node."""
    driver: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the driver."""
        often = self.folder.parent / "often"
        often.mkdir(exist_ok=True)
        (often / "sitecustomize.py").write_text(_OFTEN)
        words = tuple(self.command)
        if self.as_job:
            into = ("--output=output.txt", "--open-mode=append")
            words = (
                "sbatch",
                "--wait",
                f"--nodelist={NODES[0]}",
                "--mem=2000",
                "--signal=B:USR1@60",
                *into,
                "--wrap",
                f"exec {shlex.join(words)}",
            )
        with open(self.folder / "output.txt", "ab") as output:
            command = self.cluster.inside(*words, folder=self.folder)
            shell = environment() | {"PYTHONPATH": str(often)}
            self.driver = subprocess.Popen(command, env=shell, stdout=output, stderr=output)

    @property
    def results(self) -> Path:
        return self.folder / "results" / "smoke"

    @property
    def output(self) -> str:
        """What all drivers have printed."""
        return (self.folder / "output.txt").read_text()

    def until(self, what: str, holds: Callable[[], object]) -> None:
        """Waits for something that happens while the driver lives."""
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert self.driver is not None and self.driver.poll() is None, (
                f"the driver ended before {what}\n{self.output}"
            )
            assert time.monotonic() < deadline, f"in {PATIENCE} s it did not happen: {what}\n{self.output[-3000:]}"
            time.sleep(0.3)

    def stop_when(self, processes: Sequence[int], what: str, holds: Callable[[], object]) -> None:
        """Lets processes work in short steps until something holds, and leaves them stopped, however slow this machine is."""

        def step() -> object:
            for sign in (signal.SIGCONT, signal.SIGSTOP):
                for process in processes:
                    os.kill(process, sign)
                if sign == signal.SIGCONT:
                    time.sleep(0.5)
            return holds()

        self.until(what, step)

    def end(self) -> None:
        """Waits for the driver's success."""
        assert self.driver is not None
        deadline = time.monotonic() + PATIENCE
        while self.driver.poll() is None and time.monotonic() < deadline:
            self.start_requeued()
            with suppress(subprocess.TimeoutExpired):
                self.driver.wait(1)
        assert self.driver.poll() == 0, self.output[-6000:]

    def stop(self) -> None:
        """Ends the driver, whatever it does."""
        if self.driver is not None and self.driver.poll() is None:
            self.kill_driver()

    def kill_driver(self) -> None:
        """SIGKILL to the driver and to the Snakemake that it runs; the cluster's jobs continue."""
        assert self.driver is not None
        for process, _ in self._driving():
            os.kill(process, signal.SIGKILL)
        self.driver.wait(10)

    def interrupt_driver(self) -> int:
        """Ctrl-C to the driver. Returns its exit code."""
        assert self.driver is not None
        (process,) = [process for process, words in self._driving() if words[1].endswith(b"/stair")]
        os.kill(process, signal.SIGINT)
        return self.driver.wait(60)

    def _driving(self) -> list[tuple[int, list[bytes]]]:
        """The driver and its Snakemake, with their words."""
        found = []
        for process in self.cluster.members():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                # Snakemake works in the run's folder.
                if b"--profile" in words and os.readlink(process / "cwd") in (str(self.folder), str(self.results)):
                    found.append((int(process.name), words))
        return found

    def jobs(self, rule: str, state: str = "R") -> list[str]:
        """The Slurm ids of a rule's jobs in a state."""
        lines = self.cluster.ask("squeue", "-h", "-t", state, "-o", "%i %Z %k").splitlines()
        words = [line.split() for line in lines]
        return [job for job, folder, name in words if folder == str(self.folder) and f"rule_{rule}_" in name]

    def show(self, job: str) -> dict[str, str]:
        """What Slurm says of a job."""
        return dict(word.partition("=")[::2] for word in self.cluster.ask("scontrol", "show", "job", "-o", job).split())

    def ended(self, state: str) -> list[str]:
        """The jobs of this run that ended in a state."""
        lines = self.cluster.ask("squeue", "-h", "-t", "all", "-o", "%i %T %Z").splitlines()
        return [job for job, was, folder in map(str.split, lines) if was == state and folder == str(self.folder)]

    def requeued(self) -> list[str]:
        """The jobs of this run that Slurm has put back into the queue."""
        listed = self.cluster.ask("scontrol", "show", "job", "-o").splitlines()
        jobs = [dict(word.partition("=")[::2] for word in line.split()) for line in listed]
        return [job["JobId"] for job in jobs if job["WorkDir"] == str(self.folder) and job["Restarts"] != "0"]

    def start_requeued(self) -> None:
        """Starts requeued jobs at once, as an administrator can. Slurm would wait for two minutes."""
        for line in self.cluster.ask("squeue", "-h", "-t", "PD", "-o", "%i %r").splitlines():
            job, reason = line.split(maxsplit=1)
            if reason == "BeginTime":
                self.cluster.ask("scontrol", "update", f"jobid={job}", "starttime=now", check=False)

    def records(self, work: str) -> int:
        """Finished records of the logs below a work folder."""
        return sum(len(WorkLog(log)) for log in (self.results / "work" / work).glob("**/log"))

    def records_of_shard(self, work: str, shard: str) -> int:
        """Finished records of one shard."""
        logs = (self.results / "work" / work).glob(f"**/log/shard-{shard}-of-*.log")
        return sum(log.read_bytes().count(b"\n") for log in logs)  # a record is a line

    def repeated(self) -> int:
        """Records that were written twice, in all logs."""
        logs = list((self.results / "work").glob("**/log"))
        assert logs
        return sum(WorkLog(log).counts.duplicates for log in logs)

    def process_of(self, job: str, rule: str) -> int:
        """The process of a job that runs a stair command, once there is one."""
        found: list[int] = []
        self.until(f"job {job} runs stair job {rule}", lambda: found.extend(self._processes_of(job, rule)) or found)
        return found[0]

    def _processes_of(self, job: str, rule: str) -> Iterator[int]:
        return (process for of, process in self._processes(rule) if of == job)

    def _processes(self, rule: str) -> Iterator[tuple[str, int]]:
        """The processes that run a rule's command, each with its job."""
        for process in self.cluster.members():
            with suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if len(words) > 3 and words[1].endswith(b"/stair") and words[2:4] == [b"job", rule.encode()]:
                    variables = (process / "environ").read_bytes().split(b"\0")
                    yield from (
                        (word.partition(b"=")[2].decode(), int(process.name))
                        for word in variables
                        if word.startswith(b"SLURM_JOB_ID=")
                    )
