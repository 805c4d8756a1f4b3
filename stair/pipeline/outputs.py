"""The outputs of a run, job by job, as their manifests describe them. Hashes nothing."""

from __future__ import annotations

import json
import os
from base64 import b64decode
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from stair.pipeline.archive import RECORDS, left_out_files
from stair.records.files import matching
from stair.records.manifest import (
    SUFFIX,
    Difference,
    Kind,
    Manifest,
    manifest_files,
    name_in_run,
    owner_of,
    read_manifest,
)


@dataclass(eq=False)
class Output:
    """The files of one job, and what `stair verify` finds about them. Names are relative to the run's folder."""

    name: str
    """The first file, or the folder that holds all files."""
    files: tuple[str, ...]
    manifest: Manifest | None
    inputs: list[str]
    left_out: bool = False
    """Whether an unpacked archive has the manifest alone."""
    differences: list[Difference] = field(default_factory=list)
    state: Literal["ok", "missing", "damaged", "stale"] = "ok"
    own_reasons: list[str] = field(default_factory=list)
    """The reasons of its state that are not the states of other outputs."""
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Facts that make nothing stale: missing responses, changed code of a stage that generates, other versions."""
    listed: bool = False
    """Whether Snakemake would run the job."""


def read_outputs(folder: Path) -> list[Output]:
    """The outputs of a run: also with a damaged manifest, without one, and left out of an unpacked archive."""
    outputs = [_beside(path, folder) for path in manifest_files(folder)]
    for name, manifest in left_out_files(folder).items():
        if name == next(iter(manifest.files)):
            outputs.append(Output(name, tuple(manifest.files), manifest, list(manifest.inputs), left_out=True))
    known = {name for output in outputs for name in output.files}
    return outputs + list(_without_manifest(folder, known))


def _beside(path: Path, folder: Path) -> Output:
    name, own = name_in_run(path, folder), name_in_run(owner_of(path), folder)
    try:
        manifest = read_manifest(path)
    except PermissionError:
        denied = name if os.access(path.parent, os.X_OK) else own
        return _damaged(path, folder, f"{denied} cannot be read; check its permissions", denied)
    except (OSError, ValueError) as error:
        return _damaged(path, folder, f"{name} is damaged ({type(error).__name__})")
    if not f"{next(iter(manifest.files))}/".startswith(f"{own}/"):
        return _damaged(path, folder, f"{name} is that of {manifest.title}")
    return Output(own, tuple(manifest.files), manifest, list(manifest.inputs))


def _damaged(path: Path, folder: Path, text: str, denied: str = "") -> Output:
    """An output with a damaged manifest. Its first file and the manifest are unsound, unless permissions are the fault."""
    own = name_in_run(owner_of(path), folder)
    below = [name_in_run(file, folder) for file in matching(folder / own, "**/*") if file.is_file()]
    files = [name for name in below if not name.endswith(f"/{SUFFIX}")] or [own]
    unsound = [denied] if denied else [files[0], name_in_run(path, folder)]
    return Output(own, tuple(files), None, [], differences=[Difference(Kind.DAMAGED, name, text) for name in unsound])


def _without_manifest(folder: Path, known: set[str]) -> Iterator[Output]:
    """Files that Snakemake has recorded as outputs of jobs without a known file."""
    jobs: dict[str, list[str]] = defaultdict(list)
    for record, name in snakemake_records(folder):
        if is_output(name) and os.path.isfile(folder / name):
            with suppress(OSError, ValueError):  # the next start removes a damaged record
                jobs[str(json.loads(record.read_bytes())["log"])].append(name)
    for files in (sorted(names) for names in jobs.values() if known.isdisjoint(names)):
        fault = Difference(Kind.DAMAGED, files[0], f"{files[0]} has no manifest, so its origin is unknown")
        yield Output(files[0], tuple(files), None, [], differences=[fault])


def snakemake_records(folder: Path) -> Iterator[tuple[Path, str]]:
    for record in filter(Path.is_file, (folder / RECORDS).rglob("*")):
        # A record's name is the output's in base64; a long one is cut into folders that begin with @.
        parts = record.relative_to(folder / RECORDS).parts
        encoded = "".join(part.removeprefix("@") for part in parts)
        try:
            name = b64decode(encoded, altchars=b"-_", validate=True).decode()
        except ValueError:  # a file of a file manager or file system
            continue
        yield record, name


def is_output(name: str) -> bool:
    """Whether a job's file, by its name, is an output of the run. Completion markers and downloads are none."""
    return not name.startswith(("work/", "../", "/"))
