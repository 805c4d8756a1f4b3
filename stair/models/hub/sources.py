"""The models and data sets that a run takes from the hub, and the commit of each that the cache holds. Uses no network.

Two kinds of files record commits. The lock file (`hub.lock`) belongs to the project: the first fetch of a repository writes its
commit there, and later fetches get this commit. A mark is beside the fetched files: it says that they are complete, and has the
size and SHA-256 of each.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.config.resolve import ConfigError
from stair.models.model_folder import revision_digests
from stair.records.files import write_json
from stair.records.keys import file_digest


@dataclass(frozen=True)
class Source:
    """A model or a data set that comes from the hub."""

    name: str
    """Its key in the configuration: `models.qwen3.5-4b`, `benchmarks.aime2025`, `training_pool`."""
    repository: str
    kind: str
    """`model` or `dataset`."""
    revision: str | None
    """The commit, tag or branch in the configuration."""
    file: str | None
    """The one file of a data set; None for a model."""
    folder: Path
    """The repository's folder in the cache."""
    mark: Path
    memo: Path | None = None
    """Remembers the digests of a model's files in this run (`revision_digests`)."""

    @property
    def locked_as(self) -> str:
        """Its key in the lock file."""
        return f"{self.kind}s/{self.repository}" + (f"@{self.revision}" if self.revision else "")

    @property
    def page(self) -> str:
        """Its page's path on the hub."""
        return self.repository if self.kind == "model" else f"datasets/{self.repository}"

    def digests(self) -> dict[str, str]:
        """The SHA-256 of the files in the cache, by name: all that a loader reads."""
        if self.file is None:
            return revision_digests(self.folder, self.memo) if self.folder.is_dir() else {}
        path = self.folder / self.file
        return {self.file: file_digest(path)} if path.is_file() else {}


class Mark(NamedTuple):
    """The content of a mark."""

    commit: str
    files: Mapping[str, Mapping[str, Any]]
    """The `bytes` and `sha256` of each file."""


def hub_sources(config: Config, paths: RunPaths) -> Iterator[Source]:
    """The data sets and models of a run that come from the hub, small ones first."""
    sets: list[tuple[str, str, Dataset]] = [(f"benchmarks.{key}", key, item) for key, item in config.benchmarks.items()]
    for name, key, item in [*sets, ("training_pool", "training_pool", config.training_pool)]:
        if item.repository is not None:
            assert item.file is not None, "the configuration's check asks for it"
            folder = paths.dataset_file(config, key).parents[len(Path(item.file).parts) - 1]
            mark = paths.fetched_mark(config, key)
            yield Source(name, item.repository, "dataset", item.revision, item.file, folder, mark)
    for key, model in config.models.items():
        if model.repository is not None:
            folder, mark = paths.model_folder(config, key), paths.model_mark(config, key)
            memo = paths.work("revisions") / f"{key}.json"
            yield Source(f"models.{key}", model.repository, "model", model.revision, None, folder, mark, memo)


def read_lock(path: Path) -> dict[str, str]:
    """The commits of a lock file, by `Source.locked_as`; none if the file does not exist.

    Raises:
        ConfigError: it cannot be read.
    """
    if not path.exists():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        return {str(name): entry["commit"] + "" for name, entry in entries.items()}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ConfigError(
            f"hub.lock: {path} cannot be read ({error}); restore it, or delete it to record anew"
        ) from None


def record_commits(path: Path, commits: Mapping[str, str]) -> None:
    """Adds commits to a lock file. A commit that it has stays."""
    lock = {**commits, **read_lock(path)}  # another fetch may have written meanwhile
    write_json(path, {name: {"commit": commit} for name, commit in sorted(lock.items())})


def read_mark(source: Source) -> Mark | None:
    """The mark of a source; None if the cache does not hold it complete.

    Raises:
        ConfigError: the mark cannot be read.
    """
    if not source.mark.is_file():
        return None
    try:
        content = json.loads(source.mark.read_text(encoding="utf-8"))
        files = {name: {"bytes": facts["bytes"], "sha256": facts["sha256"]} for name, facts in content["files"].items()}
        return Mark(str(content["commit"]), files)
    except (OSError, ValueError, AttributeError, KeyError, TypeError):
        raise ConfigError(f"{source.mark} cannot be read; delete it and fetch again") from None


def marked_commit(source: Source) -> str | None:
    """The commit of a source; None if the cache does not hold it complete."""
    mark = read_mark(source)
    return mark.commit if mark else None


def faults(source: Source, mark: Mark) -> dict[Path, str]:
    """The files of the cache that are missing, differ from the fetched ones, or were not fetched, each with its fault."""
    present, found = source.digests(), {}
    for name, facts in mark.files.items():
        if present.get(name) != facts["sha256"]:
            found[source.folder / name] = "is not what was fetched" if (source.folder / name).is_file() else "is gone"
    for name in present.keys() - mark.files.keys():
        found[source.folder / name] = f"is no file of {source.repository} at {mark.commit}"
    return found


def check_contents(config: Config, paths: RunPaths, name: str) -> None:
    """Compares the files of a source with those that were fetched. A source that is not from the hub passes.

    Args:
        config: the run.
        paths: its files.
        name: the source: `benchmarks.aime2025`, `training_pool`, `models.qwen3.5-4b`.

    Raises:
        ConfigError: the source was not fetched, or a file is missing, different or superfluous.
    """
    command = f"stair fetch --run {paths.folder}"
    for source in hub_sources(config, paths):
        if source.name != name:
            continue
        mark = read_mark(source)
        if mark is None:
            text = f"{source.repository} is not in {source.folder}, or not whole; fetch it: {command}"
            raise ConfigError(f"{name}: {text}")
        for path, fault in faults(source, mark).items():
            raise ConfigError(f"{name}: {path} {fault}; fetch it again: {command}")


def check_agreement(source: Source, lock: Mapping[str, str], lock_path: Path) -> None:
    """Checks that configuration, lock file and cache name one commit of a source.

    Raises:
        ConfigError: two of them differ.
    """
    locked, held = lock.get(source.locked_as), marked_commit(source)
    asked = source.revision if source.revision and len(source.revision) == 40 else None
    if locked and asked and locked != asked:
        raise ConfigError(f"{source.name}.revision is {asked}, but {lock_path} has recorded {locked} for it")
    if held and (locked or asked) not in (None, held):
        raise ConfigError(
            f"{source.name}: {source.folder} holds {source.repository} at {held}, but {lock_path} has recorded "
            f"{locked or asked}; delete that folder and fetch again, or restore the lock file"
        )


def check_fetched(config: Config, paths: RunPaths) -> None:
    """`check_agreement` for every source of a run."""
    lock_path = anchored(config.hub.lock)
    lock = read_lock(lock_path)
    for source in hub_sources(config, paths):
        check_agreement(source, lock, lock_path)
