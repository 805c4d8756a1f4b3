"""Helpers of commands: the run, its jobs, thread counts, and the watch on the run's driver."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from stair.config.model import Config
from stair.config.paths import START, RunPaths
from stair.config.resolve import load_run
from stair.records.interruption import EXIT_AGAIN

DRIVEN_BY = "STAIR_DRIVER"
"""Environment: `host:process` of the command that drives the workflow on this machine."""


def open_run(folder: Path) -> tuple[Config, RunPaths]:
    return load_run(folder), RunPaths(folder)


class OpenJob(NamedTuple):
    """A job whose inputs are whole."""

    config: Config
    paths: RunPaths
    rule: str
    wildcards: dict[str, str]
    inputs: list[Path]

    @property
    def writable(self) -> bool:
        """Whether outputs can be written: a reader of somebody else's run cannot."""
        return os.access(self.paths.folder, os.W_OK)

    def record(self, outputs: Sequence[Path], **facts: Any) -> None:
        from stair.pipeline.rule_settings import settings_of
        from stair.records.manifest import write_manifest

        settings = settings_of(self.config, self.rule, self.wildcards)
        folder, wildcards = self.paths.folder, self.wildcards
        write_manifest(
            folder, outputs, rule=self.rule, wildcards=wildcards, inputs=self.inputs, settings=settings, **facts
        )

    def copied(self, outputs: Sequence[Path]) -> bool:
        """Copies the outputs from a run of `reuse` that made them from the same inputs; False without a match."""
        from stair.pipeline.reuse import copy_from_runs

        source = copy_from_runs(self.config, self.paths, self.rule, self.wildcards, outputs, self.inputs)
        if source is not None:
            print(f"{' '.join((self.rule, *self.wildcards.values()))}: reused from {source}")
        return source is not None


def open_job(run: Path, rule: str, inputs: Sequence[Path] | None, **wildcards: str) -> OpenJob:
    """Opens a job of a run.

    Args:
        rule: the Snakemake rule that describes the job.
        inputs: its input files, relative to the run's folder. A command by hand may leave them out.
        wildcards: those of the rule, without shards.

    Raises:
        ValueError: the run has no such job, or an input is missing or damaged.
    """
    from stair.pipeline.job_inputs import check_inputs, check_names, inputs_of

    by_hand = START not in os.environ
    config, paths = load_run(run), RunPaths(run if by_hand else run.absolute())
    check_names(config, rule, wildcards)
    if by_hand and not inputs:
        inputs = inputs_of(config, paths, rule, wildcards)
    files = [paths.folder / file for file in inputs or ()]
    check_inputs(config, paths, files)
    return OpenJob(config, paths, rule, wildcards, files)


def set_threads(threads: int) -> None:
    """Sets the thread counts of numeric libraries. Call it before they are imported; only torch accepts it later."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)


def watch_driver() -> None:
    """Ends this process when the driver that started it is gone, so that a killed run leaves nothing behind.

    Finished responses are in the work log; the next start resumes from it.
    """
    host, _, process = os.environ.get(DRIVEN_BY, "").partition(":")
    if host != socket.gethostname() or not process.isdigit():
        return
    import psutil

    def watch() -> None:
        while True:
            time.sleep(0.5)
            if not psutil.pid_exists(int(process)):
                os._exit(EXIT_AGAIN)

    threading.Thread(target=watch, daemon=True).start()
