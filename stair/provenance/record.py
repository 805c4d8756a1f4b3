"""What an output was made from, written into its manifest when it is sealed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stair.backbones.revision import model_revision
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.provenance.artefacts import Artefact, Artefacts
from stair.provenance.restored import ORIGIN
from stair.records.files import write_json
from stair.records.keys import file_digest
from stair.records.manifest import manifest_facts


def record(config: Config, paths: RunPaths, rule: str, *name: str) -> None:
    """Adds the origin of a job's outputs to their manifests: rule, settings, digests of inputs and outputs."""
    for artefact in Artefacts(config, paths).of(rule, *name):
        found: dict[str, Any] = {}
        if artefact.manifest.is_file():
            found = json.loads(artefact.manifest.read_text(encoding="utf-8"))
        else:
            found = manifest_facts(artefact.rule)
        found[ORIGIN] = origin(artefact, config, paths)
        write_json(artefact.manifest, found)


def origin(artefact: Artefact, config: Config, paths: RunPaths) -> dict[str, Any]:
    """Where an output comes from, as it stands on disk now; files are named from the run's folder."""
    return {
        "rule": artefact.rule,
        "name": list(artefact.name),
        "settings": artefact.settings,
        "inputs": {shown(file, paths): file_digest(file) for file in artefact.inputs},
        "models": {model: revision(config, paths, model) for model in artefact.models},
        "files": {shown(file, paths): file_digest(file) for file in artefact.files},
    }


def shown(file: Path, paths: RunPaths) -> str:
    """A file's name from the run's folder; a file elsewhere keeps its path."""
    return file.relative_to(paths.folder).as_posix() if file.is_relative_to(paths.folder) else str(file)


def revision(config: Config, paths: RunPaths, model: str, *, remember: bool = True) -> str:
    """The digest of a model's contents."""
    memo = paths.work("revisions") / f"{model}.json"
    return model_revision(paths.model_folder(config, model), memo, remember=remember)
