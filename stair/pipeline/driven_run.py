"""The run of a Snakefile. No other module touches Snakemake's own objects."""

from __future__ import annotations

import atexit
import os
import signal
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from snakemake.exceptions import WorkflowError

from stair.config.model import Config
from stair.config.paths import INPUTS_CHECKED, RUN, START, RunPaths
from stair.config.resolve import ConfigError, dump, load_run, resolve
from stair.pipeline.driver import record_driver
from stair.pipeline.input_checks import UNWRITABLE, input_faults, refuse
from stair.records.files import write_text_if_changed


class SettingsError(WorkflowError):
    """An error of a user's settings or folder. Snakemake shows its message alone, because it finds no place in the code."""

    __traceback__ = property(lambda self: None, lambda self, value: None)


@dataclass(frozen=True, eq=False)
class DrivenRun:
    """The run that this process drives."""

    config: Config
    paths: RunPaths
    workflow: Any

    @cached_property
    def workdir(self) -> Path:
        """The folder of the rules: the run's. Snakemake writes there, also in a dry run.

        A dry run of a new run therefore has an empty one, and that of a run that may not be written one with the run's files.
        """
        run = self.paths.folder
        if not self.workflow.output_settings.dryrun or (run.exists() and os.access(run / ".snakemake", os.W_OK)):
            return run
        folder = TemporaryDirectory(prefix="stair-")
        atexit.register(folder.cleanup)
        if run.exists():
            _show_files(run, Path(folder.name))
        return Path(folder.name)

    def begin(self) -> None:
        """Records the driver, and writes the resolved configuration if it has changed.

        Raises:
            SettingsError: the run's folder cannot be written.
        """
        try:
            record_driver(self.paths)
            write_text_if_changed(self.paths.resolved, dump(self.config))
        except ConfigError as error:
            raise SettingsError(str(error)) from None
        except OSError as error:
            raise SettingsError(f"results: {self.paths.folder} cannot be written ({error}): {UNWRITABLE}") from None


def _show_files(run: Path, folder: Path) -> None:
    """Links the files of a run, and Snakemake's records of them, in an empty folder, with their times.

    Snakemake refuses to make a file again that it cannot write, unless that is a link.
    """
    for place, folders, files in os.walk(run.absolute()):
        folders[:] = [name for name in folders if name != ".snakemake"]
        target = folder / os.path.relpath(place, run)
        target.mkdir(exist_ok=True)
        for name in files:
            (target / name).symlink_to(file := Path(place, name))
            time = file.lstat().st_mtime_ns
            os.utime(target / name, ns=(time, time), follow_symlinks=False)
    (folder / ".snakemake").mkdir()
    for name in ("metadata", "incomplete"):
        if (records := run.absolute() / ".snakemake" / name).is_dir():
            (folder / ".snakemake" / name).symlink_to(records)


def driven_run(workflow: Any) -> DrivenRun:
    """Resolves the configuration of a Snakemake workflow: config.yaml, the run's overlay, --configfile, --config.

    A job on a cluster has that of its driver: the files may have changed since.

    Raises:
        SettingsError: one line that names the key, file or column.
    """
    # Slurm warns every process of a job before its time limit. The commands stop; Snakemake waits for them.
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    os.environ.setdefault(START, workflow.workdir_init)  # the jobs work in the run's folder
    try:
        if workflow.remote_exec:
            paths = RunPaths(Path(os.environ[RUN]))
            config = load_run(paths.folder)
        else:
            config = resolve(Path(workflow.basedir), workflow.config_settings.overwrite_config)
            paths = RunPaths.of(config)
            if not (workflow.output_settings.dryrun or INPUTS_CHECKED in os.environ):
                refuse(input_faults(config, paths))
            os.environ[RUN] = str(paths.folder.absolute())
    except ConfigError as error:
        raise SettingsError(str(error)) from None
    return DrivenRun(config, paths, workflow)
