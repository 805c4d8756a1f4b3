"""The run of a Snakefile. No other module touches Snakemake's own objects."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from snakemake.exceptions import WorkflowError

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, dump, resolve
from stair.config.site import Site, read_site
from stair.graph.output_kind import OutputKind
from stair.graph.resources import check_fits, resources
from stair.graph.run import Run
from stair.graph.start_command import record_start
from stair.jobs.leases import HeldError
from stair.records.files import MAKE_ROOM, is_full, write_text_if_changed
from stair.workflow.driver_lease import hint_at_stale_locks, hold_run
from stair.workflow.input_checks import UNWRITABLE, check_inputs


@dataclass(frozen=True, eq=False)
class DrivenRun(Run):
    """The run that this process drives."""

    workflow: Any = None
    """Snakemake's workflow."""

    ASKED: ClassVar = ("gpu", "mem_mb", "runtime", "gpu_model", "slurm_partition", "slurm_account", "slurm_extra")
    """The resources of a rule."""

    @cached_property
    def site(self) -> Site | None:
        """The site that runs the jobs; None where this machine does. Snakemake chooses that after it has read the rules."""
        return None if self.workflow.local_exec else read_site(Path(self.workflow.basedir))

    def asked(self, output: OutputKind, *name: str, seals: bool, attempt: int) -> dict[str, int | str | None]:
        """The values of `ASKED`. A further attempt asks for more memory, because the first may have ended for its lack."""
        need = resources(self, output, *name, seals=seals, site=self.site)
        asked: dict[str, int | str | None] = dict.fromkeys(self.ASKED)
        asked |= {"gpu": need.gpus, "mem_mb": need.mem_mb, "runtime": need.minutes}
        if (site := self.site) is None:
            return asked
        partition = site.partition_for(need.gpus, need.mem_mb, need.minutes)
        if partition is None:  # `begin` refuses it
            return asked
        limit = site.partitions[partition]
        return asked | {
            "mem_mb": min(need.mem_mb * attempt, limit.mem_mb),
            "gpu_model": limit.gpu_model if need.gpus else None,
            "slurm_partition": partition,
            "slurm_account": site.account,
            # Others start over after a warning, which their short requests would bring at once.
            "slurm_extra": f"--signal=USR1@{site.signal_seconds}" if need.resumes else None,
        }

    def begin(self) -> None:
        """Leases the run, and writes the resolved configuration when its content has changed; stages read this file.

        Raises:
            WorkflowError: another process drives this run, the site has no partition for one of its jobs, or the run's folder
                cannot be written.
        """
        try:
            if self.site is not None:
                check_fits(self, self.site)
                from stair.workflow.slurm_answers import mend_answers  # the executor's package takes a while

                mend_answers()
            hold_run(self.paths)
            write_text_if_changed(self.paths.resolved, dump(self.config))
            overrides = self.workflow.config_settings.overwrite_config
            record_start(Path(self.workflow.basedir), self.config, self.paths, overrides)
        except (HeldError, ConfigError) as error:
            raise WorkflowError(str(error)) from None
        except OSError as error:
            remedy = MAKE_ROOM if is_full(error) else UNWRITABLE
            raise WorkflowError(f"results: {self.paths.folder} cannot be written ({error}): {remedy}") from None


current: DrivenRun | None = None
"""The last run that this process opened, for the display."""


def open_run(workflow: Any) -> DrivenRun:
    """Resolves the configuration of a Snakemake workflow: config.yaml, the run's overlay, --configfile, --config.

    Raises:
        WorkflowError: with one line that names the key, file or column.
    """
    global current
    # Slurm warns every process of a job before its time limit. The commands stop; Snakemake waits for them.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    root = Path(workflow.basedir)
    try:
        config = resolve(root, workflow.config_settings.overwrite_config)
        paths = RunPaths.of(config)
        check_inputs(config, paths)
    except ConfigError as error:
        raise WorkflowError(str(error)) from None
    hint_at_stale_locks(Path(config.results))
    current = DrivenRun(config, paths, workflow=workflow)
    return current
