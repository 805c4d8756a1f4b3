"""Copies of outputs that another run made from the same inputs under the same settings with the same code (the key `reuse`)."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import replacing, write_json
from stair.records.keys import file_digest
from stair.records.manifest import COPIED_FROM, Origin, changed_settings, manifest_path, read_manifest, with_checksum


def copy_from_runs(
    config: Config,
    paths: RunPaths,
    rule: str,
    wildcards: Mapping[str, str],
    outputs: Sequence[Path],
    origin: Origin,
) -> str | None:
    """Copies a job's outputs from the first run of `reuse` that has the same, undamaged. Returns the run, for messages."""
    for name, other in paths.reused(config).items():
        with suppress(OSError, ValueError):
            manifest = read_manifest(manifest_path(other.folder / outputs[0].relative_to(paths.folder)))
            same_job = (manifest.rule, manifest.wildcards, manifest.inputs) == (rule, dict(wildcards), origin.inputs)
            sound = all(file_digest(other.folder / file) == digest for file, digest in manifest.files.items())
            same_code = manifest.content.get("source") == origin.source
            if same_job and same_code and sound and not changed_settings(manifest.settings, origin.settings):
                for file in manifest.files:
                    # A copy and no link: an output must be newer than its inputs, and the other run's file must keep its time.
                    with replacing(paths.folder / file) as partial:
                        shutil.copyfile(other.folder / file, partial)
                source = f"the run '{name}'"
                write_json(manifest_path(outputs[0]), with_checksum(manifest.content | {COPIED_FROM: source}))
                return source
    return None
