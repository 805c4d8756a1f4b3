"""The origin that a manifest records: settings, and digests of inputs, models and outputs. Written when an output is sealed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stair.backbones.revision import model_revision
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN
from stair.records.files import write_json
from stair.records.keys import file_digest
from stair.records.manifest import manifest_facts

COPIED_FROM = ("restored_from", "reused_from")
"""Manifest keys that name the archive or the run from which an output was copied."""

_DIGESTS = ("files", "inputs", "models")


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest with a recorded origin.

    Raises:
        OSError: the file does not exist or cannot be read.
        ValueError: it is not JSON, or a part of it is missing or of another kind.
    """
    manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    try:
        recorded = manifest[ORIGIN]
        digests = [digest for part in _DIGESTS for digest in dict(recorded[part]).values()]
        texts = [recorded["rule"], *recorded["name"], manifest["sealed"], *digests]
        sound = all(isinstance(text, str) for text in texts)
        sound = sound and all(isinstance(part, dict) for part in (recorded["settings"], manifest["versions"]))
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise ValueError(f"{path} is no manifest: a part of it is missing or of another kind")
    return manifest


def missing_note(manifest: Mapping[str, Any]) -> str:
    """A note with the number of missing responses that a manifest lists; empty if it lists none."""
    missing = len(manifest.get("missing", ()))
    counted = "1 response is" if missing == 1 else f"{missing} responses are"
    return f"{counted} missing; its manifest gives the reasons" if missing else ""


def record_origin(config: Config, paths: RunPaths, output: str, *name: str) -> None:
    """Writes the origin of a job's outputs into their manifests."""
    for artifact in Artifacts(config, paths).of(output, *name):
        # An old manifest that the stage has not just rewritten describes an earlier output.
        manifest = manifest_facts(artifact.output.name)
        if artifact.output.stage_writes_manifest:
            manifest = json.loads(artifact.manifest.read_text(encoding="utf-8"))
        manifest[ORIGIN] = current_origin(artifact, config, paths)
        write_json(artifact.manifest, manifest)


def current_origin(artifact: Artifact, config: Config, paths: RunPaths) -> dict[str, Any]:
    """The origin of an output by the files on disk now; file names are relative to the run's folder."""
    return {
        "rule": artifact.output.name,
        "name": list(artifact.name),
        "settings": artifact.settings,
        "inputs": {name_in_run(file, paths): file_digest(file) for file in artifact.inputs},
        "models": {model: revision(config, paths, model) for model in artifact.models},
        "files": {name_in_run(file, paths): file_digest(file) for file in artifact.files},
    }


def name_in_run(file: Path, paths: RunPaths) -> str:
    """A file's path relative to the run's folder; a file elsewhere keeps its path."""
    return file.relative_to(paths.folder).as_posix() if file.is_relative_to(paths.folder) else str(file)


def revision(config: Config, paths: RunPaths, model: str, *, remember: bool = True) -> str:
    """The digest of a model's contents."""
    memo = paths.work("revisions") / f"{model}.json"
    return model_revision(paths.model_folder(config, model), memo, remember=remember)
