"""The paper's 17 tables and 7 figures, in its order, with its labels."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.resolve import resolve
from stair.paper.labels import Labels
from stair.paper.latex import escaped
from stair.paper.paper_order import figure_caption, shown

ROOT = Path(__file__).parents[2]


def test_the_papers_run_has_all_in_the_papers_order() -> None:
    config = resolve(ROOT, {"run": "paper"})
    parts = shown(config)
    paper = [(each.kind, each.name) for each in parts if each.in_paper]
    assert paper == [
        ("figure", "overview"),
        ("figure", "historical_computation"),
        ("table", "history_correctness_summary"),
        ("figure", "method"),
        ("table", "continuous_summary"),
        ("table", "shared_t1"),
        ("table", "lora_comparison"),
        ("table", "replay_design"),
        ("figure", "attention"),
        ("figure", "neighborhood"),
        ("table", "native_accuracy"),
        ("table", "history_qwen3-4b-instruct"),
        ("table", "history_qwen3.5-4b"),
        ("table", "history_qwen3.5-9b"),
        ("figure", "read_prediction"),
        ("figure", "training_scope"),
        ("table", "controller_configuration"),
        ("table", "evaluation_decoding"),
        ("table", "bank_prefix_accuracy"),
        ("table", "bank_runtime"),
        ("table", "turns_qwen3-4b-instruct"),
        ("table", "lora_turns"),
        ("table", "turns_qwen3.5-4b"),
        ("table", "turns_qwen3.5-9b"),
    ]
    assert sum(kind == "table" for kind, _ in paper) == 17
    assert sum(kind == "figure" for kind, _ in paper) == 7
    assert [each.in_paper for each in parts] == sorted((each.in_paper for each in parts), reverse=True)


def test_every_figure_of_every_run_has_a_caption_that_latex_can_set() -> None:
    for run in ("paper", "tiny", "smoke", "shapes"):
        config = resolve(ROOT, {"run": run})
        for each in shown(config):
            if each.kind == "figure":
                caption = figure_caption(each.name, Labels.of(config))
                assert caption.endswith(".")
                assert escaped(caption).isascii()


def test_a_figure_without_a_caption_is_an_error_that_names_the_place() -> None:
    with pytest.raises(
        ValueError, match=r"figure mine has no caption; add one to _FIGURES in stair/paper/paper_order\.py"
    ):
        figure_caption("mine", Labels.of(resolve(ROOT, {"run": "smoke"})))


def test_a_training_figure_is_a_models() -> None:
    config = resolve(ROOT, {"run": "tiny"})
    labels = Labels.of(config)
    names = [each.name for each in shown(config) if each.kind == "figure"]
    curves = [
        figure_caption(name, labels) for name in names if figure_caption(name, labels).startswith("Training curves")
    ]
    assert curves == [
        f"Training curves of {labels.model(model)}. Pale lines: each update; strong lines: their running mean."
        for model in config.models
    ]
    assert figure_caption("training_scope", labels).startswith("Training. (a) The read acts on the current prompt")


def test_a_run_that_only_measures_has_its_tables() -> None:
    config = resolve(ROOT, {"run": "shapes"})
    names = {each.name: each.in_paper for each in shown(config)}
    assert names["bank_runtime"] and not names["in_text"]
