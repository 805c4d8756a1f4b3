"""`select` keeps entries, and leaves out everything that needs another one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.config.model import Config
from stair.config.resolve import ConfigError, resolve

ROOT = Path(__file__).parents[2]
INSTRUCT, HYBRID, LARGE = "qwen3-4b-instruct", "qwen3.5-4b", "qwen3.5-9b"


def paper(*, select: dict[str, Any], **changes: Any) -> Config:
    return resolve(ROOT, {"run": "paper", "select": select, **changes})


def overlays(folder: Path, *texts: str) -> Config:
    """The run of overlays, each of which extends the one before."""
    above = ""
    for number, text in enumerate(texts):
        path = folder / f"overlay{number}.yaml"
        path.write_text(above + text, encoding="utf-8")
        above = f"extends: {path}\n"
    return resolve(ROOT, {"run": str(path)})


def test_the_default_keeps_everything() -> None:
    assert paper(select={"models": None}) == resolve(ROOT, {"run": "paper"})


def test_what_is_for_left_out_models_goes() -> None:
    config = paper(select={"models": [LARGE, INSTRUCT]})
    assert list(config.models) == [INSTRUCT, LARGE], "in the order of config.yaml"
    assert list(config.controllers) == ["stair", "lora", "lora_stair"]
    assert (config.runtime, config.controls) == (None, None), "they study another model"
    assert (config.replay is not None, config.overview.models) == (True, (INSTRUCT,))
    assert config.training_pool.exclude_more == {LARGE: ("amc23",)}
    config = paper(select={"models": [HYBRID]}, transitions={"model": HYBRID})
    assert (list(config.controllers), config.replay) == (["stair", "bank_free"], None)
    assert list(config.conditions) == ["vanilla", "native", "stair", "native_again", "stair_null"]
    assert config.training_pool.exclude_more == {}


def test_what_is_for_left_out_benchmarks_goes() -> None:
    both = {"models": [INSTRUCT, HYBRID]}
    config = paper(select={"benchmarks": ["math500", "gpqa_diamond"]}, replay=both)
    assert list(config.conditions) == ["vanilla", "native", "stair"], "the others are run on AIME alone"
    assert config.training_pool.exclude_benchmarks == ("math500", "gpqa_diamond")
    assert config.training_pool.exclude_more == {LARGE: ()}
    assert [list(model.evaluation_changes) for model in config.models.values()] == [
        [],
        ["gpqa_diamond"],
        ["gpqa_diamond"],
    ]
    assert (config.controls, config.replay is not None, config.runtime is not None) == (None, True, True)
    config = paper(select={"benchmarks": ["amc23"]}, transitions={"benchmark": "amc23"})
    assert (config.replay, config.runtime) == (None, None)


def test_what_needs_a_left_out_controller_or_condition_goes() -> None:
    config = paper(select={"controllers": ["stair"]})
    assert list(config.conditions) == ["vanilla", "native", "stair", "native_again", "stair_null"]
    assert config.controls is not None and "bank_free" not in config.controls.conditions
    config = paper(select={"controllers": ["bank_free"]})
    assert (list(config.conditions), config.runtime) == (["vanilla", "native", "native_again"], None)
    config = paper(select={"conditions": ["vanilla", "stair"]})
    assert (config.replay, config.runtime) == (None, None), "their histories are Native's"
    config = paper(select={"controls": ["t1", "stair", "stair_prefix"]})
    assert config.controls is not None
    assert list(config.controls.conditions) == ["t1", "stair", *(f"stair_prefix-{n}" for n in (2048, 8192, 32768))]


def test_a_synthetic_study_needs_no_saved_turns() -> None:
    shown = {"overview": {"models": [HYBRID]}, "transitions": {"model": HYBRID, "benchmark": "amc23"}}
    config = resolve(ROOT, {"run": "shapes", "select": {"models": [HYBRID], "benchmarks": ["amc23"]}, **shown})
    assert config.runtime is not None and config.runtime.models == (HYBRID,)


@pytest.mark.parametrize(
    ("select", "changes", "message"),
    [
        ({"models": ["gpt"]}, {}, "select.models names the model 'gpt', which is not configured"),
        ({"conditions": ["shared_t1/native"]}, {}, "; select.controls: [native] names that of the study)"),
        ({"model": ["gpt"]}, {}, "unknown key 'select.model' (did you mean 'models'?)"),
        ({"models": INSTRUCT}, {}, "'select.models': must be a list"),
        ({"models": []}, {}, "'models': "),
        ({"controls": ["native"]}, {}, "conditions lacks 't1'"),
        ({"controls": ["t1", "random_reflector-1"]}, {}, "the condition 'random_reflector-1', which is not configured"),
        (
            {"models": [HYBRID], "controllers": ["stair", "lora"]},
            {},
            f"select.controllers names 'lora', whose key models names nothing that is selected (['{INSTRUCT}'])",
        ),
        (
            {"conditions": ["native", "stair"]},
            {},
            "select.conditions names 'native', whose key first_turn names nothing that is selected ('vanilla')",
        ),
        # A single name, and the panels of a figure, are the run's to choose.
        ({"models": [HYBRID]}, {}, f"transitions.model names the model '{INSTRUCT}'"),
        ({"models": [LARGE]}, {"transitions": {"model": LARGE}}, f"overview.models names the model '{INSTRUCT}'"),
        # A name that never was configured is a mistake.
        ({"models": [INSTRUCT]}, {"replay": {"models": ["gpt"]}}, "replay.models names the model 'gpt'"),
        ({"benchmarks": ["math500"]}, {"training_pool": {"exclude_benchmarks": ["gsm8k"]}}, "the benchmark 'gsm8k'"),
    ],
)
def test_a_selection_that_cannot_be_is_one_line(select: dict[str, Any], changes: Any, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        paper(select=select, **changes)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"models": {LARGE: None}},
            f"models.{LARGE} is null; to leave an entry out, name those that stay: select: {{models",
        ),
        ({"controls": {"conditions": {"native": None}}}, "controls.conditions.native is null; .*: {controls: "),
        (
            {"controls": {"conditions": {"nativ": {"label": "A"}}}},
            "controls.conditions.nativ has label alone.* mean 'native'",
        ),
        ({"controllers": {"star": {"seed": "b"}}}, "controllers.star has seed alone.* mean 'stair'"),
    ],
)
def test_null_and_a_misspelt_name_are_no_entries(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(ROOT, {"run": "paper", **changes})


def test_an_overlay_adds_to_the_selection_of_the_one_that_it_extends(tmp_path: Path) -> None:
    lower = "extends: tiny\nselect: {conditions: [vanilla, native, stair]}\nconditions: {lora: {label: Adapter}}\n"
    assert list(overlays(tmp_path, lower).conditions) == ["vanilla", "native", "stair"]
    upper = "conditions: {mine: {label: Mine, first_turn: vanilla}, lora: {label: Again}}\n"
    assert list(overlays(tmp_path, lower, upper).conditions) == ["vanilla", "native", "stair", "mine"]
    again = "select: {conditions: [vanilla, native, lora]}\n"
    config = overlays(tmp_path, lower, upper, again)
    assert (list(config.conditions), config.conditions["lora"].label) == (["vanilla", "native", "lora"], "Again")
    assert len(overlays(tmp_path, lower, upper, "select: {conditions: null}\n").conditions) == 8


def test_an_added_entry_that_cannot_stay_is_an_error(tmp_path: Path) -> None:
    lower = "extends: tiny\nselect: {controllers: [bank_free], conditions: [vanilla, native]}\n"
    with pytest.raises(ConfigError, match="'mine', whose key controller names nothing that is selected"):
        overlays(tmp_path, lower, "conditions: {mine: {label: Mine, first_turn: vanilla, controller: stair}}\n")
