"""The models and data sets that a run takes from the hub. huggingface_hub downloads, resumes and verifies them.

The lock file (`hub.lock`) belongs to the project: the first fetch of a repository writes its commit there, and later fetches
get this commit. A mark beside the fetched files says that they are complete, and names their commit.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.config.datasets import Dataset
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.config.resolve import ConfigError
from stair.records.files import read_mapping, write_json_if_changed
from stair.records.interruption import end_at_stop

_MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")


@dataclass(frozen=True)
class HubSource:
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

    @property
    def locked_as(self) -> str:
        """Its key in the lock file."""
        return f"{self.kind}s/{self.repository}" + (f"@{self.revision}" if self.revision else "")

    def commit(self) -> str | None:
        """The commit in the cache; None if the cache does not hold the source complete."""
        return str(read_mapping(self.mark).get("commit")) if self.mark.is_file() else None

    def wanted(self, commit: str) -> dict[str, Any]:
        """The arguments of `snapshot_download`."""
        return {
            "repo_id": self.repository,
            "repo_type": self.kind,
            "revision": commit,
            "local_dir": self.folder,
            "allow_patterns": list(_MODEL_FILES) if self.file is None else [self.file],
            "ignore_patterns": ["*/*"] if self.file is None else None,  # other formats of a model's weights
        }


def hub_sources(config: Config, paths: RunPaths) -> Iterator[HubSource]:
    """The data sets and models of a run that come from the hub, small ones first."""
    sets: list[tuple[str, str, Dataset]] = [(f"benchmarks.{key}", key, item) for key, item in config.benchmarks.items()]
    for name, key, item in [*sets, ("training_pool", "training_pool", config.training_pool)]:
        if item.repository is not None:
            assert item.file is not None, "the configuration's check asks for it"
            folder = paths.dataset_file(config, key).parents[len(Path(item.file).parts) - 1]
            mark = paths.fetched_mark(config, key)
            yield HubSource(name, item.repository, "dataset", item.revision, item.file, folder, mark)
    for key, model in config.models.items():
        if model.repository is not None:
            folder, mark = paths.model_folder(config, key), paths.model_mark(config, key)
            yield HubSource(f"models.{key}", model.repository, "model", model.revision, None, folder, mark)


# ---------------------------------------------------------------- without the network


def read_lock(path: Path) -> dict[str, str]:
    """The commits of a lock file, by `Source.locked_as`; none if the file does not exist.

    Raises:
        ConfigError: it cannot be read.
    """
    if not path.exists():
        return {}
    try:
        return {name: commit + "" for name, commit in json.loads(path.read_text(encoding="utf-8")).items()}
    except (OSError, ValueError, AttributeError, TypeError) as error:
        raise ConfigError(
            f"hub.lock: {path} cannot be read ({error}); restore it, or delete it to record anew"
        ) from None


def check_fetched(config: Config, paths: RunPaths, name: str) -> None:
    """Raises ConfigError if a source (`models.qwen3.5-4b`, `training_pool`) is not in the cache; others pass."""
    for source in hub_sources(config, paths):
        if source.name == name and source.commit() is None:
            text = f"{source.repository} is not in {source.folder}, or not whole"
            raise ConfigError(f"{name}: {text}; fetch it: stair fetch --run {paths.folder}")


def check_lock(config: Config, paths: RunPaths) -> None:
    """Raises ConfigError if the cache holds a source at another commit than the lock file names."""
    lock_path = anchored(config.hub.lock)
    lock = read_lock(lock_path)
    for source in hub_sources(config, paths):
        held = source.commit()
        if held is not None and (locked := lock.get(source.locked_as, held)) != held:
            raise ConfigError(
                f"{source.name}: {source.folder} holds {source.repository} at {held}, but {lock_path} has recorded "
                f"{locked}; delete that folder and fetch again, or restore the lock file"
            )


# ---------------------------------------------------------------- with it


def online() -> bool:
    """Turns hub access on in this process, if it can be: the library reads the environment at its first import."""
    os.environ["HF_HUB_OFFLINE"] = "0"
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE


@contextmanager
def _named(source: HubSource, remedy: str = "") -> Iterator[None]:
    """Gives the library's errors the source's name and a remedy, and makes them one line."""
    from huggingface_hub import constants

    try:
        yield
    except Exception as error:  # the HTTP client's own exceptions share no base with the library's
        text = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{source.name}: {source.repository} from {constants.ENDPOINT}: {text}{remedy}") from error


def _available(source: HubSource, lock: Mapping[str, str]) -> str:
    """The commit to fetch: that of the lock file, else the hub's. Raises the library's error if it cannot be fetched."""
    from huggingface_hub import HfApi

    HfApi().auth_check(source.repository, repo_type=source.kind)
    revision = lock.get(source.locked_as, source.revision)
    return str(HfApi().repo_info(source.repository, repo_type=source.kind, revision=revision).sha)


def missing_bytes(source: HubSource, lock: Mapping[str, str]) -> int:
    """How many bytes a fetch would download. Raises ValueError if it could not."""
    from huggingface_hub import snapshot_download

    with _named(source):
        files: Any = snapshot_download(**source.wanted(_available(source, lock)), dry_run=True)
    return sum(file.file_size for file in files if file.will_download)


def fetch(config: Config, paths: RunPaths, names: Iterable[str] = ()) -> None:
    """Downloads the models and data sets of a run into the cache, and records their commits in the lock file.

    Every repository must answer before the first download. Complete files are not downloaded again, and complete sources need
    no request.

    Args:
        config: the run.
        paths: its files.
        names: keys of the configuration (`models.qwen3.5-4b`, `training_pool`); all when empty.

    Raises:
        ValueError: a source cannot be fetched, with the library's reason.
    """
    check_lock(config, paths)
    lock_path = anchored(config.hub.lock)
    # Two entries can name the same files.
    sources = list({source.mark: source for source in _chosen(config, paths, set(names))}.values())
    if not sources:
        print("nothing to fetch: the run's models and data sets are local")
        return
    if not online():
        raise ValueError(
            "hub access is off in this process (TRANSFORMERS_OFFLINE?); fetch from a shell where it is not set"
        )
    from huggingface_hub import snapshot_download

    commits, remedy = {}, f"; what can be done: stair doctor --run {paths.shown}"
    for source in sources:
        with _named(source, remedy):
            commits[source.locked_as] = source.commit() or _available(source, read_lock(lock_path))
    # Before the first byte, so that an interrupted fetch resumes with the same commits.
    lock = {**commits, **read_lock(lock_path)}
    write_json_if_changed(lock_path, dict(sorted(lock.items())))
    end_at_stop()  # the library's threads would delay a stop
    for source in sources:
        commit = lock[source.locked_as]
        with _named(source, remedy):
            snapshot_download(**source.wanted(commit))
        if not (source.folder / (source.file or "config.json")).is_file():
            raise ValueError(f"{source.name}: {source.repository} has no {source.file or 'config.json'} at {commit}")
        # An equal mark keeps its time, so that outputs made from it stay fresh.
        write_json_if_changed(source.mark, {"repository": source.repository, "commit": commit})
        print(f"{source.name}: {source.repository} at {commit[:12]} is here ({source.folder})", flush=True)


def _chosen(config: Config, paths: RunPaths, names: set[str]) -> list[HubSource]:
    sources = list(hub_sources(config, paths))
    known = [source.name for source in sources]
    for name in sorted(names.difference(known)):
        listed = ", ".join(known) or "none"
        raise ValueError(f"{name} is not fetched from the hub in this run (fetched are: {listed})")
    return [source for source in sources if not names or source.name in names]
