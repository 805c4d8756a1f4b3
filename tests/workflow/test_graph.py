"""The graph: one command makes everything, nothing is made twice, and a change runs what depends on it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from stair.config.paths import RUN
from stair.pipeline.job_list import config_words, list_jobs
from stair.records.seeds import seed_of
from tests.listed import listed
from tests.workflow.conftest import (
    ROOT,
    SMOKE,
    jobs_of,
    name_of,
    planned,
    run_in,
    snakemake,
    with_dependents,
)
from tests.workflow.smoke_jobs import (
    BENCHMARK,
    CHECKED,
    END,
    LORA,
    MAIN_TABLES,
    MEASURED_REPLAY,
    MODEL,
    NATIVE,
    POOL,
    PREFLIGHT,
    REPLAY,
    REPORTED,
    ROLLOUTS,
    ROW_FIGURES,
    RUNTIME,
    SCHEDULE,
    SESSIONS,
    STAIR_CONTROLLER,
    T1_TABLES,
    TEXT,
    controlled,
    names,
)


def test_one_command_makes_the_main_table(finished_run: Path) -> None:
    results = finished_run / "results" / "smoke"
    for suffix in (".csv", ".md", ".tex"):
        assert (results / "tables" / f"continuous_summary{suffix}").stat().st_size > 0
    text = (results / "tables" / "continuous_summary.md").read_text()
    assert "STAIR" in text
    assert "these numbers mean nothing" in text


def test_a_second_start_has_nothing_to_do(finished_run: Path) -> None:
    assert planned(finished_run) == set()


def test_a_copy_elsewhere_with_kept_times_has_nothing_to_do(finished_run: Path, tmp_path: Path) -> None:
    """Snakemake's records lie in the run's folder and have relative names."""
    shutil.copytree(finished_run / "results" / "smoke", tmp_path / "copies" / "smoke", symlinks=True)
    assert planned(tmp_path, config=("results=copies",)) == set()
    assert " 0 missing, 0 damaged, 0 stale" in run_in(tmp_path, "stair", "verify", "--run", "copies/smoke").stdout


DELETED: list[tuple[str, set[str]]] = [
    # Data and models.
    ("raw/math500.jsonl", {"raw math500", *BENCHMARK}),
    ("data/benchmarks/math500.parquet", BENCHMARK),
    ("data/training/M.parquet", POOL),
    ("data/training/M.cleaning.json", POOL),
    ("data/report.json", {"data_report", *END}),
    ("preflight/M.json", PREFLIGHT),
    # Training.
    ("rollouts/M.parquet", ROLLOUTS),
    ("sessions/training/M.parquet", SESSIONS),
    ("sessions/dropped/M.csv", SESSIONS),
    ("controllers/M/stair/curve.csv", STAIR_CONTROLLER),
    ("controllers/M/lora/adapter_model.safetensors", LORA),
    # Responses and scores.
    ("sessions/evaluation/math500.parquet", SCHEDULE),
    ("responses/M/math500/native.parquet", NATIVE),
    ("responses/M/math500/shared_t1/bank_free.parquet", controlled("bank_free")),
    (
        "evaluation/M/math500/native.parquet",
        {"score_condition native", *MAIN_TABLES, *ROW_FIGURES, *TEXT},
    ),
    (
        "evaluation/M/math500/stair.parquet",
        {"score_condition stair", "figure overview", *(MAIN_TABLES - {"table native_accuracy"}), *TEXT},
    ),
    (
        "shared_t1/M/math500/bank_free.parquet",
        {"score_condition shared_t1/bank_free", *(T1_TABLES - {"table bank_prefix_accuracy"}), *REPORTED},
    ),
    # The studies.
    ("replay/M/problems.parquet", REPLAY),
    ("replay/M/states.sha256", MEASURED_REPLAY),
    (
        "replay/M/attention.parquet",
        {"replay_statistics attention", *names("figure", "historical_computation", "attention"), *TEXT},
    ),
    ("runtime/M.csv", RUNTIME),
    # Checks, tables, figures, summaries.
    ("checks.csv", CHECKED),
    ("tables/intervals.html", {"table intervals", *REPORTED}),
    ("tables/continuous_summary.md", {"table continuous_summary", *TEXT}),
    ("figures/overview.png", {"figure overview", *REPORTED}),
    ("figures/method.pdf", {"figure method", *END}),
    ("comparison.md", {"comparison", *END}),
    ("claims.csv", {"claims", *END}),
    ("provenance.json", END),
    ("report.html", {"report"}),
]


@pytest.mark.parametrize(("file", "expected"), DELETED, ids=[file for file, _ in DELETED])
def test_a_deleted_file_is_made_again_with_exactly_its_dependents(
    finished_run: Path, file: str, expected: set[str]
) -> None:
    """By the jobs that Snakemake lists; its dry run takes a hundred times as long."""
    results = finished_run / "results" / "smoke"
    maker = {output: job for job in listed("smoke") for output in job.outputs}
    lost, again = [re.sub(r"\bM\b", MODEL, file)], set()
    while lost:
        job = maker[lost.pop()]
        again.add(name_of(job.rule, job.wildcards))
        # The markers of its shards were removed when it ended.
        lost += [name for name in job.inputs if name in maker and not (results / name).exists()]
    assert with_dependents(again) == expected


@pytest.mark.parametrize(
    "file",
    [
        "raw/math500.jsonl",
        "rollouts/M.parquet",
        "responses/M/math500/native.parquet",
        "tables/intervals.html",
    ],
)
def test_snakemake_makes_a_deleted_file_again_with_exactly_its_dependents(copied_run: Path, file: str) -> None:
    (copied_run / "results" / "smoke" / re.sub(r"\bM\b", MODEL, file)).unlink()
    assert planned(copied_run) == dict(DELETED)[file]


def test_a_touched_or_moved_model_runs_nothing_and_a_changed_one_all_that_uses_the_model(tmp_path: Path) -> None:
    project, moved = tmp_path / "project", tmp_path / "moved"
    shutil.copytree(ROOT / "backbones" / "tiny-qwen3-4b", project / "model")
    words = (f"models={{{MODEL}: {{path: model}}}}",)
    snakemake(project, "preflight", config=words)
    make_older_the_later_it_was_made(project)
    assert planned(project, "preflight", config=words) == set()
    project.rename(moved)
    for file in (moved / "model").iterdir():
        file.touch()
    assert planned(moved, "preflight", config=words) == set()
    assert run_in(moved, "stair", "verify", "--json", "--run", "results/smoke").stdout == ""
    with open(moved / "model" / "model.safetensors", "ab") as file:
        file.write(b"\0")
    assert planned(moved, "preflight", config=words) == {"preflight_model"}


def make_older_the_later_it_was_made(folder: Path) -> None:
    """Gives files new times in the opposite order: every input is newer than its outputs."""
    files = sorted((file for file in folder.rglob("*") if file.is_file()), key=lambda file: file.stat().st_mtime_ns)
    now = time.time_ns()
    for number, file in enumerate(files):
        os.utime(file, ns=(now - number * 10**6,) * 2)


def test_a_copy_with_new_times_has_nothing_to_do_and_no_command_that_reads_changes_a_file(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    make_older_the_later_it_was_made(copied_run)
    own = results / ".snakemake"  # Snakemake's: locks, logs and its inventory, beside the records of jobs
    files = [file for file in results.rglob("*") if file.is_file()]
    kept = [file for file in files if not file.is_relative_to(own) or file.is_relative_to(own / "metadata")]
    before = {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in kept}
    assert planned(copied_run) == set()
    assert "\nfinished at " in run_in(copied_run, "stair", "status", "--run", "results/smoke").stdout
    assert " 0 missing, 0 damaged, 0 stale" in run_in(copied_run, "stair", "verify", "--run", "results/smoke").stdout
    list_jobs(ROOT, {"run": str(SMOKE)})
    assert {file: (file.stat().st_mtime_ns, file.read_bytes()) for file in kept} == before


def test_a_job_on_a_cluster_has_the_configuration_of_its_driver(copied_run: Path) -> None:
    """The overlay cannot be used any more, when the job starts."""
    (overlay := copied_run / "smoke.yaml").write_text("unknown: true\n")
    config, folder = ("--config", f"run={overlay}"), {RUN: str(copied_run / "results" / "smoke")}
    words = ("snakemake", "--snakefile", str(ROOT / "Snakefile"), "--dry-run")
    assert "unknown" in run_in(copied_run, *words, *config, check=False).stderr
    job = (*words, "--mode", "remote", "--force", "checks.csv")
    assert jobs_of(run_in(copied_run, *job, *config, more=folder)).keys() == {"check"}


def test_a_results_folder_of_any_name_works(tmp_path: Path) -> None:
    folder = """it's $HOME "in übung" a;b #c`d&|*?(e)"""
    results = tmp_path / folder
    words = ("--run", str(SMOKE), "--set", f"results={json.dumps(str(results))}")
    run_in(tmp_path, "stair", "reproduce", *words, "--target", "data")
    assert (results / "smoke" / "data" / "report.md").is_file()
    assert planned(tmp_path, "data", config=tuple(config_words({"results": str(results)}))) == set()
    (results / "smoke" / "data" / "report.md").unlink()
    run_in(tmp_path, "stair", "data-report", "--run", str(results / "smoke"))
    assert (results / "smoke" / "data" / "report.md").is_file()
    assert {path.name for path in tmp_path.iterdir()} - {".snakemake"} == {folder}


def test_a_command_line_override_reaches_the_jobs(copied_run: Path) -> None:
    """A target is named relative to the run's folder."""
    rows = f"responses/{MODEL}/math500/vanilla.parquet"
    snakemake(copied_run, rows, config=("evaluation={seed: other}",))
    results = copied_run / "results" / "smoke"
    resolved = yaml.safe_load((results / "config.resolved.yaml").read_text())
    assert resolved["evaluation"]["seed"] == "other"
    for row in pq.read_table(results / rows).to_pylist():
        assert row["seed"] == seed_of("other", "math500", row["problem_id"], row["sample"])


def test_the_papers_graph_needs_no_gpu_no_network_no_weights_and_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "sys.argv = ['snakemake', '--snakefile', sys.argv[1], '-n', '--config', 'run=paper']\n"
        "from snakemake.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "assert 'torch' not in sys.modules\n"
    )
    jobs = jobs_of(run_in(tmp_path, sys.executable, "-c", program, str(ROOT / "Snakefile")))
    assert jobs["train_controller"] == 3 + 1, "STAIR for all models, bank-free for one"
    assert (jobs["train_lora"], jobs["train_lora_stair"]) == (1, 1)
    again_and_null, lora_and_both = 3 + 3, 1 + 1
    shared_t1 = 16
    assert jobs["seal_evaluation"] == 3 * 4 * 3 + again_and_null + lora_and_both + shared_t1
    assert not (tmp_path / "results").exists()


def test_an_expensive_run_says_what_it_would_do_and_stops(tmp_path: Path) -> None:
    overlay = tmp_path / "mine.yaml"
    overlay.write_text("extends: paper\n", encoding="utf-8")
    done = run_in(tmp_path, "stair", "reproduce", "--run", str(overlay))
    assert "was not started" in done.stdout
    assert f"make reproduce RUN={overlay} GO=1" in done.stdout
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("colour=blue", ["unknown key 'colour'"]),
        (
            "models={qwen3-4b-instruct: {path: /nowhere/model}}",
            ["models.qwen3-4b-instruct.path", "/nowhere/model"],
        ),
        ("benchmarks={math500: {tiny: null, path: wrong.jsonl}}", ["benchmarks.math500.path", "no column 'answer'"]),
    ],
)
def test_a_mistake_is_one_readable_line_before_any_work(tmp_path: Path, change: str, words: list[str]) -> None:
    """tests/config has the other mistakes."""
    (tmp_path / "wrong.jsonl").write_text('{"problem": "What is 1 + 1?", "unique_id": "a"}\n')
    for command in (
        ["stair", "reproduce", "--run", str(SMOKE), "--set", change],
        ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--config", f"run={SMOKE}", change],
    ):
        done: subprocess.CompletedProcess[str] = run_in(tmp_path, *command, check=False)
        assert done.returncode != 0
        lines = [line for line in done.stderr.splitlines() if all(word in line for word in words)]
        assert len(lines) == 1, done.stderr
        assert "Traceback" not in done.stderr and 'File "' not in done.stderr
        assert not (tmp_path / "results").exists()


def test_an_error_of_the_snakefile_after_the_graph_is_one_line_too(tmp_path: Path) -> None:
    work = tmp_path / "results/smoke/work"
    work.parent.mkdir(parents=True)
    work.touch()  # in place of the folder
    done = snakemake(tmp_path, "raw/math500.jsonl", check=False)
    (line,) = [line for line in done.stderr.splitlines() if f"{work.parent} cannot be written (" in line]
    assert line.startswith("results: ") and "make it writable" in line
    assert done.returncode != 0 and "Traceback" not in done.stderr and 'File "' not in done.stderr
