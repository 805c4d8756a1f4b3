"""Which commits of models and data sets were fetched: the lock file, the marks in the cache, and what must agree."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stair.config.model import Config, Dataset, Model
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError


@dataclass(frozen=True)
class Source:
    """A model or a data set that comes from the hub."""

    name: str
    """Its place in the configuration: `models.qwen3.5-4b`, `benchmarks.aime2025`, `training_pool`."""
    repository: str
    dataset: bool
    revision: str | None
    """The commit, tag or branch that the configuration asks for."""
    file: str | None
    """The one file that is wanted; None is everything that a model needs."""
    folder: Path
    mark: Path
    """Says that the folder is complete, and which commit it holds."""

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
    for place, key, item in [*sets, ("training_pool", "training_pool", config.training_pool)]:
        if item.repository is not None:
            assert item.file is not None, "the configuration's check asks for it"
            file = paths.dataset_file(config, key)
            folder = file.parents[len(Path(item.file).parts) - 1]
            mark = paths.fetched_mark(config, key)
            yield Source(place, item.repository, True, item.revision, item.file, folder, mark)
    models: dict[str, Model] = config.models
    for key, model in models.items():
        if model.repository is not None:
            folder = paths.model_folder(config, key)
            yield Source(
                f"models.{key}", model.repository, False, model.revision, None, folder, paths.model_mark(config, key)
            )


def read_lock(path: Path) -> dict[str, dict[str, Any]]:
    """The entries of a lock file, none where there is no file.

    Raises:
        ConfigError: it cannot be read.
    """
    if not path.is_file():
        return {}
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if any(not isinstance(entry["commit"], str) for entry in entries.values()):
            raise ValueError("an entry has no commit")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{path} cannot be read ({error}); restore it, or delete it to record anew") from None
    return dict(entries)


def marked_commit(source: Source) -> str | None:
    """The commit that a complete folder in the cache holds, None where nothing complete is there."""
    if not source.mark.is_file():
        return None
    try:
        return str(json.loads(source.mark.read_text(encoding="utf-8"))["commit"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ConfigError(f"{source.mark} cannot be read; delete it and fetch again") from None


def check_agreement(source: Source, lock: dict[str, dict[str, Any]], where: Path) -> None:
    """Holds the configuration, the lock and what lies in the cache to one commit.

    Raises:
        ConfigError: two of them name different ones.
    """
    entry = lock.get(source.locked_as)
    locked = entry["commit"] if entry else None
    held = marked_commit(source)
    asked = source.revision if source.revision and len(source.revision) == 40 else None
    if locked and asked and locked != asked:
        raise ConfigError(f"{source.name}.revision is {asked}, but {where} has recorded {locked} for it")
    if held and (locked or asked) not in (None, held):
        raise ConfigError(
            f"{source.name}: {source.folder} holds {source.repository} at {held}, but {where} has recorded "
            f"{locked or asked}; delete that folder and fetch again, or restore the lock file"
        )


def check_fetched(config: Config, paths: RunPaths) -> None:
    """`check_agreement` for everything that a run takes from the hub."""
    where = Path(config.hub.lock)
    lock = read_lock(where)
    for source in hub_sources(config, paths):
        check_agreement(source, lock, where)
