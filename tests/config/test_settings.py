"""What a change of the configuration runs again in a run of several models and benchmarks.

tests/workflow/test_changes.py has the changes of every key, on a run of one model and one benchmark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stair.config.model import Config
from stair.config.resolve import dump, merge, resolve, validate
from stair.pipeline.jobs import settings_of
from stair.records.keys import PROTOCOL_VERSION
from stair.stages.evaluation import settings as evaluation
from stair.stages.replay import settings as replay
from stair.stages.rollouts import settings as rollouts
from stair.stages.training import settings as training

ROOT = Path(__file__).parents[2]
INSTRUCT = "qwen3-4b-instruct"


@pytest.fixture(scope="module")
def values() -> dict[str, Any]:
    """The paper's settings as plain values."""
    loaded: dict[str, Any] = yaml.safe_load(dump(resolve(ROOT, {"run": "paper"})))
    return merge(loaded, {})


def generating(config: Config) -> dict[str, Any]:
    """The settings of all jobs that generate or build what generating depends on, by a name of the job."""

    def of(rule: str, **wildcards: str) -> dict[str, Any]:
        return settings_of(config, rule, wildcards)

    found = {f"sessions {benchmark}": of("evaluation_sessions", benchmark=benchmark) for benchmark in config.benchmarks}
    for name in ("training_pool", *config.benchmarks):
        found[f"raw {name}"] = of("raw", name=name)
    for benchmark in config.benchmarks:
        found[f"benchmark {benchmark}"] = of("benchmark", benchmark=benchmark)
    for model in config.models:
        found[f"sessions {model}"] = of("training_sessions", model=model)
        found[f"pool {model}"] = of("training_pool", model=model)
        found[f"rollouts {model}"] = of("rollout_shard", model=model, shard="0", of="2")
    for controller in config.controllers:
        for model in config.trained(controller):
            found[f"training {model} {controller}"] = of("train_controller", model=model, controller=controller)
    for condition in config.conditions:
        for model, benchmark in config.evaluated(condition):
            place = dict(model=model, benchmark=benchmark, condition=condition)
            found[f"evaluation {model} {benchmark} {condition}"] = of("seal_evaluation", **place)
    return found


def changed(values: dict[str, Any], **changes: Any) -> set[str]:
    """The jobs whose digest a change of the configuration changes."""
    before, after = (
        generating(validate(each, "the test's configuration")) for each in (values, merge(values, changes))
    )
    assert before.keys() == after.keys()
    return {job for job in before if before[job] != after[job]}


def test_one_sampling_key_of_one_benchmark_runs_that_benchmark_again(values: dict[str, Any]) -> None:
    found = changed(values, models={INSTRUCT: {"evaluation_changes": {"math500": {"temperature": 0.9}}}})
    assert found == {f"evaluation {INSTRUCT} math500 {condition}" for condition in ("vanilla", "native", "stair")}
    # Saying again what holds already is no change.
    assert changed(values, models={INSTRUCT: {"evaluation_changes": {"math500": {"temperature": 0.7}}}}) == set()


CONDITIONS = ("vanilla", "native", "stair", "lora", "lora_stair", "native_again", "stair_null")
BENCHMARKS = ("math500", "aime2025", "amc23", "gpqa_diamond")
MODELS = (INSTRUCT, "qwen3.5-4b", "qwen3.5-9b")


TRAINED = {
    *(f"training {model} stair" for model in MODELS),
    "training qwen3.5-4b bank_free",
    f"training {INSTRUCT} lora",
    f"training {INSTRUCT} lora_stair",
}
"""What the paper trains, and where."""


def evaluations(models: Any = MODELS, benchmarks: Any = BENCHMARKS, conditions: Any = CONDITIONS) -> set[str]:
    """The jobs of these; LoRA and what asks Native again are run on AIME alone."""
    everywhere = ("vanilla", "native", "stair")
    return {
        f"evaluation {m} {b} {c}"
        for m in models
        for b in benchmarks
        for c in conditions
        if c in everywhere or (b == "aime2025" and (m == INSTRUCT or not c.startswith("lora")))
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"evaluation": {"seed": "another"}}, evaluations()),
        (
            {"controllers": {"stair": {"smoothing": 1e-5}}},
            evaluations(conditions=["stair", "stair_null"]) | {f"training {model} stair" for model in MODELS},
        ),
        # Another seed or rate gives other weights, by which responses are keyed; the rule need not know.
        ({"controllers": {"stair": {"seed": "another"}}}, {f"training {model} stair" for model in MODELS}),
        ({"training": {"kl": 0.5}}, TRAINED),
        ({"models": {INSTRUCT: {"rollout_sampling": {"top_k": 10}}}}, {f"rollouts {INSTRUCT}"}),
        (
            {"models": {INSTRUCT: {"revision": "0" * 40}}},
            evaluations([INSTRUCT]) | {f"rollouts {INSTRUCT}"} | {job for job in TRAINED if INSTRUCT in job},
        ),
        (
            {"prompts": {"choice": "Which?\n{problem}"}},
            evaluations(benchmarks=["gpqa_diamond"]),
        ),
        ({"benchmarks": {"amc23": {"exclude_ids": ["3"]}}}, {"benchmark amc23"}),
        ({"training_pool": {"exclude_more": {"qwen3.5-9b": []}}}, {"pool qwen3.5-9b"}),
        # The paper's rollouts are SGLang's; a model can have another engine, and saying the common one again changes nothing.
        ({"sglang": {"version": "0.5.24"}}, {f"rollouts {model}" for model in MODELS}),
        ({"models": {INSTRUCT: {"rollout_engine": "transformers"}}}, {f"rollouts {INSTRUCT}"}),
        ({"models": {INSTRUCT: {"rollout_engine": "sglang"}}}, set()),
        # The layout of a condition that asks whether the layout matters is its identity.
        ({"conditions": {"native_again": {"batch_width": 5}}}, evaluations(conditions=["native_again"])),
        ({"sessions": {"seed": "another"}}, {f"sessions {name}" for name in (*MODELS, *BENCHMARKS)}),
    ],
    ids=lambda item: "-".join(item) if isinstance(item, dict) else "",
)
def test_a_change_runs_what_uses_it_and_nothing_else(
    values: dict[str, Any], changes: dict[str, Any], expected: set[str]
) -> None:
    assert changed(values, **changes) == expected


def test_tables_follow_labels_and_scores_follow_how_answers_are_compared(values: dict[str, Any]) -> None:
    def scores(config: Config, benchmark: str) -> dict[str, Any]:
        return settings_of(config, "score_condition", {"model": INSTRUCT, "benchmark": benchmark, "condition": "stair"})

    before = validate(values, "before")
    labelled = validate(merge(values, {"models": {INSTRUCT: {"label": "Another"}}}), "after")
    assert settings_of(before, "table", {"table": "intervals"}) != settings_of(
        labelled, "table", {"table": "intervals"}
    )
    assert scores(before, "math500") == scores(labelled, "math500")
    compared = validate(merge(values, {"benchmarks": {"math500": {"kind": "integer"}}}), "after")
    assert scores(before, "math500") != scores(compared, "math500")
    assert scores(before, "amc23") == scores(compared, "amc23")


def test_the_protocols_version_renews_all_that_a_model_generates_or_trains(
    values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reuse, restored archives and checkpoints of training compare these settings."""
    config = validate(values, "the paper's configuration")
    before = generating(config)
    for stage in (evaluation, rollouts, training):
        monkeypatch.setattr(stage, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    after = generating(config)
    renewed = {name for name in before if before[name] != after[name]}
    assert renewed == {name for name in before if name.split()[0] in ("rollouts", "training", "evaluation")}


ANALYSIS = {
    "resamples": {"attention", "geometry", "read_prediction"},
    "seed": {"attention", "geometry", "read_prediction"},
    "reported_layer": {"attention", "geometry"},
    "neighborhoods": {"geometry"},
    "folds": {"geometry"},
    "history_pairs": {"geometry"},
    "shuffles": {"geometry"},
    "exclude_fixed_points": {"geometry"},
    "whitening": {"geometry"},
    "read_dimension": {"read_prediction"},
}
"""The parts of the replay's analysis that use each key."""
OTHERS = {
    "seed": "another",
    "neighborhoods": [4],
    "folds": 8,
    "exclude_fixed_points": True,
    "whitening": {"dimension": 8},
}


@pytest.mark.parametrize("key", ANALYSIS)
def test_a_key_of_the_analysis_computes_the_parts_that_use_it(values: dict[str, Any], key: str) -> None:
    found = values["replay"]["analysis"]
    assert found.keys() == ANALYSIS.keys()
    changes = {"replay": {"analysis": {key: OTHERS.get(key) or found[key] + 100}}}
    before, after = (validate(each, "the test's configuration") for each in (values, merge(values, changes)))
    assert before.replay is not None and after.replay is not None
    parts = {
        part
        for part in ("attention", "geometry", "read_prediction")
        if replay.replay_statistics(before, INSTRUCT, part) != replay.replay_statistics(after, INSTRUCT, part)
    }
    assert parts == ANALYSIS[key]
    # What was measured stays.
    assert replay.replay(before, INSTRUCT) == replay.replay(after, INSTRUCT)
