"""The graph: one command makes everything, nothing is made twice, and a change runs what depends on it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from stair.records.seeds import seed_of
from tests.workflow.conftest import RESULTS, ROOT, SMOKE, contents, jobs_of, run_in, snakemake

pytestmark = pytest.mark.xdist_group("workflow")


def test_one_command_makes_the_main_table(finished_run: Path) -> None:
    results = finished_run / "results" / "smoke"
    for suffix in (".csv", ".md", ".tex"):
        assert (results / "tables" / f"continuous_summary{suffix}").stat().st_size > 0
    text = (results / "tables" / "continuous_summary.md").read_text()
    assert "STAIR" in text
    assert "these numbers mean nothing" in text


def test_a_second_start_has_nothing_to_do(finished_run: Path) -> None:
    assert jobs_of(snakemake(finished_run, "-n")) == {}


def test_a_deleted_output_is_made_again_with_what_depends_on_it(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    before = contents(results, *RESULTS)
    native = results / "responses" / "qwen3-4b-instruct" / "math500" / "native.parquet"
    native.unlink()
    expected = {
        "seal_evaluation": 1,
        "response_card": 1,
        "check": 1,
        "score_condition": 1,
        "replay_design": 1,
        "replay_shard": 2,
        "seal_replay": 1,
        "replay_statistics": 3,
        "measure_runtime": 1,
        "bank_cost_figure": 1,
        "table": 14,
        "figure": 5,
        "comparison": 1,
        "claims": 1,
        "provenance": 1,
        "report": 1,
        "all": 1,
    }
    assert jobs_of(snakemake(copied_run, "-n")) == expected
    snakemake(copied_run)
    assert contents(results, *RESULTS) == before


def test_a_table_runs_again_when_rows_that_it_shows_change(copied_run: Path) -> None:
    rows = copied_run / "results/smoke/evaluation/qwen3-4b-instruct/math500/stair.parquet"
    pq.write_table(pq.read_table(rows), rows, compression="gzip")
    expected = {"table": 7, "figure": 1, "comparison": 1, "claims": 1, "provenance": 1, "report": 1, "all": 1}
    assert jobs_of(snakemake(copied_run, "-n")) == expected, "native_accuracy shows Vanilla and Native"


def test_a_stage_runs_by_name(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    (results / "sessions" / "evaluation" / "math500.parquet").unlink()
    snakemake(copied_run, "sessions")
    assert (results / "sessions" / "evaluation" / "math500.parquet").is_file()


def test_a_command_line_override_reaches_the_jobs(copied_run: Path) -> None:
    rows = "results/smoke/responses/qwen3-4b-instruct/math500/vanilla.parquet"
    snakemake(copied_run, rows, config=("evaluation={seed: other}",))
    resolved = yaml.safe_load((copied_run / "results" / "smoke" / "config.resolved.yaml").read_text())
    assert resolved["evaluation"]["seed"] == "other"
    for row in pq.read_table(copied_run / rows).to_pylist():
        assert row["seed"] == seed_of("other", "math500", row["problem_id"], row["sample"])


def test_the_papers_graph_needs_no_gpu_no_network_and_no_weights(tmp_path: Path) -> None:
    done = run_in(tmp_path, "snakemake", "--snakefile", str(ROOT / "Snakefile"), "-n", "--config", "run=paper")
    jobs = jobs_of(done)
    assert jobs["train_controller"] == 3 + 1, "STAIR for all models, bank-free for one"
    assert (jobs["train_lora"], jobs["train_lora_stair"]) == (1, 1)
    again_and_null, lora_and_both = 3 + 3, 1 + 1
    assert jobs["seal_evaluation"] == 3 * 4 * 3 + again_and_null + lora_and_both
    assert not (tmp_path / "results").exists()


def test_an_expensive_run_says_what_it_would_do_and_stops(tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("extends: paper\n", encoding="utf-8")
    done = run_in(tmp_path, "stair", "reproduce", "--run", str(overlay))
    assert "was not started" in done.stdout
    assert f"make reproduce RUN={overlay} GO=1" in done.stdout
    assert not (tmp_path / "results").exists()


def test_the_snakefile_imports_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.argv = ['snakemake', '--snakefile', sys.argv[1], '-n', '--config', 'run=paper']\n"
        "from snakemake.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    run_in(tmp_path, sys.executable, "-c", program, str(ROOT / "Snakefile"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("colour=blue", ["unknown key 'colour'"]),
        ("evaluation={samples: -1}", ["evaluation.samples", "-1"]),
        ("controllers={stair: {layers: [3, 40]}}", ["controllers.stair.layers", "no layer 40"]),
        ("models={qwen3-4b-instruct: {tiny: {architecture: qwen3_5}}, x: 1}", ["models.x"]),
        (
            "models={qwen3-4b-instruct: {tiny: {architecture: qwen3_5}}}|controllers={stair: {layers: [4]}}",
            ["layer 4", "not full attention"],
        ),
        (
            "models={qwen3-4b-instruct: {tiny: null, path: /nowhere/model}}",
            ["models.qwen3-4b-instruct.path", "/nowhere/model"],
        ),
        ("benchmarks={math500: {tiny: null, path: wrong.jsonl}}", ["benchmarks.math500.path", "no column 'answer'"]),
    ],
)
def test_a_mistake_is_one_readable_line_before_any_work(tmp_path: Path, change: str, words: list[str]) -> None:
    (tmp_path / "wrong.jsonl").write_text('{"problem": "What is 1 + 1?", "unique_id": "a"}\n')
    for command in (
        ["stair", "reproduce", "--run", str(SMOKE), *[w for part in change.split("|") for w in ("--set", part)]],
        ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--config", f"run={SMOKE}", *change.split("|")],
    ):
        done: subprocess.CompletedProcess[str] = run_in(tmp_path, *command, check=False)
        assert done.returncode != 0
        lines = [line for line in done.stderr.splitlines() if all(word in line for word in words)]
        assert len(lines) == 1, done.stderr
        assert "Traceback" not in done.stderr
        assert not (tmp_path / "results").exists()
