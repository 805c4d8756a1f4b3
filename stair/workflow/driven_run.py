"""The run of a Snakefile. No other module touches Snakemake's own objects."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, dump, resolve
from stair.graph.run import Run
from stair.jobs.claims import ClaimedError
from stair.records.files import write_text_if_changed
from stair.workflow.driver_claim import claim_run, hint_at_stale_locks
from stair.workflow.input_checks import check_inputs


@dataclass(frozen=True, eq=False)
class DrivenRun(Run):
    """The run that this process drives."""

    def begin(self) -> None:
        """Claims the run, and writes the resolved configuration when its content has changed; stages read this file.

        Raises:
            WorkflowError: another process drives this run.
        """
        try:
            claim_run(self.paths)
        except ClaimedError as error:
            raise WorkflowError(str(error)) from None
        write_text_if_changed(self.paths.resolved, dump(self.config))


current: DrivenRun | None = None
"""The last run that this process opened, for the display."""


def open_run(workflow: Any) -> DrivenRun:
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
    hint_at_stale_locks(Path(config.results))
    current = DrivenRun(config, paths)
    return current
