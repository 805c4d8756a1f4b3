"""The conditions of one comparison come from one engine, or are refused, or carry a note (docs/design.md)."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.sealed import reseal
from tests.workflow.conftest import SMOKE, run_in

pytestmark = pytest.mark.timeout(300)
RUN = ("--run", "results/smoke")
PLACE = ("--model", "qwen3-4b-instruct", "--benchmark", "math500", "--condition")


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
    assert not list(work.glob("log/*")), "nothing was generated before"

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
