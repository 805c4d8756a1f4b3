"""Helpers of commands: the run, its jobs, thread counts, and the watch on the run's driver."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.jobs.interruption import EXIT_AGAIN

DRIVEN_BY = "STAIR_DRIVER"
"""Environment: `host:process` of the command that drives the workflow on this machine."""


def open_run(folder: Path) -> tuple[Config, RunPaths]:
    """The configuration and the paths of a run's folder."""
    return load_run(folder), RunPaths(folder)


def open_job(run: Path, rule: str, *name: str) -> tuple[Config, RunPaths]:
    """The configuration and paths of a job's run.

    Raises:
        ValueError: the run has no such job, or an input of the job that the run makes does not exist or differs from its
            checksum. Stages check files from outside.
    """
    from stair.graph.artifacts import Artifacts
    from stair.graph.integrity import damage  # imports PyArrow
    from stair.graph.start_command import start_command

    settings, paths = open_run(run)
    # An unneeded job may be run too. Inputs are those of the graph that leaves unneeded jobs out: a table of a restored
    # archive, say, has fewer.
    needed, every = Artifacts(settings, paths).by_file, Artifacts(settings, paths, include_unneeded=True)
    for artifact in every.of(rule, *name):
        inputs = needed.get(artifact.manifest, artifact).inputs
        absent = next((file for file in inputs if file in every.by_file and not file.exists()), None)
        if absent is not None:
            raise ValueError(
                f"{absent} does not exist; {artifact.title} needs it; to make it: {start_command(settings, paths)}"
            )
        if fault := damage(settings, paths, inputs):
            raise ValueError(f"{artifact.title} is made from a damaged file in {paths.folder}: {fault}")
    return settings, paths


def copied_existing(run: Path, rule: str, *name: str, runs: bool = True) -> bool:
    """Copies a job's outputs from a restored archive or (with `runs`) a run of `reuse`; False without a match."""
    from stair.graph.reused_outputs import copy_existing

    source = copy_existing(*open_run(run), rule, *name, runs=runs)
    if source is not None:
        print(f"{' '.join((rule, *name))}: reused from {source}")
    return source is not None


def record_origin(run: Path, rule: str, *name: str) -> None:
    """Writes the origin of a job's outputs into their manifests."""
    from stair.graph.recorded_origin import record_origin as write_origin

    write_origin(*open_run(run), rule, *name)


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

    def watch() -> None:
        while True:
            time.sleep(0.5)
            if not Path(f"/proc/{process}").exists() and not _alive(int(process)):
                os._exit(EXIT_AGAIN)

    threading.Thread(target=watch, daemon=True).start()


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
