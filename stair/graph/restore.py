"""Taking a published archive's outputs in place of computing them (`stair restore`)."""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from stair.backbones.revision import model_revision
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN
from stair.graph.recorded_origin import revision, shown
from stair.graph.verify import Verification, differences
from stair.records.files import partial_path, replacing, write_json
from stair.records.keys import file_digest


@dataclass
class Outcome:
    """What became of one output of the archive."""

    name: str
    taken: bool
    reason: str = ""
    """Why it was not taken."""
    notes: list[str] = field(default_factory=list)
    """What could not be compared."""


def restore(config: Config, paths: RunPaths, archive: Path) -> list[Outcome]:
    """Takes what an archive holds of a run's outputs into the run's folder, from where the workflow puts it in place.

    Taken is what is whole, and was made under equal settings, by a model of equal contents, from equal inputs. What is here
    already and sound stays.

    Args:
        config: the run.
        paths: its files.
        archive: a folder laid out as a run's, or a .tar, .tar.gz, .zip of one.

    Returns:
        One outcome for every output of the run that the archive holds.

    Raises:
        ValueError: the archive cannot be read, or holds nothing of this run.
    """
    # Every output that the run could have, those too that the graph leaves out by now.
    outputs = Artifacts(config, paths, everything=True)
    restorable = [artifact for artifact in outputs.all if artifact.output.restorable]
    folders = list(dict.fromkeys(one.files[0].relative_to(paths.folder).parts[0] for one in restorable))
    with _opened(archive, paths.folder, folders) as folder:
        taker = _Taker(config, paths, RunPaths(folder), archive, outputs)
        jobs = dict.fromkeys((artifact.output.name, artifact.name) for artifact in restorable)
        outcomes = [outcome for output, name in jobs for outcome in taker.of_job(output, name)]
    if not outcomes:
        raise ValueError(
            f"{archive} holds no output of the run '{config.run}' with its manifest; it must be laid out as a run's folder "
            f"({', '.join(folders)})"
        )
    return outcomes


class _Taker:
    def __init__(self, config: Config, paths: RunPaths, source: RunPaths, archive: Path, outputs: Artifacts) -> None:
        self._config, self._paths, self._source, self._archive = config, paths, source, archive
        self._store = RunPaths(paths.restored)
        self._verification = Verification(config, paths)
        self._all = outputs
        self._taken: dict[str, str] = {}

    def of_job(self, output: str, name: tuple[str, ...]) -> list[Outcome]:
        """Takes the outputs of a job, all of them or none."""
        artifacts = self._all.of(output, *name)
        if not any(self._there(artifact.manifest).is_file() for artifact in artifacts):
            return []
        found = [self._looked_at(artifact) for artifact in artifacts]
        refused = [outcome for outcome in found if outcome.reason]
        for outcome in found:
            if refused and not outcome.reason:
                outcome.reason = f"it belongs to {refused[0].name}, which is not taken"
        if not refused:
            self._take(artifacts, found)
        return found

    def _there(self, file: Path) -> Path:
        """A file of this run as the archive would have it."""
        return self._source.folder / file.relative_to(self._paths.folder)

    def _manifest(self, artifact: Artifact) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._there(artifact.manifest).read_text(encoding="utf-8"))
        return found

    def _looked_at(self, artifact: Artifact) -> Outcome:
        outcome = Outcome(shown(artifact.files[0], self._paths), False)
        try:
            outcome.reason = self._refused(artifact, self._manifest(artifact)[ORIGIN], outcome)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            outcome.reason = f"its manifest cannot be read ({type(error).__name__})"
        return outcome

    def _take(self, artifacts: list[Artifact], outcomes: list[Outcome]) -> None:
        """Puts a job's outputs where the workflow finds them, unless they are here."""
        here = all(self._verification.finding(artifact).state == "ok" for artifact in artifacts)
        for artifact, outcome in zip(artifacts, outcomes, strict=True):
            manifest = self._manifest(artifact)
            self._taken |= manifest[ORIGIN]["files"]
            if here:
                outcome.notes.append("here already, and sound: it stays")
                continue
            for file in artifact.files:
                _link(self._there(file), self._store.folder / file.relative_to(self._paths.folder))
            kept = self._store.folder / artifact.manifest.relative_to(self._paths.folder)
            write_json(kept, manifest | {"restored_from": str(self._archive)})
            outcome.taken = True

    def _refused(self, artifact: Artifact, then: dict[str, Any], outcome: Outcome) -> str:
        """Why an output cannot be taken; empty where it can."""
        if [then["rule"], *then["name"]] != [artifact.output.name, *artifact.name]:
            return f"it is the output of {then['rule']} {' '.join(then['name'])}"
        for file in artifact.files:
            name, source = shown(file, self._paths), self._there(file)
            if not source.is_file():
                return f"{name} is not in the archive"
            if file_digest(source) != then["files"][name]:
                return f"{name} is not what was sealed (its checksum differs)"
        now = json.loads(json.dumps(artifact.settings))
        for key in sorted(then["settings"].keys() | now.keys()):
            if changes := differences(key, then["settings"].get(key), now.get(key)):
                return f"made under other settings: {changes[0]}"
        for model in artifact.models:
            contents = self._contents(model)
            if contents is None:
                outcome.notes.append(f"{model} is not here: its settings were compared, its contents were not")
            elif contents != then["models"][model]:
                return f"made by other contents of the model {model}"
        return self._inputs(artifact, then["inputs"], outcome)

    def _inputs(self, artifact: Artifact, then: dict[str, str], outcome: Outcome) -> str:
        wanted = {shown(file, self._paths): file for file in artifact.inputs}
        if wanted.keys() != then.keys():
            return f"made from other files: {', '.join(sorted(wanted.keys() ^ then.keys()))}"
        absent = []
        for name, file in wanted.items():
            if file.is_file():
                if file_digest(file) != then[name]:
                    return f"made from another {name} than the one here"
            elif name in self._taken:
                if self._taken[name] != then[name]:
                    return f"made from another {name} than the archive's"
            else:
                absent.append(name)
        needed = [name for name in absent if self._expensive(wanted[name])]
        # The graph leaves out the training data of a restored controller; all else would be made, and differ.
        if needed and artifact.output.name != "controller":
            return f"{needed[0]}, from which it was made, is neither here nor taken from the archive"
        if absent:
            outcome.notes.append(f"made from {', '.join(absent)}, not here and not in the archive: not compared")
        return ""

    def _expensive(self, file: Path) -> bool:
        """Whether an input's making needs a model."""
        made = self._all.by_file.get(file)
        return made is not None and made.output.uses_model

    def _contents(self, model: str) -> str | None:
        """The digest of a model's contents: of the one here, else of the archive's."""
        folder = self._paths.model_folder(self._config, model)
        if (folder / "config.json").is_file():
            return revision(self._config, self._paths, model)
        if self._config.models[model].tiny is None or not self._source.backbone(model).is_dir():
            return None
        return model_revision(self._source.backbone(model), None)


def _link(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none; whole or not there."""
    with replacing(target) as partial:
        partial.unlink(missing_ok=True)
        try:
            os.link(source, partial)
        except OSError:
            shutil.copyfile(source, partial)


@contextmanager
def _opened(archive: Path, beside: Path, folders: Sequence[str]) -> Iterator[Path]:
    """The folder of an archive, unpacked where it is one file."""
    if archive.is_dir():
        yield _root(archive, archive, folders)
        return
    if not archive.is_file():
        raise ValueError(f"{archive} does not exist; name a folder laid out as a run's, or a .tar.gz or .zip of one")
    unpacked = partial_path(beside / "archive")
    try:
        try:
            if zipfile.is_zipfile(archive):
                _unpack_zip(archive, unpacked)
            else:
                _unpack_tar(archive, unpacked)
        except (tarfile.TarError, zipfile.BadZipFile, EOFError, OSError, zlib.error) as error:
            raise ValueError(f"{archive} cannot be unpacked ({' '.join(str(error).split())})") from error
        yield _root(unpacked, archive, folders)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _unpack_zip(archive: Path, target: Path) -> None:
    with zipfile.ZipFile(archive) as opened:
        for item in opened.infolist():
            path = _place(target, item.filename)
            if not item.is_dir():
                with opened.open(item) as source:
                    _write(source, path)


def _unpack_tar(archive: Path, target: Path) -> None:
    # Python's own filter against files outside came with 3.11.4.
    with tarfile.open(archive) as opened:
        for item in opened:
            path = _place(target, item.name)
            if item.isdir():
                continue
            if not item.isreg():
                raise OSError(f"it holds something that is no plain file, {item.name}")
            source = opened.extractfile(item)
            assert source is not None, "a plain file has content"
            _write(source, path)


def _place(target: Path, name: str) -> Path:
    """Where a file of an archive goes. Raises OSError where that is outside of the target."""
    path = (target / name).resolve()
    if not path.is_relative_to(target.resolve()):
        raise OSError(f"it holds a file outside of itself, {name}")
    return path


def _write(source: IO[bytes], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as sink:
        shutil.copyfileobj(source, sink)


def _root(folder: Path, archive: Path, folders: Sequence[str]) -> Path:
    """The folder laid out as a run's: the archive's top, or the one folder in it."""
    for candidate in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (candidate / RESOLVED).is_file() or any((candidate / name).is_dir() for name in folders):
            return candidate
    raise ValueError(
        f"{archive} is not laid out as a run's folder: it holds none of {', '.join(folders)}, nor one folder that does"
    )
