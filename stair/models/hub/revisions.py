"""The fetched commits of models and data sets: the lock file, the marks in the cache, and their agreement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.config.backbones import Model
from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.config.resolve import ConfigError
from stair.models.revision import revision_files
from stair.records.keys import file_digest

Files = dict[str, dict[str, Any]]
"""Files by name, each with its `bytes` and `sha256`."""


@dataclass(frozen=True)
class Source:
    """A model or a data set that comes from the hub."""

    name: str
    """Its key in the configuration: `models.qwen3.5-4b`, `benchmarks.aime2025`, `training_pool`."""
    repository: str
    dataset: bool
    revision: str | None
    """The commit, tag or branch in the configuration."""
    file: str | None
    """The one file to fetch; None for all files of a model."""
    folder: Path
    mark: Path
    """The file that marks the folder as complete, with the commit that it holds."""

    @property
    def locked_as(self) -> str:
        """Its key in the lock file."""
        kind = "datasets" if self.dataset else "models"
        return f"{kind}/{self.repository}" + (f"@{self.revision}" if self.revision else "")

    @property
    def page(self) -> str:
        """Its page's path on the hub."""
        return f"datasets/{self.repository}" if self.dataset else self.repository


def hub_sources(config: Config, paths: RunPaths) -> Iterator[Source]:
    """The data sets and models of a run that come from the hub, small ones first."""
    sets: list[tuple[str, str, Dataset]] = [(f"benchmarks.{key}", key, item) for key, item in config.benchmarks.items()]
    for name, key, item in [*sets, ("training_pool", "training_pool", config.training_pool)]:
        if item.repository is not None:
            assert item.file is not None, "the configuration's check asks for it"
            file = paths.dataset_file(config, key)
            folder = file.parents[len(Path(item.file).parts) - 1]
            mark = paths.fetched_mark(config, key)
            yield Source(name, item.repository, True, item.revision, item.file, folder, mark)
    models: dict[str, Model] = config.models
    for key, model in models.items():
        if model.repository is not None:
            folder = paths.model_folder(config, key)
            yield Source(
                f"models.{key}", model.repository, False, model.revision, None, folder, paths.model_mark(config, key)
            )


def read_lock(path: Path) -> dict[str, dict[str, Any]]:
    """The entries of a lock file; none if the file does not exist.

    Raises:
        ConfigError: it cannot be read.
    """
    if not path.is_file():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        for name, entry in entries.items():
            if not isinstance(entry.get("commit"), str) or not _are_files(entry.get("files")):
                raise ValueError(f"{name} lacks its commit, or a file's bytes and sha256")
    except (OSError, ValueError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); restore it, or delete it to record anew") from None
    return dict(entries)


@dataclass(frozen=True)
class Mark:
    """The commit and files of a complete folder in the cache."""

    commit: str
    files: Files


def read_mark(source: Source) -> Mark | None:
    """The mark of a source; None if the cache does not hold it complete.

    Raises:
        ConfigError: the mark cannot be read.
    """
    if not source.mark.is_file():
        return None
    try:
        content = json.loads(source.mark.read_text(encoding="utf-8"))
        if not _are_files(content["files"]):
            raise ValueError
        return Mark(str(content["commit"]), content["files"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{source.mark} cannot be read; delete it and fetch again") from None


def marked_commit(source: Source) -> str | None:
    """The commit of a source; None if the cache does not hold it complete."""
    mark = read_mark(source)
    return mark.commit if mark else None


def damage(source: Source, files: Files, *, contents: bool = False) -> str | None:
    """The first file of the cache that is missing or differs from the fetched one, as text; None if there is none.

    Args:
        source: the owner of the folder.
        files: the expected files.
        contents: compare digests too, not only sizes.
    """
    for name, facts in files.items():
        path = source.folder / name
        if not path.is_file():
            return f"{path} is gone"
        if path.stat().st_size != facts["bytes"] or (contents and file_digest(path) != facts["sha256"]):
            return f"{path} is not what was fetched"
    return None


def strays(source: Source, files: Files) -> list[Path]:
    """Files in a model's folder that a loader would read although they are not among `files`."""
    if source.dataset or not source.folder.is_dir():
        return []
    return [path for path in revision_files(source.folder) if path.name not in files]


def check_contents(config: Config, paths: RunPaths, name: str, digests: Mapping[str, str] | None = None) -> None:
    """Compares the fetched files of a source (`benchmarks.aime2025`, `training_pool`, `models.qwen3.5-4b`) with their digests.

    Args:
        config: the run.
        paths: its files.
        name: the source; a source that is not from the hub passes.
        digests: the SHA-256 of the present files, by name, if they are known already.

    Raises:
        ConfigError: the source was not fetched, or a file is missing, different or superfluous.
    """
    command = f"stair fetch --run {paths.folder}"
    for source in hub_sources(config, paths):
        if source.name != name:
            continue
        mark = read_mark(source)
        if mark is None:
            raise ConfigError(
                f"{name}: {source.repository} is not in {source.folder}, or not whole; fetch it: {command}"
            )
        if digests is None:
            fault = damage(source, mark.files, contents=True)
        else:
            different = [file for file, facts in mark.files.items() if digests.get(file) != facts["sha256"]]
            fault = (
                f"{source.folder / different[0]} is gone, or is not what was fetched (then delete it)"
                if different
                else None
            )
        if fault:
            raise ConfigError(f"{name}: {fault}; fetch it again: {command}")
        if extra := strays(source, mark.files):
            raise ConfigError(f"{name}: {extra[0]} is no file of {source.repository} at {mark.commit}; delete it")


def _are_files(files: object) -> bool:
    return isinstance(files, dict) and all(
        isinstance(facts, dict) and isinstance(facts.get("bytes"), int) and isinstance(facts.get("sha256"), str)
        for facts in files.values()
    )


def check_agreement(source: Source, lock: dict[str, dict[str, Any]], lock_path: Path) -> None:
    """Checks that configuration, lock file and cache name one commit of a source and the same digests of its files.

    Raises:
        ConfigError: two of them differ.
    """
    entry, mark = lock.get(source.locked_as), read_mark(source)
    locked, held = entry["commit"] if entry else None, mark.commit if mark else None
    asked = source.revision if source.revision and len(source.revision) == 40 else None
    if locked and asked and locked != asked:
        raise ConfigError(f"{source.name}.revision is {asked}, but {lock_path} has recorded {locked} for it")
    if held and (locked or asked) not in (None, held):
        raise ConfigError(
            f"{source.name}: {source.folder} holds {source.repository} at {held}, but {lock_path} has recorded "
            f"{locked or asked}; delete that folder and fetch again, or restore the lock file"
        )
    recorded: Files = entry["files"] if entry else {}
    for name, facts in mark.files.items() if mark else ():
        if name in recorded and recorded[name] != facts:
            raise ConfigError(
                f"{source.name}: {source.folder / name} is not the file that {lock_path} has recorded (its size or SHA-256 is "
                f"another); delete that folder and fetch again, or restore the lock file"
            )


def check_fetched(config: Config, paths: RunPaths) -> None:
    """`check_agreement` for every source of a run."""
    lock_path = anchored(config.hub.lock)
    lock = read_lock(lock_path)
    for source in hub_sources(config, paths):
        check_agreement(source, lock, lock_path)
