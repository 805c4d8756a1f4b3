"""A run's results for others: what tables and figures are made from, without text that may not be published."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED
from stair.data.publishing import text_digest
from stair.grading.choice_letters import choice_letter
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.jobs_behind import JobsBehind
from stair.graph.origin import BEHIND, ORIGIN
from stair.graph.recorded_origin import name_in_run
from stair.graph.start_command import start_command
from stair.records.files import scratch_folder, write_json
from stair.records.keys import file_digest
from stair.records.schemas import SCORED
from stair.records.tables import write_table

_COPIED = (
    RESOLVED, "checks.csv", "tables", "figures", "preflight", "sessions", "data/report.md", "data/report.json",
    "data/counts.csv", "data/near_duplicates.csv", "comparison.csv", "comparison.md", "claims.csv", "claims.md",
    "provenance.json", "report.html",
)  # fmt: skip
"""Files and folders that are copied as they are: they contain no withheld text. The data report leaves it out itself."""

TEXTS = ("problem", "choices", "response", "response_ids")
"""The columns of any table that hold text of a problem, or a response, which can quote it.

A response's `answer` can quote it too: there a choice's letter stays."""

_ROWS = 1024


def export(config: Config, paths: RunPaths, out: Path) -> int:
    """Writes what may be published of a run to a folder, whole or not at all; returns how many scored rows it has.

    `stair tables --responses OUT --out DIR` gives every table again from it, `stair from-archive OUT` every figure too.

    Raises:
        ValueError: the folder exists and is not empty, or nothing has been scored.
    """
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; name a new folder")
    artifacts = Artifacts(config, paths, include_unneeded=True)
    archived = [each for each in artifacts.all if each.output.archived and all(map(Path.is_file, each.files))]
    if not any(each.output.schema is SCORED for each in archived):
        raise ValueError(
            f"{paths.folder} has no scored rows; first run: {start_command(config, paths, '--target scores')}"
        )
    withheld = {key for key, benchmark in config.benchmarks.items() if not benchmark.publish_text}
    behind, count = JobsBehind(artifacts), 0
    with scratch_folder(out) as folder:
        for name in _COPIED:
            source = paths.folder / name
            if source.is_dir():
                shutil.copytree(source, folder / name)
            elif source.is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, folder / name)
        for each in archived:
            if each.output.name == "training_pool" and not config.training_pool.publish_text:
                continue
            for file in each.files:
                target = folder / file.relative_to(paths.folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                if each.output.schema is SCORED and each.values["benchmark"] in withheld:
                    write_table(target, SCORED, publishable(_rows(file), withheld))
                else:
                    shutil.copyfile(file, target)
                if each.output.schema is SCORED:
                    count += pq.read_metadata(target).num_rows
            _write_manifest(each, paths, folder, behind)
        folder.rename(out)
    return count


def _write_manifest(artifact: Artifact, paths: RunPaths, out: Path, behind: JobsBehind) -> None:
    """An output's manifest, with the checksums of the exported files and the jobs behind it."""
    if not artifact.manifest.is_file():
        return
    manifest = json.loads(artifact.manifest.read_text(encoding="utf-8"))
    if origin := manifest.get(ORIGIN):
        files = {name_in_run(file, paths): file_digest(out / file.relative_to(paths.folder)) for file in artifact.files}
        manifest[ORIGIN] = {**origin, "files": files, BEHIND: behind.of(artifact)}
    write_json(out / artifact.manifest.relative_to(paths.folder), manifest)


def publishable(rows: Iterable[Mapping[str, Any]], withheld: Collection[str]) -> Iterator[dict[str, Any]]:
    """Rows as they may be published: those of benchmarks in `withheld` without text.

    Of such rows the identities, seeds, lengths, letters and verdicts stay; a text becomes its digest, a list (token ids
    decode to the text) becomes empty.
    """
    for row in rows:
        if row["benchmark"] not in withheld:
            yield dict(row)
            continue
        yield {name: _withheld(name, value) for name, value in row.items()}


def _withheld(name: str, value: Any) -> Any:
    if value is None or (name not in TEXTS and name != "answer"):
        return value
    if name == "answer":
        return choice_letter(value) or text_digest(value)
    return text_digest(value) if isinstance(value, str) else []


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(SCORED):
            raise ValueError(f"{path} does not have the columns of scored rows; delete it and run its stage again")
        for batch in file.iter_batches(_ROWS):
            yield from batch.to_pylist()
