"""Data that breaks the protocol gives no tables, in the workflow and by hand."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.sealed import reseal
from tests.workflow.conftest import run_in, snakemake


def test_a_check_that_fails_blocks_the_tables(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    name = "responses/qwen3-4b-instruct/math500/stair.parquet"
    path, manifest = results / name, results / f"{name}.manifest.json"
    sound = path.read_bytes(), manifest.read_bytes()
    table = pq.read_table(path)
    seeds = table["seed"].to_pylist()
    field = table.schema.get_field_index("seed")
    other = pa.array([seeds[0] + 1, *seeds[1:]], type=table.schema.field(field).type)
    pq.write_table(table.set_column(field, table.schema.field(field), other), path)
    reseal(path)  # otherwise the check refuses the file before it reads it

    failed = run_in(copied_run, "stair", "check", "--run", "results/smoke", check=False)
    assert failed.returncode == 2
    assert "one seed for a problem and sample" in failed.stderr or "T1 responses are shared" in failed.stderr
    assert not (results / "checks.csv").exists() and (results / "checks.failed.csv").is_file()
    by_hand = run_in(copied_run, "stair", "table", "--run", "results/smoke", "--table", "intervals", check=False)
    assert by_hand.returncode == 2 and "checks.csv does not exist" in by_hand.stderr
    assert snakemake(copied_run, "tables", check=False).returncode != 0

    path.write_bytes(sound[0])
    manifest.write_bytes(sound[1])
    run_in(copied_run, "stair", "check", "--run", "results/smoke")
    assert (results / "checks.csv").is_file() and not (results / "checks.failed.csv").exists()


def test_a_job_that_fails_on_a_damaged_input_names_it_with_the_remedy(copied_run: Path) -> None:
    """The library that reads it names no file."""
    path = copied_run / "results/smoke/evaluation/qwen3-4b-instruct/math500/stair.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes(len(content) // 2) + content[200 + len(content) // 2 :])
    (line, *_) = [
        line for line in snakemake(copied_run, "tables", check=False).stderr.splitlines() if line.startswith("failed:")
    ]
    name = "evaluation/qwen3-4b-instruct/math500/stair.parquet"
    assert (
        f"{name} does not match its sealed checksum; to make it again: rm results/smoke/{name} && stair reproduce"
        in line
    )
