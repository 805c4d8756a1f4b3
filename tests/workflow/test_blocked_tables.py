"""Data that breaks the protocol gives no tables, in the workflow and by hand; conditions of two engines give a note."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.sealed import reseal
from tests.workflow.conftest import SMOKE, run_in, snakemake

RUN = ("--run", "results/smoke")
PLACE = ("--model", "qwen3-4b-instruct", "--benchmark", "math500", "--condition")


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


def test_another_gpu_model_in_one_comparison_is_refused_or_told(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    vanilla = results / "responses/qwen3-4b-instruct/math500/vanilla.parquet"
    table = pq.read_table(vanilla)
    column = table.schema.get_field_index("device")
    elsewhere = pa.array(["Another GPU"] * len(table), table.schema.field("device").type)
    pq.write_table(table.set_column(column, table.schema.field("device"), elsewhere), vanilla)
    reseal(vanilla)
    work = results / "work/evaluation/qwen3-4b-instruct/math500/native"
    shutil.rmtree(work)

    refused = run_in(copied_run, "stair", "evaluation-shard", *RUN, *PLACE, "native", check=False)
    assert refused.returncode == 2
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("stair: error:")]
    assert "vanilla.parquet was made by transformers" in line
    assert "Another GPU, and native would be by transformers" in line
    assert "set evaluation.allow_mixed_engines" in line
    assert not list(work.glob("log/*.log")), "nothing was generated before"

    configure = ("stair", "config", "--run", str(SMOKE), "--write", "--set")
    run_in(copied_run, *configure, "evaluation={allow_mixed_engines: true}")
    run_in(copied_run, "stair", "evaluation-shard", *RUN, *PLACE, "native")
    run_in(copied_run, "stair", "seal-evaluation", *RUN, *PLACE, "native")
    run_in(copied_run, "stair", "check", *RUN)
    told = (results / "checks.csv").read_text()
    assert "one engine for the comparison" in told and "mixed, as evaluation.allow_mixed_engines allows" in told
    run_in(copied_run, "stair", "table", *RUN, "--table", "continuous_summary")
    for suffix in (".md", ".tex"):
        text = " ".join((results / "tables" / f"continuous_summary{suffix}").read_text().split())
        assert "conditions come from unequal engines" in text
        assert "Another GPU" in text

    run_in(copied_run, *configure, "evaluation={allow_mixed_engines: false}")
    failed = run_in(copied_run, "stair", "check", *RUN, check=False)
    assert failed.returncode != 0
    assert "one engine for the comparison" in failed.stderr
