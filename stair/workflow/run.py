"""The run that a Snakefile is about: the one place that touches Snakemake's own objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.preflight import check_inputs
from stair.config.resolve import ConfigError, dump, resolve
from stair.records.files import write_text_if_changed


@dataclass(frozen=True)
class Run:
    """A resolved run."""

    config: Config
    paths: RunPaths

    def write(self) -> None:
        """Writes the resolved configuration when its content has changed; stages read this file."""
        write_text_if_changed(self.paths.resolved, dump(self.config))


current: Run | None = None
"""The run that this process has opened last, for the display."""


def open_run(workflow: Any) -> Run:
    """Resolves the configuration of a Snakemake workflow: config.yaml, the run's overlay, --configfile, --config.

    Raises:
        WorkflowError: with one line that names the key, file or column.
    """
    global current
    root = Path(workflow.basedir)
    try:
        config = resolve(root, workflow.config_settings.overwrite_config)
        paths = RunPaths.of(config)
        check_inputs(config, paths)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    current = Run(config, paths)
    return current
