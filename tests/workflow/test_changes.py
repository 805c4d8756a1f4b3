"""Change one thing, and exactly what should run runs: on the real graph of a finished run, by dry run and by running.

Changes of code are in test_code_changes.py, changes that another run's work spares in test_reuse.py, deleted and touched
files in test_graph.py. `smoke_jobs.py` says what follows from a job.
"""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from stair.config.model import Config
from stair.config.resolve import resolve
from stair.pipeline.jobs import PLACES, settings_of
from stair.records.worklog import WorkLog
from tests.listed import listed
from tests.sealed import reseal
from tests.workflow.conftest import (
    ROOT,
    SMOKE,
    assert_ran,
    name_of,
    planned,
    receipts,
    run_in,
    snakemake,
    with_dependents,
)
from tests.workflow.smoke_jobs import (
    ALL_FIGURES,
    ALL_TABLES,
    ANSWERS,
    BANK_FREE,
    BENCHMARK,
    CHECKED,
    CONTROLS,
    DIAGRAMS,
    END,
    EVALUATION,
    EVERY_JOB,
    GEOMETRY_FIGURES,
    LORA,
    LORA_STAIR,
    MEASURED_REPLAY,
    MODEL,
    POOL,
    PREFLIGHT,
    REPLAY,
    REPLAY_FIGURES,
    REPORTED,
    ROLLOUTS,
    ROW_FIGURES,
    RUNTIME,
    SCHEDULE,
    SESSIONS,
    SHOWING,
    STAIR,
    STAIR_CONTROLLER,
    STATISTICS,
    T1_TABLES,
    TABLES,
    TEXT,
    TRAINING,
    TRAINING_FIGURE,
    answered,
    controlled,
    lasting,
    names,
)

pytestmark = pytest.mark.timeout(300)


NOTHING = (
    "hub={cache: elsewhere, lock: other.lock}",
    "expensive=true",
    "rollouts={shards: 3}",
    "training={checkpoint_activations: true, allow_torch_recurrence: true, workers: 2}",
    "conditions={native: {batch_width: 4, shards: 2}}",  # it repeats no other
    f"evaluation={{shards: 2, engine_changes: {{{MODEL}: {{math500: transformers}}}}}}",
    "replay={shards: 3}",
    "controls={shards: 2}",
    "transformers={batch_width: 4, prefill_width: 2}",
    "sglang={version: 0.0.1, device: cuda, attention: fa3, tensor_parallel: 2, concurrency: 3, arguments: [--x]}",
)


def model(changes: str) -> str:
    """Changes of the run's model."""
    return f"models={{{MODEL}: {{{changes}}}}}"


CHANGES: list[tuple[str, set[str]]] = [
    ("note=Another note.", {*ALL_TABLES, *ALL_FIGURES, "data_report"}),
    # Models and prompts.
    (model("label: Another"), {*ALL_TABLES, *ALL_FIGURES}),
    (model("path: backbones/tiny-qwen3.5-4b"), PREFLIGHT),
    (model("thinking: true"), PREFLIGHT),
    (model("dtype: bfloat16"), {*ROLLOUTS, *ANSWERS}),
    (model("rollout_engine: sglang"), ROLLOUTS),
    (model("rollout_sampling: {top_k: 10}"), ROLLOUTS),
    (model("rollout_sampling: {max_new_tokens: 20}"), ROLLOUTS),
    (model("evaluation_sampling: {top_k: 10}"), {"table evaluation_decoding", *ANSWERS}),
    (
        model("evaluation_sampling: {max_new_tokens: 20}"),
        {"table evaluation_decoding", *ANSWERS},
    ),
    (model("evaluation_changes: {math500: {temperature: 0.9}}"), {"table evaluation_decoding", *ANSWERS}),
    # As it is already: the table shows how it is written.
    (model("evaluation_changes: {math500: {temperature: 0.7}}"), {"table evaluation_decoding", *REPORTED}),
    ("prompts={math: 'Solve.\n{problem}'}", ANSWERS),
    # The data sets.
    ("training_pool={name: other}", ROLLOUTS),
    ("training_pool={prompt: math}", ROLLOUTS),
    ("training_pool={columns: {answer: other}}", POOL),
    ("training_pool={strip_prefixes: [other]}", POOL),
    ("training_pool={strip_suffixes: [other]}", POOL),
    ("training_pool={exclude_benchmarks: []}", POOL),
    (f"training_pool={{exclude_more: {{{MODEL}: [math500]}}}}", POOL),
    ("training_pool={validation_problems: 5}", POOL),
    ("training_pool={seed: other}", POOL),
    ("training_pool={subset: {problems: 10, seed: other}}", POOL),
    ("training_pool={tiny: 13}", {"raw training_pool", *POOL}),
    ("benchmarks={math500: {label: Another}}", {*ALL_TABLES, *ROW_FIGURES, *REPLAY_FIGURES}),
    ("benchmarks={math500: {mathematical: false}}", {*ALL_TABLES, *ROW_FIGURES, *REPLAY_FIGURES}),
    ("benchmarks={math500: {publish_text: false}}", {"data_report", *END}),
    ("benchmarks={math500: {prompt: choice}}", ANSWERS),
    ("benchmarks={math500: {kind: integer}}", BENCHMARK),
    ("benchmarks={math500: {columns: {answer: other}}}", BENCHMARK),
    ("benchmarks={math500: {rows: 8}}", BENCHMARK),
    ("benchmarks={math500: {exclude_ids: ['0']}}", BENCHMARK),
    ("benchmarks={math500: {subset: {problems: 6}}}", BENCHMARK),
    ("benchmarks={math500: {tiny: 9}}", {"raw math500", "raw training_pool", *BENCHMARK}),
    # Training responses, sessions and training.
    ("rollouts={seed: other}", ROLLOUTS),
    ("rollouts={engine: sglang}", ROLLOUTS),
    ("rollouts={seed: other, shards: 3}", {"rollout_shard 2", *ROLLOUTS}),
    ("sessions={seed: other}", {*SESSIONS, *SCHEDULE}),
    *(
        (f"controllers={{stair: {{{change}}}}}", STAIR_CONTROLLER)
        for change in ("seed: other", "layers: [1, 2]", "smoothing: 0.001", "optimizer: {weight_decay: 0.1}")
    ),
    ("controllers={bank_free: {seed: other}}", BANK_FREE),
    ("controllers={bank_free: {smoothing: 0.001}}", {"claims", *END}),  # it reads no bank; the claims have every key
    ("controllers={lora: {adapter: {rank: 3}}}", LORA),
    ("controllers={lora_stair: {adapter: {rank: 3}}}", {"claims", *LORA_STAIR}),
    ("select={controllers: [stair, bank_free, lora]}", {TRAINING_FIGURE, "claims", *END}),
    ("select={controllers: [stair, bank_free, lora_stair]}", {TRAINING_FIGURE, *TEXT}),
    *(
        (f"training={{{change}}}", TRAINING)
        for change in (
            "sessions_per_update: 2", "epochs: 2", "cross_entropy: 0.5", "kl: 0.5", "validation_sessions: 3",
            "validation_every: 1",
        )
    ),
    # Conditions and the evaluation.
    ("conditions={native: {label: Plain}}", TABLES),
    ("conditions={stair: {label: Ours}}", {*TABLES, *DIAGRAMS}),
    ("conditions={stair: {variant: direct}}", STAIR),
    ("conditions={stair: {first_turn: null}}", STAIR),
    (
        "conditions={again: {label: Again, first_turn: vanilla, repeats: native, batch_width: 4, shards: 2}}",
        {*answered("again", shards=2), *TABLES},
    ),
    ("select={conditions: [vanilla, native]}", {*CHECKED, *TABLES} - {"table controller_configuration"}),
    ("evaluation={seed: other}", EVALUATION),
    ("evaluation={seed: other, shards: 2}", {*names("evaluation_shard", "vanilla 1", "native 1", "stair 1"), *EVALUATION}),
    ("evaluation={samples: 2}", {*ANSWERS, *ALL_TABLES, *REPLAY_FIGURES}),
    ("evaluation={allow_mixed_engines: true}", {*CHECKED, *ALL_TABLES, *REPLAY_FIGURES}),
    # The studies.
    ("replay={seed: other}", REPLAY),
    ("replay={condition: stair}", REPLAY),
    ("replay={batch_problems: 1}", REPLAY),
    ("replay={layers: [2, 7]}", MEASURED_REPLAY),
    ("replay={analysis: {seed: other}}", STATISTICS),
    ("replay={analysis: {resamples: 2000}}", STATISTICS),
    (
        "replay={analysis: {reported_layer: 3}}",
        {*names("replay_statistics", "attention", "geometry"), *REPLAY_FIGURES, *TEXT},
    ),
    ("replay={analysis: {neighborhoods: [1]}}", {"replay_statistics geometry", *REPLAY_FIGURES, *TEXT}),
    *(
        (f"replay={{analysis: {{{change}}}}}", {"replay_statistics geometry", *GEOMETRY_FIGURES, *TEXT})
        for change in ("folds: 2", "history_pairs: 3", "shuffles: 3", "whitening: {rho: 0.1}")
    ),
    (
        "replay={analysis: {read_dimension: 8}}",
        {"replay_statistics read_prediction", "figure read_prediction", *TEXT},
    ),
    ("replay={analysis: null}", TEXT),
    ("replay=null", TEXT),
    *(
        (f"runtime={{{change}}}", RUNTIME)
        for change in (
            "seed: other", "condition: stair", "histories: 1", "longer_than: 2", "prefixes: [3]", "tokens: 5", "warmups: 2",
            "repetitions: 2",
        )
    ),
    ("runtime=null", TEXT),
    ("controls={seed: other}", CONTROLS),
    ("controls={conditions: {stair: {label: Ours}}}", {*T1_TABLES, *REPORTED}),
    ("controls={conditions: {stair_prefix: {prefixes: [9]}}}", controlled("stair_prefix-9")),
    ("select={controls: [t1, native, stair, stair_prefix]}", CHECKED),
    ("controls=null", CHECKED - T1_TABLES),
    # What is shown, and how it is computed.
    ("claims={small_interaction: 4.0}", {"claims", *END}),
    ("accept_missing=true", set()),
    ("transformers={attention: eager}", {*ROLLOUTS, *ANSWERS}),
    *(
        (f"transformers={{{change}}}", RUNTIME)
        for change in ("device: auto", "prefill_chunk: 64", "cache_block: 64")  # it times them
    ),
]  # fmt: skip


def test_a_change_without_a_part_in_any_result_generates_nothing(finished_run: Path) -> None:
    """All at once: if one of them triggers a job, the test fails."""
    assert lasting(planned(finished_run, config=NOTHING)) == set()


def test_places_run_nothing(finished_run: Path) -> None:
    """Sections that say where and how fast."""
    changes = [change for change in NOTHING if section(change) in PLACES and "batch_width" not in change]
    assert len(changes) == 2 and planned(finished_run, config=tuple(changes)) == set()


def section(change: str) -> str:
    return change.partition("=")[0]


SAME_JOBS = [
    (change, expected)
    for change, expected in CHANGES
    if "null" not in change and section(change) != "select" and expected <= EVERY_JOB
]
"""The run has the same jobs after the change."""
ASKED = [each for each in CHANGES if each not in SAME_JOBS]


@pytest.mark.parametrize(("change", "expected"), ASKED, ids=[change for change, _ in ASKED])
def test_snakemake_runs_what_depends_on_a_setting(finished_run: Path, change: str, expected: set[str]) -> None:
    """All changes that make other jobs of the run."""
    assert lasting(planned(finished_run, config=(change,))) == lasting(expected)


def test_snakemake_compares_the_digests_of_settings(finished_run: Path) -> None:
    """Seeds of three stages at once, of which no job depends on another."""
    seeds = ("controllers={bank_free: {seed: other}}", "replay={analysis: {seed: other}}", "runtime={seed: other}")
    assert lasting(planned(finished_run, config=seeds)) == lasting({*BANK_FREE, *STATISTICS, *RUNTIME})


@pytest.mark.parametrize(("change", "expected"), SAME_JOBS, ids=[change for change, _ in SAME_JOBS])
def test_the_jobs_whose_settings_changed_and_their_dependents(change: str, expected: set[str]) -> None:
    """By the digests that Snakemake compares. Its dry run takes a hundred times as long."""
    key, _, value = change.partition("=")
    before, after = (resolve(ROOT, {"run": "smoke", **changes}) for changes in ({}, {key: yaml.safe_load(value)}))
    changed = {
        name_of(job.rule, job.wildcards)
        for job in listed("smoke")
        if settings_of(before, job.rule, job.wildcards) != settings_of(after, job.rule, job.wildcards)
    }
    assert lasting(with_dependents(changed)) == lasting(expected)
    shown = {job for job in EVERY_JOB if job not in lasting(EVERY_JOB)}
    assert (shown <= changed) == (section(change) not in PLACES), "a change of what is shown shows all again"


def test_every_job_and_every_section_has_its_place_here() -> None:
    assert {name_of(job.rule, job.wildcards) for job in listed("smoke")} == EVERY_JOB
    tried = {section(change) for change in (*NOTHING, *(change for change, _ in CHANGES))}
    elsewhere = {"run", "results", "reuse", "transitions", "overview"}  # another folder; test_reuse.py; below
    assert tried | elsewhere == Config.model_fields.keys()


OTHER = (
    "models={other: {label: Other, path: backbones/tiny-qwen3-4b, thinking: false, dtype: float32, "
    "rollout_sampling: {max_new_tokens: 24}, evaluation_sampling: {max_new_tokens: 24}}}"
)


def answers_of(place: str) -> set[str]:
    """The evaluation of a model or benchmark that is new."""
    conditions = ("vanilla", "native", "stair")
    return {
        *names("evaluation_shard", *(f"{place} {condition} 0" for condition in conditions)),
        *(f"{rule} {place} {condition}" for rule in ("seal_evaluation", "score_condition") for condition in conditions),
    }


def test_another_model_runs_its_own_jobs_and_what_shows_all_models(finished_run: Path) -> None:
    data = {"training_pool other", "preflight_model other"}
    trained = {"seal_rollouts other", "training_sessions other", "train_controller other stair"}
    shown = {*names("table", "turns_other", "history_other"), "figure training_other"}
    own = {*data, *names("rollout_shard other", "0", "1"), *trained, *answers_of("other"), *shown}
    found = planned(finished_run, config=(OTHER,))
    assert lasting(found) == lasting({*own, "data_report", "check"})
    assert found == {*own, "data_report", *CHECKED, *ALL_TABLES, *ALL_FIGURES}


def test_another_benchmark_runs_its_own_jobs_and_trains_nothing(finished_run: Path, tmp_path: Path) -> None:
    problems = [{"problem": f"What is {number} + 1?", "answer": str(number + 1)} for number in range(4)]
    (tmp_path / "ours.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    added = f"benchmarks={{ours: {{label: Ours, path: {tmp_path}/ours.jsonl, kind: integer}}}}"
    own = {"benchmark ours", "evaluation_sessions ours", *answers_of("ours")}
    expected = {*own, "data_report", *CHECKED, *ALL_TABLES, *ALL_FIGURES}
    assert planned(finished_run, config=(added,)) == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"transitions": {"benchmark": "aime2025"}}, set()),
        ({"overview": {"models": ["qwen3.5-9b"]}}, set()),
        # Models that the run does not train itself learn no prompts.
        (
            {"prompts": {"choice": "Choose.\n{problem}"}},
            {"evaluation_shard", "seal_evaluation"},
        ),
    ],
    ids=["transitions", "overview", "prompts"],
)
def test_a_setting_of_a_run_with_several_models_and_benchmarks(
    changes: dict[str, dict[str, object]], expected: set[str]
) -> None:
    """By the settings of all jobs of the tiny run; the smoke run has one model and one benchmark."""
    before, after = resolve(ROOT, {"run": "tiny"}), resolve(ROOT, {"run": "tiny", **changes})
    changed = [
        job
        for job in listed("tiny")
        if settings_of(before, job.rule, job.wildcards) != settings_of(after, job.rule, job.wildcards)
    ]
    assert {job.rule for job in changed} - set(SHOWING) == expected
    if "prompts" in changes:
        assert all("gpqa_diamond" in job.wildcards.values() for job in changed if job.rule not in SHOWING)


def test_what_a_dry_run_says_is_what_runs_and_then_nothing_is_left(copied_run: Path) -> None:
    """One change after another, in one folder: a label, then a controlled layer; each as far as it is seen."""
    results, words = copied_run / "results" / "smoke", []
    generates = {"train_controller stair", "evaluation_shard stair 0", "seal_evaluation stair"}
    for change, target, expected in (
        (
            "conditions={native: {label: Plain}}",
            "tables/continuous_summary.md",
            {"check", "table continuous_summary"},
        ),
        ("controllers={stair: {layers: [1, 2]}}", "evaluation", generates),
    ):
        words += ["--set", change]
        before = receipts(results)
        assert planned(copied_run, target, config=tuple(words[1::2])) == expected
        run_in(copied_run, "stair", "reproduce", "--run", str(SMOKE), "--target", target, *words)
        assert_ran(results, before, expected)
        assert planned(copied_run, target, config=tuple(words[1::2])) == set()
    assert "Plain" in (results / "tables" / "continuous_summary.md").read_text()


def test_threads_and_cores_change_nothing(finished_run: Path) -> None:
    words = ("--cores", "1", "--set-threads", "evaluation_shard=2", "score_condition=2", "table=2")
    assert planned(finished_run, *words) == set()


def test_another_version_of_a_library_runs_nothing_and_verify_reports_it(finished_run: Path, tmp_path: Path) -> None:
    found = tmp_path / "site" / "safetensors-99.0.dist-info"
    found.mkdir(parents=True)
    (found / "METADATA").write_text("Metadata-Version: 2.1\nName: safetensors\nVersion: 99.0\n")
    more = {"PYTHONPATH": f"{found.parent}:{ROOT}"}
    assert planned(finished_run, more=more) == set()
    told = run_in(finished_run, "stair", "verify", "--run", "results/smoke", more=more).stdout
    assert any("made with safetensors" in line and "installed is 99.0" in line for line in told.splitlines())
    assert "0 missing, 0 damaged, 0 stale" in told


def change_first_problem(results: Path, **changes: str) -> None:
    """Changes the first row of the benchmark's raw data."""
    source = results / "raw" / "math500.jsonl"
    first, *others = source.read_text().splitlines(keepends=True)
    source.write_text(json.dumps(json.loads(first) | changes) + "\n" + "".join(others))
    reseal(source)


def test_another_answer_changes_verdicts_and_generates_nothing_and_another_problem_its_responses(
    copied_run: Path,
) -> None:
    """With the same text, a problem's responses have the same keys: they are in the log."""
    results = copied_run / "results" / "smoke"
    change_first_problem(results, answer="123456789")
    assert planned(copied_run) == BENCHMARK

    logs = sorted((results / "work").glob("**/log/*.log"))
    before = {path: path.read_bytes() for path in logs}
    responses = sorted((results / "responses").glob("**/*.parquet"))
    generated = {path: path.read_bytes() for path in responses}
    verdicts = f"evaluation/{MODEL}/math500/native.parquet"
    snakemake(copied_run, f"rollouts/{MODEL}.parquet", verdicts)  # without a training, which takes most of the time
    assert {path: path.read_bytes() for path in sorted((results / "work").glob("**/log/*.log"))} == before
    assert {path: path.read_bytes() for path in responses} == generated
    problems = pq.read_table(results / "data/benchmarks/math500.parquet").to_pylist()
    (changed,) = [row["problem_id"] for row in problems if row["reference"] == "123456789"]
    rows = pq.read_table(results / verdicts).to_pylist()
    assert not any(row["correct"] for row in rows if row["problem_id"] == changed)

    change_first_problem(results, problem="What is 11 + 22?")
    log = results / "work/evaluation" / MODEL / "math500/vanilla/log"
    known = set(WorkLog(log).keys())
    snakemake(copied_run, f"responses/{MODEL}/math500/vanilla.parquet")
    assert len(set(WorkLog(log).keys()) - known) == 4, "one problem, four samples"
