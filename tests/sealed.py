"""Manifests of files that a test wrote or changed: a job refuses an input that differs from its checksum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stair.config.paths import RunPaths
from stair.records.files import write_json
from stair.records.keys import file_digest
from stair.records.manifest import Origin, manifest_path, with_checksum, write_manifest


def seal(paths: RunPaths, rule: str, *outputs: Path, **facts: Any) -> Path:
    """Writes the manifest that the command of a rule writes, with the stage's facts, but without inputs and settings."""
    return write_manifest(paths.folder, outputs, rule=rule, wildcards={}, origin=Origin.now({}, {}, "0" * 64), **facts)


def reseal(file: Path) -> None:
    """Makes a file's manifest agree with the file, so that only what is in it can betray the change."""
    path = manifest_path(file)
    manifest = json.loads(path.read_text())
    (name,) = (name for name in manifest["files"] if str(file).endswith(name))
    manifest["files"][name] = file_digest(file)
    write_json(path, with_checksum(manifest))
