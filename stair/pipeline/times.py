"""The times of a run's files, by which Snakemake decides what is out of date.

A copy without times, a checkout of another branch or a touched model change times and no contents. Snakemake would generate
and train again. Manifests have the digests that show that nothing has changed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from stair.config.paths import RunPaths
from stair.records.manifest import Digests, Manifest, differences, manifest_files, read_manifest


def put_in_order(folder: Path) -> int:
    """Sets the times of whole outputs with unchanged inputs to now where an input is newer; returns their number.

    Only such outputs and their inputs are read. An output with a changed input keeps its time, so Snakemake makes it again.
    """
    digests, touched, paths = Digests(), 0, RunPaths(folder)
    for manifest in _in_order(folder):
        # Snakemake counts the file with the job's seconds as an output.
        timing = paths.timing(manifest.rule, *manifest.wildcards.values())
        outputs = [*(folder / name for name in manifest.files), *([timing] if timing.exists() else [])]
        # A file that another process deletes meanwhile, does not exist, has no possible name, or belongs to somebody else.
        with suppress(OSError, ValueError):
            oldest = min(file.stat().st_mtime_ns for file in outputs)
            newest = max((_time(folder / name) for name in manifest.inputs), default=0)
            if newest > oldest and not differences(manifest, folder, digests=digests):
                for file in outputs:
                    os.utime(file)
                touched += 1
    # Shards that are sealed have no other output left. A seal has their inputs, so it decides whether they run.
    for timing in paths.work("timings").glob("*_shard/**/*.tsv") if touched else ():
        with suppress(OSError):
            os.utime(timing)
    return touched


def _in_order(folder: Path) -> list[Manifest]:
    """The readable manifests of a run, each after those of its inputs."""
    manifests: dict[Path, Manifest] = {}
    for path in manifest_files(folder):
        with suppress(OSError, ValueError):
            manifests[path] = read_manifest(path)
    maker = {name: path for path, manifest in manifests.items() for name in manifest.files}
    before = {path: [maker[name] for name in each.inputs if name in maker] for path, each in manifests.items()}
    try:
        return [manifests[path] for path in TopologicalSorter(before).static_order()]
    except CycleError:  # in a foreign run's manifests alone
        return []


def _time(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError:
        return 0
