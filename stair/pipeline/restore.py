"""Copies outputs of an archive into a run, in place of computing them (`stair restore`, `stair from-archive`)."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.pipeline.archive import MADE_AGAIN, left_out_contents, left_out_manifests, settings_now
from stair.pipeline.job_list import ListedJob
from stair.pipeline.outputs import snakemake_records
from stair.records.archive_files import opened
from stair.records.files import replacing, write_json
from stair.records.manifest import (
    COPIED_FROM,
    Digests,
    Kind,
    Manifest,
    differences,
    is_outside,
    manifest_files,
    name_in_run,
    owner_of,
    read_manifest,
    with_checksum,
)

_TEXTS = {
    Kind.MISSING: "{what} is not in the archive",
    Kind.SETTINGS_CHANGED: "made under other settings: {text}",
}
_BEHIND = ", behind it: "


@dataclass
class Outcome:
    """An output of an archive, compared with the one that the run would make."""

    name: str
    """The first file, or the folder."""
    manifest: Manifest | None = None
    reason: str = ""
    """Why it cannot be used."""
    by_input: bool = False
    """Whether the reason is a fault of its inputs."""
    valid_here: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def restorable(self) -> bool:
        """Whether it is to be copied. Tables and the like are made again."""
        return not (self.reason or self.valid_here or self.manifest is None or self.manifest.rule in MADE_AGAIN)


def restore(config: Config, paths: RunPaths, archive: Path) -> list[Outcome]:
    """Copies outputs of an archive that equal those that the run would make.

    `archive` is a folder laid out as a run's, or a .tar.gz of one.

    Raises:
        ValueError: the archive cannot be read, or contains no output for a run.
    """
    with opened(archive, paths.folder) as folder:
        content = Archive(config, paths, folder)
        outcomes = [
            each for each in content.outcomes() if each.manifest is None or each.manifest.rule not in MADE_AGAIN
        ]
        if not outcomes:
            raise ValueError(f"{archive} contains no output with its manifest that a run could use")
        content.copy(outcomes, str(archive))
    return outcomes


class Archive:
    """An unpacked archive in a folder, beside a run.

    Raises:
        ValueError: the archive names a file outside of itself, or its list of left-out outputs cannot be read.
    """

    def __init__(self, config: Config, paths: RunPaths, folder: Path) -> None:
        self._config, self._paths, self._folder = config, paths, folder
        self._left_out = left_out_manifests(folder)
        self.manifests: list[Manifest] = []
        self._unreadable: list[Outcome] = []
        for path in manifest_files(folder):
            try:
                self.manifests.append(read_manifest(path))
            except (OSError, ValueError) as error:
                reason = f"its manifest cannot be read ({type(error).__name__})"
                self._unreadable.append(Outcome(self._name(path), reason=reason))
        for manifest in (*self.manifests, *self._left_out):
            for name in (*manifest.files, name_in_run(manifest.path, folder)):
                if is_outside(name):
                    raise ValueError(f"the archive names a file outside of itself: {name}")
        self._by_file = {name: each for each in (*self._left_out, *self.manifests) for name in each.files}
        self._digests = Digests()
        self._reasons: dict[Path, str] = {}

    def _name(self, manifest: Path) -> str:
        return name_in_run(owner_of(manifest), self._folder)

    # ------------------------------------------------------------ comparison

    def outcomes(self) -> list[Outcome]:
        """The outputs of the archive that the run has too, compared with those that it would make."""
        known = (
            each for each in self.manifests if each.rule in MADE_AGAIN or settings_now(self._config, each) is not None
        )
        return [*map(self._outcome, known), *self._unreadable]

    def _outcome(self, manifest: Manifest) -> Outcome:
        reason = self._reason(manifest)
        by_input = bool(reason) and not self._fault(manifest)
        outcome = Outcome(self._name(manifest.path), manifest, reason, by_input, self._valid_here(manifest))
        absent = [name for name in manifest.inputs if not (self._here(name).exists() or (self._folder / name).exists())]
        if absent:
            note = f"inputs not compared, as they exist neither here nor in the archive: {', '.join(absent)}"
            outcome.notes.append(note)
        return outcome

    def _valid_here(self, manifest: Manifest) -> bool:
        try:
            own = read_manifest(self._manifest_here(manifest))
        except (OSError, ValueError):
            return False
        settings = settings_now(self._config, own)
        return not differences(own, self._paths.folder, settings=settings, digests=self._digests)

    def _reason(self, manifest: Manifest) -> str:
        """Why an output cannot be used: a fault of it, or of an output that it was made from."""
        if manifest.path not in self._reasons:
            self._reasons[manifest.path] = ""  # it is not made from itself
            self._reasons[manifest.path] = self._fault(manifest) or self._fault_behind(manifest)
        return self._reasons[manifest.path]

    def _fault(self, manifest: Manifest) -> str:
        """The first difference of an output's files and settings."""
        made_again = manifest.rule in MADE_AGAIN
        settings = None if made_again else settings_now(self._config, manifest)
        if settings is None and not made_again:
            return f"the run has no {manifest.title}"
        for each in differences(manifest, self._folder, settings=settings, inputs=False, digests=self._digests):
            if not (each.kind is Kind.MISSING and manifest in self._left_out):
                return _TEXTS.get(each.kind, "{text}").format(what=each.what, text=each.text)
        return ""

    def _fault_behind(self, manifest: Manifest) -> str:
        """The first fault of an output's inputs: those here, else those of the archive and what these were made from."""
        for name, digest in manifest.inputs.items() if manifest.rule not in MADE_AGAIN else ():
            here, source = self._here(name), self._by_file.get(name)
            if is_outside(name) or self._digests.of(here) == digest:
                continue
            if here.exists() and (source is None or source in self._left_out or self._valid_here(source)):
                return f"made from another {name} than the one here"
            if source is None:
                return f"its input {name} exists neither here nor in the archive"
            if source.files[name] != digest:
                return f"made from another {name} than the archive's"
            if reason := self._reason(source):
                return reason if _BEHIND in reason else f"{name}{_BEHIND}{reason}"
        return ""

    # ------------------------------------------------------------ copies

    def copy(self, outcomes: Iterable[Outcome], origin: str) -> None:
        """Copies restorable outputs and Snakemake's records, and lists the outputs that the archive leaves out.

        All files get the same time, because no output may be older than its input.
        """
        restored = [each.manifest for each in outcomes if each.manifest is not None and each.restorable]
        left_out = [each for each in self._left_out if not (self._reason(each) or self._manifest_here(each).is_file())]
        files = [name for each in (*restored, *left_out) for name in each.files if (self._folder / name).is_file()]
        for name in files:
            with replacing(self._here(name)) as partial:
                shutil.copyfile(self._folder / name, partial)
        now = time.time_ns()
        for name in files:
            os.utime(self._here(name), ns=(now, now))
        for manifest in restored:
            write_json(self._manifest_here(manifest), with_checksum(manifest.content | {COPIED_FROM: origin}))
        self._copy_records(files)
        if left_out:
            listed = {name_in_run(each.path, self._folder): each.content for each in left_out}
            listed = left_out_contents(self._paths.folder) | listed
            write_json(self._paths.archive, {"run": self._config.run, "left_out": listed})

    def _copy_records(self, files: Collection[str]) -> None:
        """Copies Snakemake's records of files. Records of absent outputs are also copied, because they show changed settings."""
        for record, name in snakemake_records(self._folder):
            target = self._paths.folder / record.relative_to(self._folder)
            if name in files or not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(record, target)

    def _here(self, name: str) -> Path:
        return self._paths.folder / name

    def _manifest_here(self, manifest: Manifest) -> Path:
        return self._here(name_in_run(manifest.path, self._folder))


_FIRST = ("benchmark", "evaluation_sessions", "preflight_model")


def made_first(jobs: Iterable[ListedJob], folder: Path) -> list[str]:
    """The files to make before all others in a run with outputs of an archive.

    Snakemake runs every job behind a missing input that it makes, a restored controller's too. It compares contents only of
    files that exist when it starts: then equal data and models make nothing stale.
    """
    files = [file for job in jobs if job.rule in _FIRST for file in job.outputs]
    return [file for file in files if not (folder / file).exists()]
