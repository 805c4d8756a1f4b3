"""What lies in a run's folder, compared with the manifests there: faults, and outputs that other code made.

Nothing is made, repaired or asked of Snakemake. A deleted file whose manifest is kept is missing. A job whose files and manifest
are both deleted is one that was never made.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import chain, takewhile
from pathlib import Path
from typing import Literal, NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.pipeline.job_inputs import has_job
from stair.pipeline.jobs import JOBS, STAGES, code_of, job_files, settings_of
from stair.records.keys import file_digest
from stair.records.manifest import (
    CODE,
    MEASURED,
    Manifest,
    changed_settings,
    manifest_files,
    manifest_path,
    name_in_run,
    owner_of,
    package_versions,
    read_manifest,
)

_NAMED = 3
_UNPACK = "unpack the archive again"


class Fault(NamedTuple):
    file: str
    """Its name in the run. For a stale output, the first file of its job."""
    state: Literal["missing", "damaged", "stale"]
    reason: str
    remove: str = ""
    """What must be deleted, because Snakemake does not see the fault."""


class Receipts:
    """The manifests of a run, and a fault for each that cannot be read.

    Raises:
        OSError: a folder of the run cannot be read.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifests: list[Manifest] = []
        self.unreadable: list[Fault] = []
        for path in manifest_files(folder):
            try:
                manifest = read_manifest(path)
                self.manifests += [manifest] if manifest.is_in_place(folder) else []
            except (OSError, ValueError) as error:
                reason, owner = f"cannot be read ({type(error).__name__})", name_in_run(owner_of(path), folder)
                self.unreadable.append(Fault(name_in_run(path, folder), "damaged", reason, owner))
        self.made = {name: each for each in self.manifests for name in each.files}
        """The manifest of every output."""

    def name(self, manifest: Manifest) -> str:
        """The first file of a job, or the folder that holds all its files."""
        return name_in_run(owner_of(manifest.path), self.folder)


def faults(config: Config, receipts: Receipts, *, measured: bool = True) -> Iterator[Fault]:
    """The faults of a run's outputs under a configuration, each file read once.

    Args:
        measured: whether the measurements of the replay are read. They are many, and the jobs that use them check them.
    """
    yield from receipts.unreadable
    digest, paths = digests(receipts.folder), RunPaths(receipts.folder)
    for files in job_files(config, paths):
        there = [file for file in files if file.is_file()]
        if there and not any(manifest_path(place).exists() for place in (files[0], files[0].parent)):
            name = name_in_run(there[0], paths.folder)
            yield Fault(name, "damaged", "has no manifest", name)
    for manifest in _of_today(config, receipts):
        yield from faults_of(config, receipts, manifest, digest, measured=measured)


def _of_today(config: Config, receipts: Receipts) -> Iterator[Manifest]:
    """Without what another version of the project made in a place of its own: nothing makes or reads it today."""
    paths = RunPaths(receipts.folder)
    made_today = {name for files in job_files(config, paths) for name in _names(files, paths)}
    for manifest in receipts.manifests:
        gone = manifest.rule in JOBS and not has_job(config, manifest.rule, manifest.wildcards)
        if gone or made_today & {*manifest.files}:
            yield manifest


def of_earlier_rules(config: Config, receipts: Receipts) -> list[Fault]:
    """The outputs of rules that this version does not have. Reads no output."""
    return [_of_earlier_rule(each) for each in _of_today(config, receipts) if each.rule not in JOBS]


def _of_earlier_rule(manifest: Manifest) -> Fault:
    first = next(iter(manifest.files))
    return Fault(first, "stale", f"this version has no rule {manifest.rule}, which made it", first)


def faults_of(
    config: Config, receipts: Receipts, manifest: Manifest, digest: Callable[[str], str | None], *, measured: bool
) -> Iterator[Fault]:
    """The faults of one job's outputs. `digest`: of `digests`."""
    first = next(iter(manifest.files))
    for name, sealed in manifest.files.items():
        if (now := digest(name)) is None:
            yield Fault(name, "missing", "does not exist")
        elif now != sealed:
            yield (
                Fault(name, "damaged", "does not match its sealed checksum", name)
                if now
                else Fault(name, "damaged", "cannot be read")
            )
    if manifest.rule not in JOBS:
        yield _of_earlier_rule(manifest)
    if not has_job(config, manifest.rule, manifest.wildcards):
        return  # the configuration no longer has it, and nothing makes it again
    for name, read in manifest.inputs.items():
        maker = receipts.made.get(name)
        now = digest(name) if maker is None else maker.files[name]
        if now not in (None, read):
            yield Fault(first, "stale", f"its input {name} has changed")
    for name, sealed in manifest.content.get(MEASURED, {}).items() if measured else ():
        if digest(name) not in (None, sealed):
            yield Fault(name, "damaged", "does not match its sealed checksum", name)
            yield Fault(first, "stale", f"its measurement {name} has changed", first)
    for change in changed_settings(manifest.settings, settings_of(config, manifest.rule, manifest.wildcards)):
        yield Fault(first, "stale", change)


def digests(folder: Path) -> Callable[[str], str | None]:
    """The SHA-256 of a file of a run, each read once."""
    return cache(lambda name: _digest(folder / name))


def _digest(file: Path) -> str | None:
    """The SHA-256 of a file; None if it does not exist, and empty if it cannot be read."""
    try:
        return file_digest(file)
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def remedy(config: Config, paths: RunPaths, found: Iterable[Fault], *, ran: bool = False) -> str:
    """The command that makes faulty outputs again. `ran`: Snakemake has just run, and has seen none of the faults.

    Snakemake plans all that is made from a missing file, before it can know that the file will be the same again. So files that
    controllers are trained on are made alone first.
    """
    found = list(found)
    removed = (fault.remove or (fault.file if ran else "") for fault in found if fault.state != "missing")
    if paths.is_archive:
        kept = job_files(config, paths, filter(partial(_before, "tables"), JOBS))
        if {fault.file for fault in found} & _names(chain.from_iterable(kept), paths):
            return _UNPACK
    gone = {fault.remove or fault.file for fault in found if fault.state != "stale"}
    alone = [
        gone & _names(files, paths) for files in job_files(config, paths, filter(partial(_before, "training"), JOBS))
    ]
    first = [min(names) for names in alone if names]
    return _command(paths, dict.fromkeys(filter(None, removed)), first, dict.fromkeys(fault.file for fault in found))


def _command(paths: RunPaths, removed: Iterable[str], first: Iterable[str], files: Iterable[str]) -> str:
    """Deletes files, makes those of `first` alone, and starts the run; in an archive, it makes `files` and no more."""
    words = [os.path.normpath(paths.shown / name) for name in removed]
    starts = [paths.start_command("--target", name) for name in (files if paths.is_archive else first)]
    starts += [] if paths.is_archive else [paths.start_command()]
    return " && ".join([f"rm -r {shlex.join(words)}", *starts] if words else starts)


def _before(stage: str, rule: str) -> bool:
    """Whether a rule is of a stage before this one: controllers are trained on what is made before `training`."""
    return rule in JOBS and JOBS[rule].stage in takewhile(stage.__ne__, STAGES)


def _names(files: Iterable[Path], paths: RunPaths) -> set[str]:
    return {name_in_run(file, paths.folder) for file in files}


# ---------------------------------------------------------------- other code


def code_note(config: Config, paths: RunPaths, receipts: Receipts, *, long: bool = True) -> str:
    """One line on the outputs that other code has made, with the command that makes them again; empty without any.

    Other code makes nothing stale: an edited comment must not cost a training. Not `long`: a command that deletes many folders
    is left to `stair verify`.
    """
    others = [each for each in receipts.manifests if other_code(config, each)]
    if not others:
        return ""
    names = ", ".join(next(iter(each.files)) for each in others[:_NAMED])
    more = ", ..." if len(others) > _NAMED else ""
    note = f"{len(others)} outputs were made by other code than the present ({names}{more})"
    # Snakemake makes an output again if its settings have the code. All others, and the work behind them, are deleted.
    kept = {id(each) for each in others if CODE not in each.settings}
    if count := len(others) - len(kept):
        note += f"; the next start makes {count} of them again"
    if not kept or paths.is_archive:  # nothing in an archive would make its controllers again
        return note
    places = {place for each in others if id(each) in kept for place in _places(each)}
    rest = {place for each in receipts.manifests if id(each) not in kept for place in _places(each)}
    removed = _folders(places, rest)
    if len(removed) > _NAMED and not long:
        return f"{note}; the command that makes them again: stair verify --run {paths.shown}"
    first = [min(each.files) for each in others if id(each) in kept and _before("training", each.rule)]
    return f"{note}; to make them{' all' if count else ''} again: {_command(paths, removed, first, ())}"


def other_code(config: Config, manifest: Manifest) -> bool:
    """Whether other code than the present made the outputs of a job that the run has; for a seal, the work that it wrote."""
    if not has_job(config, manifest.rule, manifest.wildcards):
        return False
    now = code_of(manifest.rule, settings_of(config, manifest.rule, manifest.wildcards))
    return manifest.codes != [now]


def again(config: Config, paths: RunPaths, receipts: Receipts, manifest: Manifest) -> str:
    """The command that makes a sound output again: it deletes the output and the work behind it first."""
    others = (each for each in receipts.manifests if each is not manifest)
    behind = {*_places(manifest)} - manifest.files.keys()
    removed = [receipts.name(manifest), *_folders(behind, {place for each in others for place in _places(each)})]
    own, there = [min(manifest.files)], [name for name in removed if (paths.folder / name).exists()]
    if paths.is_archive and _before("tables", manifest.rule):
        return _UNPACK
    return _command(paths, there, own if _before("training", manifest.rule) else (), own)


def _places(manifest: Manifest) -> Iterator[str]:
    """The files of an output, and the work folders from which they would be sealed again."""
    yield from manifest.files
    for rule in STAGES[JOBS[manifest.rule].stage] if manifest.rule in JOBS else ():
        if JOBS[rule].is_shard and JOBS[rule].names == JOBS[manifest.rule].names:
            yield str(Path("work", JOBS[rule].progress.format(**manifest.wildcards, shard="")))
    if MEASURED in manifest.content:
        yield from manifest.content[MEASURED]


def _folders(names: set[str], others: set[str]) -> list[str]:
    """Names, with a folder in place of all its files where none of the others is in it."""
    used = {str(parent) for name in others for parent in Path(name).parents} | {"work", "."}
    shortest = (
        next((str(parent) for parent in reversed(Path(name).parents) if str(parent) not in used), name)
        for name in names
    )
    return sorted(set(shortest))


def version_notes(manifests: Sequence[Manifest]) -> Iterator[str]:
    """A line for each package with another version than outputs were made with."""
    installed = package_versions()
    for package in sorted({name for each in manifests for name in each.content["versions"]}):
        versions = [each.content["versions"].get(package) for each in manifests]
        now = installed.get(package)
        if others := [version for version in versions if version not in (None, now)]:
            made = ", ".join(sorted(set(others)))
            yield f"{len(others)} outputs were made with {package} {made}; installed is {now or 'none'}"
