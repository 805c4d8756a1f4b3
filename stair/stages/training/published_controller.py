"""A published controller in place of a trained one (the key `controllers.X.path`): compared with the run, then copied."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import replacing
from stair.records.keys import file_digest
from stair.records.manifest import COPIED_FROM, changed_settings, manifest_path, read_manifest
from stair.sessions.backbone import Backbone
from stair.stages.training.settings import TRAINING_KEYS, training

_FACTS = ("updates", "sessions", "seed", "parameters", "objective", "auxiliary_positions", "tokens_per_second")
"""Facts of the training, which the manifest of the copy has too."""


def copy_published(config: Config, paths: RunPaths, model: str, controller: str, folder: Path) -> dict[str, Any]:
    """Copies a published controller into the run; returns the facts of its training for the manifest.

    Raises:
        ValueError: a file is damaged, or the controller was trained on another model or under other settings than the run has.
    """
    published = read_manifest(manifest_path(folder))
    digests = {Path(name).name: digest for name, digest in published.files.items()}
    files = paths.controller_files(config, model, controller)
    for file in files:
        if digests.get(file.name) != file_digest(folder / file.name):
            raise ValueError(
                f"{folder / file.name} does not match the checksum in {published.path}; copy the folder again"
            )
    revision = Backbone.open(config, paths, model).revision
    if published.content.get("model_revision") != revision:
        raise ValueError(f"{folder} was trained on another model than {model}: see model_revision in {published.path}")
    changes = changed_settings(_decisive(published.settings), _decisive(training(config, model, controller)))
    if changes:
        raise ValueError(f"{folder} was trained under other settings than the run has: {'; '.join(changes)}")
    for file in files:
        with replacing(file) as partial:
            shutil.copyfile(folder / file.name, partial)
    print(f"{model}/{controller}: copied from {folder}")
    return {**{key: published.content[key] for key in _FACTS if key in published.content}, COPIED_FROM: str(folder)}


def _decisive(settings: dict[str, Any]) -> dict[str, Any]:
    """What decided the weights, whatever key the controller has in a run."""
    own = {key.split(".", 2)[2]: value for key, value in settings.items() if key.startswith("controllers.")}
    own.pop("path", None)
    return own | {key: value for key, value in settings.items() if key.removeprefix("training.") in TRAINING_KEYS}
