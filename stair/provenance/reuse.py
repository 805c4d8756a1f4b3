"""Taking an output over from another run that made it from the same inputs, under the same settings."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.provenance.artefacts import Artefact, Artefacts
from stair.provenance.record import ORIGIN, origin, shown
from stair.records.files import replacing, write_json
from stair.records.keys import file_digest


def take_over(config: Config, paths: RunPaths, rule: str, *name: str) -> str | None:
    """Links or copies a job's outputs from the first run of `reuse` that has them made of the same.

    Returns:
        The run, or None where none has them. Files that are not what their manifest says are not taken.
    """
    for artefact in Artefacts(config, paths).of(rule, *name):
        now = origin(artefact, config, paths, files=False)
        for run, other in paths.reused(config).items():
            manifest = _same(artefact, paths, other, now)
            if manifest is None:
                continue
            for file in artefact.files:
                _link(other.folder / file.relative_to(paths.folder), file)
            write_json(artefact.manifest, manifest | {"reused_from": str(other.folder)})
            return run
    return None


def _same(artefact: Artefact, paths: RunPaths, other: RunPaths, now: dict[str, Any]) -> dict[str, Any] | None:
    """The other run's manifest, where its output is whole and of the same origin."""
    if not all(file.is_relative_to(paths.folder) for file in (*artefact.files, artefact.manifest)):
        return None
    try:
        text = (other.folder / artefact.manifest.relative_to(paths.folder)).read_text(encoding="utf-8")
        manifest: dict[str, Any] = json.loads(text)
        then = manifest[ORIGIN]
        if any(then[part] != json.loads(json.dumps(now[part])) for part in ("settings", "inputs", "models")):
            return None
        for file in artefact.files:
            if file_digest(other.folder / file.relative_to(paths.folder)) != then["files"][shown(file, paths)]:
                return None
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return manifest


def _link(source: Path, target: Path) -> None:
    """A hard link, or a copy where the file system has none; whole or not there."""
    with replacing(target) as partial:
        partial.unlink(missing_ok=True)
        try:
            os.link(source, partial)
        except OSError:
            shutil.copy2(source, partial)
    os.utime(target)  # an output is newer than its inputs
