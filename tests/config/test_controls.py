"""The study with a shared T1 history is data: its conditions, its name, and keys of their own for a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.core import ReadSpecification
from stair.records.keys import digest_of
from stair.stages.evaluation.settings import evaluation

ROOT = Path(__file__).parents[2]
PLACE = ("qwen3.5-4b", "aime2025")


def resolved(run: str = "paper", **changes: Any) -> Config:
    return resolve(ROOT, {"run": run, **changes})


def test_the_papers_conditions() -> None:
    config = resolved()
    assert config.controls is not None
    assert list(config.controls.conditions) == [
        *("t1", "native", "stair"),
        *(f"random_reflector-{seed}" for seed in (1, 2, 3)),
        *("direct_read", "bank_free"),
        *(f"kv_permutation-{seed}" for seed in (1, 2, 3)),
        *(f"stair_prefix-{entries}" for entries in (2048, 8192, 32768)),
        *("native_again", "stair_null"),
    ]
    keys = [f"shared_t1/{name}" for name in config.controls.conditions]
    assert config.every_condition == [*config.conditions, *keys]
    assert all(config.evaluated(key) == [PLACE] for key in keys)
    assert {(config.condition(key).turns, config.first_turn(key)) for key in keys[1:]} == {(2, "shared_t1/t1")}
    assert config.read_specification("shared_t1/stair_prefix-8192") == ReadSpecification(limit=8192)
    assert config.read_specification("shared_t1/kv_permutation-3") == ReadSpecification(permutation_seed=3)
    assert (config.acts("shared_t1/bank_free"), config.reads_bank("shared_t1/bank_free")) == (True, False)
    assert config.condition("shared_t1/stair_prefix-2048").label == "STAIR 2K"
    assert config.section_of("shared_t1/stair").seed == "shared-t1"


def test_a_study_has_folders_of_its_own() -> None:
    paths, (model, benchmark) = RunPaths(Path("run")), PLACE
    assert paths.responses(*PLACE, "shared_t1/t1") == Path(f"run/responses/{model}/{benchmark}/shared_t1/t1.parquet")
    assert paths.scored(*PLACE, "shared_t1/t1") == Path(f"run/shared_t1/{model}/{benchmark}/t1.parquet")
    assert paths.scored(*PLACE, "native") == Path(f"run/evaluation/{model}/{benchmark}/native.parquet")


@pytest.mark.parametrize(
    "changes",
    [{"select": {"models": ["qwen3-4b-instruct", "qwen3.5-9b"]}}, {"controls": None}],
    ids=["without the model", "null"],
)
def test_a_run_without_the_study_resolves_and_has_no_jobs_of_it(changes: dict[str, Any]) -> None:
    config = resolved(**changes)
    assert config.controls is None
    assert config.every_condition == [*config.conditions]


@pytest.mark.parametrize("run", ["tiny", "smoke"])
def test_other_runs_have_their_own(run: str) -> None:
    conditions = resolved(run).conditions_of("shared_t1")
    assert {"t1", "native", "stair"} <= set(conditions)
    assert [item.prefix for item in conditions.values() if item.prefix is not None]


@pytest.mark.parametrize(
    ("controls", "problem"),
    [
        ({"models": ["another"]}, "controls.models names the model 'another'"),
        ({"benchmark": "another"}, "controls.benchmark names the benchmark 'another'"),
        ({"conditions": {"odd": {"label": "Odd", "turns": 4}}}, "conditions.odd has turns 4"),
        ({"conditions": {"odd": {"label": "Odd", "controller": "none"}}}, "controls.conditions.odd.controller names"),
        ({"conditions": {"odd": {"label": "Odd", "prefix": 4}}}, "controls.conditions.odd sets prefix and reads no bank"),
        ({"conditions": {"odd": {"label": "Odd", "controller": "lora"}}}, "controls.conditions.odd cannot reuse"),
        ({"conditions": {"native": {"variant": "direct"}}}, "controls.conditions.native sets variant and reads no bank"),
        ({"conditions": {"bank_free": {"variant": "zero"}}}, "controls.conditions.bank_free sets variant and reads no bank"),
        (
            {"conditions": {"stair": {"benchmarks": ["amc23"]}}},
            r"'controls': conditions.stair.benchmarks is \['amc23'\], and the study has \['aime2025'\], so the condition",
        ),
        (
            {"conditions": {"stair": {"models": ["qwen3.5-9b"]}}},
            r"'controls': conditions.stair.models is \['qwen3.5-9b'\], and the study has \['qwen3.5-4b'\]",
        ),
        ({"seed": "evaluation"}, "controls.seed is 'evaluation', as evaluation.seed"),
        ({"models": ["qwen3.5-9b"]}, "controls.conditions.bank_free needs the controller 'bank_free' of qwen3.5-9b"),
    ],
)  # fmt: skip
def test_a_study_that_cannot_be_is_refused(controls: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem.replace("(", r"\(")):
        resolved(controls=controls)


@pytest.mark.parametrize(
    ("family", "problem"),
    [
        ({"random_reflector": {"seeds": []}}, "conditions.random_reflector.seeds is empty"),
        (
            {"random_reflector": {"seeds": 3}},
            "conditions.random_reflector.seeds is 3; expected a list of whole numbers",
        ),
        ({"random_reflector": {"seeds": [1, 1, 2]}}, "conditions.random_reflector.seeds lists a number twice"),
        ({"stair_prefix": {"prefixes": "quartiles"}}, "conditions.stair_prefix.prefixes is 'quartiles'; expected"),
        ({"stair_prefix": {"prefixes": ["half"]}}, "conditions.stair_prefix.prefixes is .*; expected a list"),
        ({"stair_prefix-2048": {"label": "Another", "prefix": 1}}, "conditions.stair_prefix-2048 stands twice"),
    ],
)
def test_a_family_that_is_no_list_of_numbers_is_refused(family: dict[str, Any], problem: str) -> None:
    """Neither a traceback nor a family that quietly has no members."""
    with pytest.raises(ConfigError, match=problem):
        resolved(controls={"conditions": family})


def test_two_turns_belong_to_the_study_alone() -> None:
    with pytest.raises(ConfigError, match=r"conditions of two turns belong to controls\.conditions"):
        resolved(conditions={"odd": {"label": "Odd", "turns": 2}})


def test_params_of_a_condition_have_its_settings_under_their_places() -> None:
    config = resolved()

    def of(condition: str, **changes: Any) -> dict[str, Any]:
        return evaluation(resolved(controls=changes) if changes else config, *PLACE, f"shared_t1/{condition}")

    found = of("kv_permutation-2")
    assert {key: value for key, value in found.items() if key.startswith("controls.")} == {
        "controls.seed": "shared-t1",
        "controls.conditions.kv_permutation-2.turns": 2,
        "controls.conditions.kv_permutation-2.first_turn": "t1",
        "controls.conditions.kv_permutation-2.controller": "stair",
        "controls.conditions.kv_permutation-2.variant": "differential",
        "controls.conditions.kv_permutation-2.randomised": "values",
        "controls.conditions.kv_permutation-2.seed": 2,
    }
    assert len({digest_of(of(condition)) for condition in config.conditions_of("shared_t1")}) == 16
    assert of("stair") == of("stair", shards=9, conditions={"stair": {"label": "Another"}})
    assert of("stair") != of("stair", seed="another")


def test_the_study_changes_no_params_of_the_evaluation() -> None:
    config, without = resolved(), resolved(controls=None)
    for condition in config.conditions:
        for place in config.evaluated(condition):
            assert evaluation(config, *place, condition) == evaluation(without, *place, condition)
