"""What an output was made from, written into its manifest when it is sealed."""

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

TAKEN_FROM = ("restored_from", "reused_from")
"""Keys of the manifest of an output that was not made here."""

_DIGESTS = ("files", "inputs", "models")


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an output that was recorded.

    Raises:
        OSError: it is not there, or cannot be read.
        ValueError: it is not JSON, or a part of it is missing or of another kind.
    """
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    try:
        then = found[ORIGIN]
        digests = [digest for part in _DIGESTS for digest in dict(then[part]).values()]
        texts = [then["rule"], *then["name"], found["sealed"], *digests]
        sound = all(isinstance(text, str) for text in texts)
        sound = sound and all(isinstance(part, dict) for part in (then["settings"], found["versions"]))
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        raise ValueError(f"{path} is no manifest: a part of it is missing or of another kind")
    return found


def missing_in(manifest: Mapping[str, Any]) -> str:
    """How many responses an output lacks, by its manifest, as a note; an empty one where it lacks none."""
    missing = len(manifest.get("missing", ()))
    counted = "1 response is" if missing == 1 else f"{missing} responses are"
    return f"{counted} missing; its manifest gives the reasons" if missing else ""


def record(config: Config, paths: RunPaths, output: str, *name: str) -> None:
    """Adds the origin of a job's outputs to their manifests: which they are, settings, digests of inputs and outputs."""
    for artifact in Artifacts(config, paths).of(output, *name):
        # What the rule's stage has not just written is from the time before, and tells of that.
        found = manifest_facts(artifact.output.name)
        if artifact.output.stage_writes_manifest:
            found = json.loads(artifact.manifest.read_text(encoding="utf-8"))
        found[ORIGIN] = origin(artifact, config, paths)
        write_json(artifact.manifest, found)


def origin(artifact: Artifact, config: Config, paths: RunPaths) -> dict[str, Any]:
    """Where an output comes from, as it stands on disk now; files are named from the run's folder."""
    return {
        "rule": artifact.output.name,
        "name": list(artifact.name),
        "settings": artifact.settings,
        "inputs": {shown(file, paths): file_digest(file) for file in artifact.inputs},
        "models": {model: revision(config, paths, model) for model in artifact.models},
        "files": {shown(file, paths): file_digest(file) for file in artifact.files},
    }


def shown(file: Path, paths: RunPaths) -> str:
    """A file's name from the run's folder; a file elsewhere keeps its path."""
    return file.relative_to(paths.folder).as_posix() if file.is_relative_to(paths.folder) else str(file)


def revision(config: Config, paths: RunPaths, model: str, *, remember: bool = True) -> str:
    """The digest of a model's contents."""
    memo = paths.work("revisions") / f"{model}.json"
    return model_revision(paths.model_folder(config, model), memo, remember=remember)
