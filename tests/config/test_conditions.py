"""Conditions are data: families are given by seeds or prefixes, and a read is specified by typed fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stair.config.model import Config
from stair.config.resolve import ConfigError, dump, resolve, validate
from stair.core import ConditionName, ReadSpecification
from stair.records.keys import digest_of
from stair.stages.evaluation.settings import evaluation

ROOT = Path(__file__).parents[2]
READS = {"first_turn": "vanilla", "controller": "stair"}
FAMILIES: dict[str, Any] = {
    "random_reflector": {"label": "Random-reflector", **READS, "randomised": "reflector", "seeds": [1, 2]},
    "kv_permutation": {"label": "K-V pairing", **READS, "randomised": "values", "seeds": [7]},
    "stair_prefix": {"label": "STAIR", **READS, "prefixes": [2048, 100]},
    "direct_read": {"label": "Direct", **READS, "variant": "direct"},
}


def with_conditions(**conditions: Any) -> Config:
    return resolve(ROOT, {"run": "paper", "conditions": conditions})


@pytest.fixture(scope="module")
def config() -> Config:
    return with_conditions(**FAMILIES)


def test_a_family_becomes_its_members(config: Config) -> None:
    members = {
        key: (item.label, item.name(key)) for key, item in config.conditions.items() if item.controller == "stair"
    }
    assert members == {
        "stair": ("STAIR", ConditionName("stair")),
        "stair_null": ("STAIR times zero", ConditionName("stair_null")),
        "random_reflector-1": ("Random-reflector seed 1", ConditionName("random_reflector", seed=1)),
        "random_reflector-2": ("Random-reflector seed 2", ConditionName("random_reflector", seed=2)),
        "kv_permutation-7": ("K-V pairing seed 7", ConditionName("kv_permutation", seed=7)),
        "stair_prefix-2048": ("STAIR 2K", ConditionName("stair_prefix", prefix=2048)),
        "stair_prefix-100": ("STAIR 100", ConditionName("stair_prefix", prefix=100)),
        "direct_read": ("Direct", ConditionName("direct_read")),
    }
    assert all(name.key == key for key, (_, name) in members.items())
    # The resolved configuration names every member, and comes back as it was.
    assert validate(yaml.safe_load(dump(config)), "the resolved configuration") == config


def test_fields_specify_the_read(config: Config) -> None:
    assert {key: config.read_specification(key) for key in config.conditions if config.reads_bank(key)} == {
        "stair": ReadSpecification(),
        "lora_stair": ReadSpecification(),
        "stair_null": ReadSpecification("zero"),
        "random_reflector-1": ReadSpecification(),
        "random_reflector-2": ReadSpecification(),
        "kv_permutation-7": ReadSpecification(permutation_seed=7),
        "stair_prefix-2048": ReadSpecification(limit=2048),
        "stair_prefix-100": ReadSpecification(limit=100),
        "direct_read": ReadSpecification("direct"),
    }


def test_an_intervention_is_part_of_its_rules_settings_and_of_no_other(config: Config) -> None:
    plain = resolve(ROOT, {"run": "paper"})
    where = ("qwen3.5-4b", "aime2025")
    for condition in plain.conditions:
        if where in plain.evaluated(condition):
            assert evaluation(plain, *where, condition) == evaluation(config, *where, condition)
    here = [key for key in config.conditions if where in config.evaluated(key)]
    assert len({digest_of(evaluation(config, *where, key)) for key in here}) == len(here)
    ours = evaluation(config, *where, "kv_permutation-7")
    assert {key: value for key, value in ours.items() if key.endswith(("seed", "randomised", "prefix"))} == {
        "evaluation.seed": "evaluation",
        "conditions.kv_permutation-7.randomised": "values",
        "conditions.kv_permutation-7.seed": 7,
    }


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ({**READS, "seeds": [1], "prefixes": [2]}, "given by seeds and by prefixes"),
        ({**READS, "seeds": [1]}, "seed needs `randomised`"),
        ({**READS, "randomised": "values"}, "randomised needs a seed"),
        ({**READS, "prefixes": [0]}, "greater than or equal to 1"),
        ({"first_turn": "vanilla", "prefix": 5}, "sets prefix and reads no bank"),
        ({**READS, "randomised": "values", "seeds": [1, 1]}, "conditions.odd.seeds lists a number twice"),
        ({**READS, "variant": "reflected"}, "'differential', 'direct' or 'zero'"),
        ({**READS, "variant": "direct", "label": "STAIR"}, r"odd\.label is that of stair too"),
    ],
)
def test_a_family_that_cannot_be_is_refused(entry: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        with_conditions(odd={"label": "Odd", **entry})


def test_smoothing_that_no_read_takes_is_refused() -> None:
    with pytest.raises(
        ConfigError, match=r"'controllers\.stair\.smoothing': input should be greater than or equal to 0"
    ):
        resolve(ROOT, {"run": "paper", "controllers": {"stair": {"smoothing": 1e-13}}})


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("random_reflector-3", ConditionName("random_reflector", seed=3)),
        ("kv_permutation-0", ConditionName("kv_permutation", seed=0)),
        ("stair_prefix-2048", ConditionName("stair_prefix", prefix=2048)),
        ("stair", ConditionName("stair")),
        ("random_reflector", ConditionName("random_reflector")),
        ("native-2", ConditionName("native-2")),
    ],
)
def test_a_key_names_a_condition_and_back(key: str, name: ConditionName) -> None:
    assert ConditionName.of_key(key) == name
    assert name.key == key


def test_what_differs_by_seed_alone_is_averaged() -> None:
    names = [ConditionName("f", seed=1), ConditionName("f", seed=2), ConditionName("p", prefix=8), ConditionName("p")]
    assert [name.averaged for name in names] == ["f", "f", "p-8", "p"]
