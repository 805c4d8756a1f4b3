"""Helpers of commands: the run and thread counts."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths, project_root
from stair.config.resolve import load_run, resolve


def run_folder(run: Path) -> Path:
    """The folder of a run that is named by its folder, its overlay or its name. Raises ConfigError for an unknown name."""
    overlay, name = run.suffix in (".yaml", ".yml"), len(run.parts) == 1
    if not overlay and (not name or run.exists()):
        return run
    return RunPaths.of(resolve(project_root(), {"run": str(run)})).folder


def open_run(folder: Path) -> tuple[Config, RunPaths]:
    return load_run(folder), RunPaths(folder)


def set_threads(threads: int) -> None:
    """Sets the thread counts of numeric libraries. Call it before they are imported; only torch accepts it later."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(threads)
