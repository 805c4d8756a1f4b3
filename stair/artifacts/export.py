"""A run's results for others: scored rows, tables, figures and reports, without text that may not be published."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED
from stair.data.publishing import publishable
from stair.records.schemas import SCORED
from stair.records.tables import write_table

_COPIED = (
    RESOLVED, "checks.csv", "tables", "figures", "preflight", "sessions", "data/report.md", "data/report.json",
    "data/counts.csv", "data/near_duplicates.csv",
)  # fmt: skip
"""What holds no text of a data set that asks for that; the data report leaves it out by itself."""

_ROWS = 1024


def export(config: Config, paths: RunPaths, out: Path) -> int:
    """Writes what may be published of a run to a folder; returns how many scored rows it has.

    `stair tables --responses OUT --out DIR` gives every table again from it.

    Raises:
        ValueError: the folder exists and is not empty, or nothing has been scored.
    """
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; name a new folder")
    withheld = {key for key, benchmark in config.benchmarks.items() if not benchmark.publish_text}
    sources = [
        paths.evaluation(model, benchmark, condition)
        for condition in config.conditions
        for model, benchmark in config.evaluated(condition)
    ]
    present = [path for path in sources if path.is_file()]
    if not present:
        raise ValueError(f"{paths.folder} has no scored rows; run the workflow up to 'scores' first")
    count = 0
    for path in present:
        count += write_table(out / path.relative_to(paths.folder), SCORED, publishable(_rows(path), withheld))
    for name in _COPIED:
        source = paths.folder / name
        if source.is_dir():
            shutil.copytree(source, out / name)
        elif source.is_file():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, out / name)
    return count


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(SCORED):
            raise ValueError(f"{path} does not have the columns of scored rows; delete it and run its stage again")
        for batch in file.iter_batches(_ROWS):
            yield from batch.to_pylist()
