"""`stair from-archive`: every table and figure of an archived run again, without models or network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import INPUTS_CHECKED, RunPaths, anchored, project_root
from stair.config.resolve import ConfigError, dump, load_run, resolve
from stair.pipeline.archive import SHOWN, unpacked
from stair.pipeline.job_list import config_words
from stair.pipeline.jobs import PLACES, STAGES, stages_of
from stair.pipeline.verify import Receipts, faults
from stair.records.files import write_text_if_changed
from stair.records.keys import file_digest
from stair.records.manifest import changed_settings


def from_archive(archive: Path, run: str | None, cores: str | None) -> None:
    """Unpacks an archive as a new run, makes everything that it shows again, and compares the results.

    Raises:
        ValueError: the archive cannot be read, is damaged, or is another run's; or the run's folder is not empty.
        SystemExit: 1 where a file differs; Snakemake's code where it fails.
    """
    root = project_root()
    results = anchored(resolve(root, {} if run is None else {"run": run}).results)  # its disk has room for a run
    with unpacked(archive, results) as folder:
        archived = load_run(folder)
        overrides = {"run": run or archived.run}
        config = resolve(root, overrides)
        paths = RunPaths.of(config)
        if archived.run != config.run:
            raise ConfigError(f"{archive} is an archive of the run '{archived.run}', not of '{config.run}'")
        if paths.folder.is_dir() and any(paths.folder.iterdir()):
            raise ValueError(f"{paths.folder} is not empty; move it away")
        _check(config, archive, folder, archived)
        paths.folder.parent.mkdir(parents=True, exist_ok=True)
        folder.rename(paths.folder)
    write_text_if_changed(paths.resolved, dump(config))
    before = _digests(paths)
    for name in before:
        (paths.folder / name).unlink()
    paths.report.unlink(missing_ok=True)
    targets = [target for target in (*SHOWN, "report") if target in stages_of(config)]
    command = [str(Path(sys.executable).with_name("snakemake")), "--snakefile", str(root / "Snakefile")]
    command += ["--cores", cores] if cores is not None else []
    command += ["--allowed-rules", *dict.fromkeys((*targets, *(rule for each in targets for rule in STAGES[each])))]
    command += ["--config", *config_words(overrides), "--", *targets]
    if code := subprocess.run(command, env=os.environ | {INPUTS_CHECKED: "1"}, check=False).returncode:
        raise SystemExit(code)
    _compare(before, _digests(paths), paths.folder)


def _check(config: Config, archive: Path, folder: Path, archived: Config) -> None:
    """Refuses an archive of other settings, or with a damaged file."""
    if changes := changed_settings(*(each.model_dump(mode="json", exclude=PLACES) for each in (archived, config))):
        raise ConfigError(
            f"{archive} was made under other settings: {changes[0]}; check out the version of the project that made it, or "
            "name the overlay with --run"
        )
    for fault in faults(config, Receipts(folder)):
        raise ValueError(f"{archive}: {fault.file} is {fault.state}: {fault.reason}; copy the archive again")


def _digests(paths: RunPaths) -> dict[str, str]:
    """The files of tables, figures, comparison and claims, with their digests."""
    rules = {rule for stage in SHOWN for rule in STAGES[stage]}
    makers = Receipts(paths.folder).made.items()
    return {name: file_digest(paths.folder / name) for name, maker in makers if maker.rule in rules}


def _compare(archived: dict[str, str], made: dict[str, str], folder: Path) -> None:
    """Prints the result of the comparison. Raises SystemExit with 1 if a file differs."""
    different = sorted(name for name in archived.keys() & made.keys() if archived[name] != made[name])
    absent = sorted(archived.keys() ^ made.keys())
    equal = len(archived.keys() & made.keys()) - len(different)
    print(f"{equal} of {equal + len(different)} files of tables, figures and comparison are those of the archive")
    for name in different:
        print(f"differs from the archive's: {folder / name}", file=sys.stderr)
    for name in absent:
        print(
            f"not compared, because it is {'new' if name in made else 'not made any more'}: {folder / name}",
            file=sys.stderr,
        )
    if different:
        raise SystemExit(1)
