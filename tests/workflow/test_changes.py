"""Change one thing, and exactly what should run runs: on the real graph of a finished run, by dry run and by running.

Changes of code are in test_code_changes.py, changes that another run's work spares in test_reuse.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from stair.records.worklog import WorkLog
from tests.sealed import reseal
from tests.workflow.conftest import ROOT, SMOKE, assert_ran, environment, jobs_of, run_in, snakemake, timings

pytestmark = [pytest.mark.xdist_group("workflow"), pytest.mark.timeout(300)]
MODEL = "qwen3-4b-instruct"

REPORTED = {"figure": 5, "comparison": 1, "claims": 1, "provenance": 1, "report": 1, "all": 1}
TABLES = {"table": 12, **REPORTED}
"""All tables but the four of the controls, whose conditions have labels of their own."""
ALL_TABLES = {"table": 16, "bank_cost_figure": 1, **REPORTED}
REPLAY = {"replay_design": 1, "replay_shard": 2, "seal_replay": 1, "replay_statistics": 3}
RUNTIME = {"measure_runtime": 1, "bank_cost_figure": 1}


def evaluated(conditions: int, controls: int = 0, **more: int) -> dict[str, int]:
    """The jobs when so many conditions of the evaluation and of the controls are generated again.

    Histories are replayed where Native is among them; what reading a bank costs is measured anew with any.
    """
    again = dict.fromkeys(("evaluation_shard", "seal_evaluation", "score_condition"), conditions)
    if controls:
        again |= dict.fromkeys(("controls_shard", "seal_controls", "score_controls"), controls)
    # Without new states, only the overview and the answer transitions have new rows.
    replayed = REPLAY if conditions == 3 else {"figure": 2}
    return {**again, "response_card": 1, "check": 1, **RUNTIME, "table": 14, **REPORTED, **replayed, **more}


CARDS = {"data_card": 1, "response_card": 1}
GENERATES = ("train_controller", "evaluation_shard", "seal_evaluation")
CONTROLLER = {"train_controller": 1, "training_figure": 1, "diagram": 2, **evaluated(1, 2)}
TRAINED = {"train_lora": 1, "train_lora_stair": 1, **CONTROLLER, **evaluated(1, 3), "train_controller": 2}
SESSIONS = {"training_sessions": 1, **TRAINED}
ROLLOUTS = {"rollout_shard": 2, "seal_rollouts": 1, "data_card": 1, **SESSIONS}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), {}),
        (("conditions={native: {label: Plain}}",), TABLES),
        (("note=Another note.",), {**CARDS, "data_report": 1, "training_figure": 1, "diagram": 2, **ALL_TABLES}),
        (("transformers={batch_width: 4, prefill_width: 2}",), {}),
        (("rollouts={shards: 3}",), {}),
        (("evaluation={shards: 2}",), {}),
        (("evaluation={shards: 2, seed: other}",), evaluated(3, evaluation_shard=6)),
        (
            (f"models={{{MODEL}: {{evaluation_changes: {{math500: {{temperature: 0.9}}}}}}}}",),
            evaluated(3, 5, table=15),
        ),
        ((f"models={{{MODEL}: {{rollout_sampling: {{top_k: 10}}}}}}",), ROLLOUTS),
        # How long answers may be is looked at without making training responses anew.
        (
            (f"models={{{MODEL}: {{evaluation_sampling: {{max_new_tokens: 20}}}}}}",),
            evaluated(3, 5, preflight_limits=1, table=15),
        ),
        (("evaluation={seed: other}",), evaluated(3)),
        (("rollouts={seed: other}",), ROLLOUTS),
        (("sessions={seed: other}",), {**SESSIONS, **evaluated(3, 5, evaluation_sessions=1, table=15)}),
        (("training={kl: 0.5}",), TRAINED),
        (("controllers={stair: {seed: other}}",), CONTROLLER),
        (("controllers={stair: {layers: [1, 2]}}",), CONTROLLER),
        (("controllers={stair: {smoothing: 0.001}}",), CONTROLLER),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) and item else "",
)
def test_a_setting_runs_what_depends_on_it(
    finished_run: Path, words: tuple[str, ...], expected: dict[str, int]
) -> None:
    assert jobs_of(snakemake(finished_run, "-n", config=words)) == expected


def test_what_a_dry_run_says_is_what_runs_and_then_nothing_is_left(copied_run: Path) -> None:
    """One change after another, in one folder: a label, a training setting, a controlled layer; each as far as it is seen."""
    results, words = copied_run / "results" / "smoke", []
    for change, target, expected in (
        ("conditions={native: {label: Plain}}", "all", TABLES),
        ("training={kl: 0.5}", "training", {"train_controller": 2, "train_lora": 1, "train_lora_stair": 1}),
        ("controllers={stair: {layers: [1, 2]}}", "evaluation", dict.fromkeys((*GENERATES, "response_card"), 1)),
    ):
        words += ["--set", change]
        before = timings(results)
        run_in(copied_run, "stair", "reproduce", "--run", str(SMOKE), "--target", target, *words)
        assert_ran(results, before, expected)
        assert jobs_of(snakemake(copied_run, target, "-n", config=tuple(words[1::2]))) == {}
    assert "Plain" in (results / "tables" / "continuous_summary.md").read_text()


def test_a_changed_setting_is_seen_without_snakemakes_records(copied_run: Path) -> None:
    shutil.rmtree(copied_run / ".snakemake")
    results = copied_run / "results" / "smoke"
    words = ("stair", "reproduce", "--run", str(SMOKE), "--set", "claims={small_interaction: 4.0}")
    for target, expected in (("tables", {}), ("claims", {"claims": 1}), ("all", {"report": 1})):
        before = timings(results)
        run_in(copied_run, *words, "--target", target)
        assert_ran(results, before, expected)


def test_threads_and_cores_change_nothing(finished_run: Path) -> None:
    words = ("-n", "--cores", "1", "--set-threads", "evaluation_shard=2", "score_condition=2", "table=2")
    assert jobs_of(snakemake(finished_run, *words)) == {}


def test_another_version_of_a_library_runs_nothing_and_verify_tells_it(finished_run: Path, tmp_path: Path) -> None:
    found = tmp_path / "site" / "safetensors-99.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: safetensors\nVersion: 99.0\n")
    shell = environment()
    shell["PYTHONPATH"] = f"{found.parent}:{shell.get('PYTHONPATH', ROOT)}"

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(words, cwd=finished_run, env=shell, capture_output=True, text=True, check=True)

    dry = run("snakemake", "--snakefile", str(ROOT / "Snakefile"), "-n", "--config", f"run={SMOKE}")
    assert jobs_of(dry) == {}
    told = run("stair", "verify", "--run", "results/smoke").stdout
    assert any("made with safetensors" in line and "installed is 99.0" in line for line in told.splitlines())
    assert "0 missing, 0 damaged, 0 stale" in told


def test_another_answer_in_a_benchmark_changes_verdicts_and_generates_nothing(copied_run: Path) -> None:
    """The problem's text is the same, so is its response's key: the responses are in the log."""
    results = copied_run / "results" / "smoke"
    source = results / "raw" / "math500.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    rows[0]["answer"] = "123456789"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reseal(source)
    jobs = jobs_of(snakemake(copied_run, "-n"))
    assert (jobs["benchmark"], jobs["score_condition"]) == (1, 3)
    assert not {"raw", "backbone"} & jobs.keys()

    logs = sorted((results / "work").glob("**/log/*.log"))
    before = {path: path.read_bytes() for path in logs}
    responses = sorted((results / "responses").glob("**/*.parquet"))
    generated = {path: path.read_bytes() for path in responses}
    run_in(copied_run, "stair", "reproduce", "--run", str(SMOKE), "--target", "scores")
    assert {path: path.read_bytes() for path in sorted((results / "work").glob("**/log/*.log"))} == before
    assert {path: path.read_bytes() for path in responses} == generated
    problems = pq.read_table(results / "data/benchmarks/math500.parquet").to_pylist()
    (changed,) = [row["problem_id"] for row in problems if row["reference"] == "123456789"]
    verdicts = pq.read_table(results / "evaluation" / MODEL / "math500/native.parquet").to_pylist()
    assert not any(row["correct"] for row in verdicts if row["problem_id"] == changed)


def test_another_problem_in_a_benchmark_generates_that_problems_responses(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    source = results / "raw" / "math500.jsonl"
    rows = [json.loads(line) for line in source.read_text().splitlines()]
    rows[0]["problem"] = "What is 11 + 22?"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    reseal(source)
    log = results / "work/evaluation" / MODEL / "math500/vanilla/log"
    before = set(WorkLog(log).keys())
    run_in(copied_run, "stair", "reproduce", "--run", str(SMOKE), "--target", "evaluation")
    assert len(set(WorkLog(log).keys()) - before) == 4, "one problem, four samples"
