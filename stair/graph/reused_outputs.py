"""Copies of outputs that an archive or another run made from the same inputs, under the same settings."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN, as_recorded
from stair.graph.outputs import NEEDED
from stair.graph.recorded_origin import name_in_run, revision
from stair.records.files import replacing, write_json
from stair.records.keys import file_digest


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
        candidates = [_match(artifact, paths, store, _origin(artifact, config, paths), True) for artifact in artifacts]
        for artifact, manifest in zip(artifacts, candidates, strict=True):
            if isinstance(manifest, str):
                restored = store.folder / artifact.files[0].relative_to(paths.folder)
                folder = restored if artifact.manifest.parent == paths.folder else restored.parent
                raise ValueError(
                    f"{restored} was restored and cannot be used: {manifest}; delete {folder} to have it computed here"
                )
        _place(artifacts, paths, store, [manifest for manifest in candidates if not isinstance(manifest, str)])
        return "an archive"
    for reused, other in paths.reused(config).items() if runs else ():
        candidates = [_match(artifact, paths, other, _origin(artifact, config, paths), False) for artifact in artifacts]
        manifests = [
            manifest | {"reused_from": str(other.folder)} for manifest in candidates if not isinstance(manifest, str)
        ]
        if len(manifests) == len(artifacts):
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


def _match(
    artifact: Artifact, paths: RunPaths, other: RunPaths, now: dict[str, Any], absent_is_equal: bool
) -> dict[str, Any] | str:
    """The other run's manifest if its output is whole and has the same origin; else the reason against it.

    With `absent_is_equal`, inputs and models that do not exist here count as equal.
    """
    if not all(file.is_relative_to(paths.folder) for file in (*artifact.files, artifact.manifest)):
        return "it lies outside of the run"
    try:
        text = (other.folder / artifact.manifest.relative_to(paths.folder)).read_text(encoding="utf-8")
        manifest: dict[str, Any] = json.loads(text)
        recorded = manifest[ORIGIN]
        if recorded["settings"] != now["settings"]:
            return "it was made under other settings"
        for part in ("inputs", "models"):
            if recorded[part].keys() != now[part].keys():
                return f"it was made from other {part}"
            for name, digest in now[part].items():
                if recorded[part][name] != digest and not (digest is None and absent_is_equal):
                    return f"it was made from another {name}"
        for file in artifact.files:
            if (
                file_digest(other.folder / file.relative_to(paths.folder))
                != recorded["files"][name_in_run(file, paths)]
            ):
                return f"{file.name} does not match its sealed checksum"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"it cannot be read ({type(error).__name__})"
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
