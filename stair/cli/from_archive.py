"""`stair from-archive`: every table and figure of an archived run again, without models or network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from stair.cli.reproduce import project_root, reproduce
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, ConfigError, dump, read_yaml, resolve
from stair.graph.outputs import NEEDED, OUTPUTS
from stair.graph.restore import Outcome, restore
from stair.graph.run import Run
from stair.records.files import write_text_if_changed
from stair.records.unpacking import opened

_COMPARED = ("tables", "figures", "comparison", "claims")
"""The targets whose files are compared with the archive's."""


def from_archive(archive: Path, run: str | None, cores: str | None) -> None:
    """Restores an archive, makes everything that follows from it, and compares tables and figures with the archive's.

    Raises:
        ValueError: the archive cannot be read, belongs to another run, or lacks what a table or figure needs.
        SystemExit: 1 where an output was rejected or a file differs.
    """
    root = project_root()
    # The results' folder has room for a run.
    with opened(archive, Path("results"), ("tables",)) as folder:
        name = run or _run_of(folder, archive)
        config = resolve(root, {"run": name})
        paths = RunPaths.of(config)
        archived = _run_of(folder, archive)
        if archived != config.run:
            raise ConfigError(f"{archive} is an archive of the run '{archived}', not of '{config.run}'")
        write_text_if_changed(paths.resolved, dump(config))
        outcomes = restore(config, paths, folder)
        _refuse_rejected(outcomes, archive, paths, name)
        print(f"{sum(outcome.restored for outcome in outcomes)} outputs of {archive} restored in {paths.folder}")
        restored = Run(config, paths)
        if lacking := [*NEEDED.used_models(restored), *NEEDED.trained_models(restored)]:
            raise ValueError(
                f"{archive} lacks outputs of {lacking[0]} that only a model can make; to generate them: "
                f"make reproduce RUN={name}"
            )
        reproduce(name, go=True, target="all", cores=cores, settings=[])
        report(compare(restored, RunPaths(folder)), paths.folder)


def _refuse_rejected(outcomes: list[Outcome], archive: Path, paths: RunPaths, name: str) -> None:
    """Prints the rejected outputs by their reasons, with the remedies; exits with 1 if there are any."""
    rejected: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.reason:
            rejected.setdefault(outcome.reason, []).append(outcome.name)
    if not rejected:
        return
    for reason, names in rejected.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"not restored: {names[0]}{more}: {reason}", file=sys.stderr)
    print(
        "to use them, check out the version of the project that made the archive, or fetch a damaged archive again; "
        f"to compute them instead: stair restore {archive} --run {paths.folder}, then stair reproduce --run {name}",
        file=sys.stderr,
    )
    raise SystemExit(1)


def _run_of(folder: Path, archive: Path) -> str:
    """The name of an archive's run."""
    resolved = folder / RESOLVED
    try:
        name = read_yaml(resolved, dumped=True).get("run") if resolved.is_file() else None
    except ConfigError as error:
        raise ValueError(f"{archive} is damaged: {error}") from None
    if not isinstance(name, str):
        raise ValueError(f"{archive} has no {RESOLVED} that names its run; make it with: make archive RUN=name")
    return name


def compared_files(run: Run) -> list[Path]:
    """The files of tables, figures, comparison and claims, below the run's folder."""
    return [
        file.relative_to(run.paths.folder)
        for output in OUTPUTS.values()
        if output.target in _COMPARED
        for file in output.every_file(run)
    ]


class Comparison(NamedTuple):
    """The compared files of a run beside those of its archive, below their folders."""

    equal: list[Path]
    different: list[Path]
    absent: list[Path]
    """Not in the archive."""


def compare(run: Run, archive: RunPaths) -> Comparison:
    """Compares the tables, figures, comparison and claims of a run with the archive's, byte for byte."""
    comparison = Comparison([], [], [])
    for name in compared_files(run):
        here, archived = run.paths.folder / name, archive.folder / name
        if not archived.is_file():
            comparison.absent.append(name)
        elif here.read_bytes() == archived.read_bytes():
            comparison.equal.append(name)
        else:
            comparison.different.append(name)
    return comparison


def report(comparison: Comparison, folder: Path) -> None:
    """Prints the result of a comparison with the run in `folder`.

    Raises:
        SystemExit: 1 where a file differs.
    """
    equal, different, absent = comparison
    total = len(equal) + len(different)
    print(f"{len(equal)} of {total} files of tables, figures and comparison are those of the archive")
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        listed = ", ".join(map(str, sorted(absent)[:3]))
        print(f"not in the archive, so not compared: {listed}{more}", file=sys.stderr)
    for name in different:
        print(f"differs from the archive's: {folder / name}", file=sys.stderr)
    if different:
        raise SystemExit(1)
