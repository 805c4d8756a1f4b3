"""`stair from-archive`: every table and figure of an archived run again, without models or network."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from stair.cli.reproduce import reproduce
from stair.config.paths import RunPaths, anchored, project_root
from stair.config.resolve import RESOLVED, ConfigError, dump, read_yaml, resolve
from stair.pipeline.archive import ARCHIVED, COMPARED, MADE_AGAIN
from stair.pipeline.job_list import list_jobs
from stair.pipeline.restore import Archive, Outcome
from stair.records.archive_files import opened
from stair.records.files import write_text_if_changed
from stair.records.manifest import Manifest, manifest_files, read_manifest


def from_archive(archive: Path, run: str | None, cores: str | None) -> None:
    """Copies an archive's outputs into a new run, makes everything that follows from them, and compares the results.

    Raises:
        ValueError: the archive cannot be read, is another run's or lacks an input; or the run's folder is not empty.
        SystemExit: 1 where an output was rejected or a file differs.
    """
    root = project_root()
    # The results' folder has room for a run.
    results = anchored(resolve(root, {} if run is None else {"run": run}).results)
    with opened(archive, results) as folder:
        archived = _run_of(folder, archive)
        name = run or archived
        config = resolve(root, {"run": name})
        paths = RunPaths.of(config)
        if archived != config.run:
            raise ConfigError(f"{archive} is an archive of the run '{archived}', not of '{config.run}'")
        if paths.folder.is_dir() and any(paths.folder.iterdir()):
            raise ValueError(
                f"{paths.folder} is not empty; move it away, or copy single outputs: stair restore {archive} --run {paths.folder}"
            )
        content = Archive(config, paths, folder)
        outcomes = content.outcomes()
        _refuse_rejected(outcomes, archive, paths, name)
        content.copy(outcomes, archive.name)
        write_text_if_changed(paths.resolved, dump(config))
        print(f"{sum(each.restorable for each in outcomes)} outputs of {archive} restored in {paths.folder}")
        before = _compared(content.manifests)
    others = [job for job in list_jobs(root, {"run": name}) if job.rule not in MADE_AGAIN]
    if others:
        files = [
            file for job in others if job.rule in ARCHIVED for file in job.outputs if not (paths.folder / file).exists()
        ]
        raise ValueError(
            f"{archive} lacks {[*files, *others[0].outputs][0]}; to generate it: make reproduce RUN={name}"
        )
    reproduce(name, go=True, target="all", cores=cores, settings=[])
    report(compare(before, _compared(map(read_manifest, manifest_files(paths.folder)))), paths.folder)


def _refuse_rejected(outcomes: list[Outcome], archive: Path, paths: RunPaths, name: str) -> None:
    """Prints the rejected outputs by their reasons, with the remedies; exits with 1 if there are any."""
    rejected: dict[str, list[str]] = {}
    faulty = [each for each in outcomes if each.reason and not each.by_input]
    for outcome in faulty or outcomes:
        if outcome.reason:
            rejected.setdefault(outcome.reason, []).append(outcome.name)
    if not rejected:
        return
    for reason, names in rejected.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        print(f"not restored: {names[0]}{more}: {reason}", file=sys.stderr)
    print(
        "to use them, check out the version of the project that made the archive, or fetch a damaged archive again; to compute "
        f"them instead: stair config --run {name} --write, stair restore {archive} --run {paths.folder}, then "
        f"stair reproduce --run {name}",
        file=sys.stderr,
    )
    raise SystemExit(1)


def _run_of(folder: Path, archive: Path) -> str:
    try:
        name = read_yaml(folder / RESOLVED, dumped=True).get("run")
    except ConfigError as error:
        raise ValueError(f"{archive} is damaged: {error}") from None
    if not isinstance(name, str):
        raise ValueError(f"{archive}: {RESOLVED} does not name its run; make it with: make archive RUN=name")
    return name


def _compared(manifests: Iterable[Manifest]) -> dict[str, str]:
    """The files of tables, figures, comparison and claims, with their digests."""
    return {name: digest for each in manifests if each.rule in COMPARED for name, digest in each.files.items()}


class Comparison(NamedTuple):
    """The compared files of a run beside those of its archive."""

    equal: list[str]
    different: list[str]
    absent: list[str]
    """Not in the archive."""


def compare(archived: Mapping[str, str], made: Mapping[str, str]) -> Comparison:
    equal = [name for name, digest in made.items() if archived.get(name) == digest]
    different = [name for name, digest in made.items() if archived.get(name, digest) != digest]
    return Comparison(equal, different, [name for name in made if name not in archived])


def report(comparison: Comparison, folder: Path) -> None:
    """Prints the result of a comparison. Raises SystemExit with 1 if a file differs."""
    equal, different, absent = comparison
    total = len(equal) + len(different)
    print(f"{len(equal)} of {total} files of tables, figures and comparison are those of the archive")
    if absent:
        more = f" and {len(absent) - 3} more" if len(absent) > 3 else ""
        print(f"not in the archive, so not compared: {', '.join(sorted(absent)[:3])}{more}", file=sys.stderr)
    for name in different:
        print(f"differs from the archive's: {folder / name}", file=sys.stderr)
    if different:
        raise SystemExit(1)
