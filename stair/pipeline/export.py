"""Writes a run's archive (`stair export`)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED
from stair.paper.withheld_text import write_publishable
from stair.pipeline.archive import ARCHIVED, left_out_contents, settings_now
from stair.pipeline.jobs import STAGES
from stair.pipeline.outputs import snakemake_records
from stair.records.files import read_mapping, scratch_folder, write_json
from stair.records.keys import file_digest
from stair.records.manifest import Manifest, manifest_files, name_in_run, read_manifest, with_checksum

_CARDS = ("data_card", "response_card")
"""Rules that describe responses. They are not listed as left out, because they are made where the responses exist."""


def present_outputs(config: Config, paths: RunPaths) -> list[Manifest]:
    """The manifests of a run's complete outputs under the present configuration."""
    return [
        manifest
        for manifest in map(read_manifest, manifest_files(paths.folder))
        if settings_now(config, manifest) is not None
        and all((paths.folder / name).is_file() for name in manifest.files)
    ]


def export(config: Config, paths: RunPaths, out: Path) -> int:
    """Writes a run's archive as a folder, whole or not at all; returns the number of scored rows.

    Raises:
        ValueError: the folder is not empty, or nothing has been scored.
    """
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; name a new folder")
    manifests, left_out = present_outputs(config, paths), left_out_contents(paths.folder)
    if not any(manifest.rule in STAGES["scores"] for manifest in manifests):
        raise ValueError(f"{paths.folder} has no scored rows; first run: {paths.start_command('--target', 'scores')}")
    pools = set() if config.training_pool.publish_text else {paths.training_pool(model) for model in config.models}
    withheld = {key for key, benchmark in config.benchmarks.items() if not benchmark.publish_text}
    # A run from an archive has the counts of training problems, but not the problems.
    apart = [name for each in left_out.values() for name in each["files"] if (paths.folder / name).is_file()]
    count, rewritten = 0, dict[str, str]()
    with scratch_folder(out) as folder:
        archived = [name for each in manifests if each.rule in ARCHIVED for name in each.files]
        for name in (RESOLVED, *apart, *archived):
            if (source := paths.folder / name) not in pools:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, folder / name)
        for manifest in manifests:
            for name in manifest.files if manifest.rule in STAGES["scores"] else ():
                if manifest.wildcards["benchmark"] in withheld:
                    write_publishable(paths.folder / name, folder / name, withheld)
                    rewritten[name] = file_digest(folder / name)
                count += pq.read_metadata(folder / name).num_rows
        for manifest in manifests:
            name, content = name_in_run(manifest.path, paths.folder), _with_digests(manifest, rewritten)
            if all((folder / file).is_file() for file in manifest.files):
                write_json(folder / name, content)
            elif manifest.rule not in _CARDS:
                left_out[name] = content
        write_json(RunPaths(folder).archive, {"run": config.run, "left_out": left_out})
        _copy_records(paths.folder, folder, rewritten)
        folder.rename(out)
    return count


def _with_digests(manifest: Manifest, rewritten: Mapping[str, str]) -> dict[str, Any]:
    parts = {"files": manifest.files, "inputs": manifest.inputs}
    content: dict[str, Any] = {
        part: {name: rewritten.get(name, digest) for name, digest in digests.items()} for part, digests in parts.items()
    }
    withheld = {"text_withheld": True} if content["files"] != manifest.files else {}
    return with_checksum(manifest.content | content | withheld)


def _copy_records(run: Path, archive: Path, rewritten: Mapping[str, str]) -> None:
    """Copies Snakemake's records. They show a changed setting of an output that is left out, too."""
    for file, _ in snakemake_records(run):
        record, target = read_mapping(file), archive / file.relative_to(run)
        checksums = record.get("input_checksums") or {}
        record["input_checksums"] = {
            name: f"sha256:{rewritten[name]}" if name in rewritten else checksum for name, checksum in checksums.items()
        }
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(record), encoding="utf-8")
