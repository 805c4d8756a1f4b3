"""Copies of outputs that an archive or another run made from the same inputs, under the same settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN, as_recorded
from stair.graph.outputs import NEEDED
from stair.graph.recorded_origin import name_in_run, revision
from stair.records.files import replacing, write_json
from stair.records.keys import file_digest


class _Unusable(Exception):
    """The reason against an existing output."""


def copy_existing(config: Config, paths: RunPaths, output: str, *name: str, runs: bool = True) -> str | None:
    """Copies a job's outputs: the restored ones, else those of the first run of `reuse` with the same origin.

    Args:
        config: the run.
        paths: its files.
        output, name: the job.
        runs: whether to search the runs of `reuse` too.

    Returns:
        `an archive`, the run's name, or None without a match. Files that differ from their manifest are not copied.

    Raises:
        ValueError: a restored output cannot be used.
    """
    artifacts = Artifacts(config, paths).of(output, *name)
    run = artifacts[0].run
    if run.archive is not None and NEEDED.is_restored(run, output, *name):
        store = run.archive.paths
        manifests = []
        for artifact in artifacts:
            try:
                manifests.append(_matching_manifest(artifact, paths, store, _origin(artifact, config, paths), True))
            except _Unusable as reason:
                restored = store.folder / artifact.files[0].relative_to(paths.folder)
                folder = restored if artifact.manifest.parent == paths.folder else restored.parent
                raise ValueError(
                    f"{restored} was restored and cannot be used: {reason}; delete {folder} to have it computed here"
                ) from None
        _place(artifacts, paths, store, manifests)
        return "an archive"
    for reused, other in paths.reused(config).items() if runs else ():
        with suppress(_Unusable):
            manifests = [
                _matching_manifest(artifact, paths, other, _origin(artifact, config, paths), False)
                | {"reused_from": str(other.folder)}
                for artifact in artifacts
            ]
            _place(artifacts, paths, other, manifests)
            return f"the run '{reused}'"
    return None


def _origin(artifact: Artifact, config: Config, paths: RunPaths) -> dict[str, Any]:
    """The origin that an output would have now; None for inputs and models that do not exist here."""
    origin = {
        "settings": artifact.settings,
        "inputs": {name_in_run(file, paths): file_digest(file) if file.is_file() else None for file in artifact.inputs},
        "models": {
            model: revision(config, paths, model) if paths.model_folder(config, model).is_dir() else None
            for model in artifact.models
        },
    }
    recorded: dict[str, Any] = as_recorded(origin)
    return recorded


def _matching_manifest(
    artifact: Artifact, paths: RunPaths, other: RunPaths, now: dict[str, Any], absent_is_equal: bool
) -> dict[str, Any]:
    """The other run's manifest of an output, which is whole and has the same origin.

    With `absent_is_equal`, inputs and models that do not exist here count as equal.

    Raises:
        _Unusable: the output is not whole or has another origin.
    """
    if not all(file.is_relative_to(paths.folder) for file in (*artifact.files, artifact.manifest)):
        raise _Unusable("it lies outside of the run")
    manifest = _read_manifest(other.folder / artifact.manifest.relative_to(paths.folder))
    recorded = manifest[ORIGIN]
    if recorded["settings"] != now["settings"]:
        raise _Unusable("it was made under other settings")
    for part in ("inputs", "models"):
        if recorded[part].keys() != now[part].keys():
            raise _Unusable(f"it was made from other {part}")
        for name, digest in now[part].items():
            if recorded[part][name] != digest and not (digest is None and absent_is_equal):
                raise _Unusable(f"it was made from another {name}")
    for file in artifact.files:
        try:
            digest = file_digest(other.folder / file.relative_to(paths.folder))
        except OSError as error:
            raise _Unusable(f"{file.name} cannot be read ({type(error).__name__})") from None
        if digest != recorded["files"].get(name_in_run(file, paths)):
            raise _Unusable(f"{file.name} does not match its sealed checksum")
    return manifest


def _read_manifest(file: Path) -> dict[str, Any]:
    """A manifest with all parts of an origin; others are unusable."""
    try:
        manifest = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _Unusable(f"its manifest cannot be read ({type(error).__name__})") from None
    origin = manifest.get(ORIGIN) if isinstance(manifest, dict) else None
    parts = ("settings", "inputs", "models", "files")
    if not isinstance(origin, dict) or not all(isinstance(origin.get(part), dict) for part in parts):
        raise _Unusable("its manifest does not say what it was made from")
    return manifest


def _place(
    artifacts: Sequence[Artifact], paths: RunPaths, other: RunPaths, manifests: Sequence[dict[str, Any]]
) -> None:
    for artifact, manifest in zip(artifacts, manifests, strict=True):
        for file in artifact.files:
            # A copy and no link: an output must be newer than its inputs, and the other run's file must keep its time.
            with replacing(file) as partial:
                shutil.copyfile(other.folder / file.relative_to(paths.folder), partial)
        write_json(artifact.manifest, manifest)
