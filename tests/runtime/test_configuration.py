"""The study's keys: the embedded runs', runs without a study, and configurations that are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from stair.config.resolve import ConfigError, dump, resolve, validate
from stair.paper.exhibits import exhibits
from stair.stages.runtime.settings import runtime as runtime_settings
from tests.listed import listed

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("run", "model"), [("paper", "qwen3.5-4b"), ("tiny", "qwen3.5-4b"), ("smoke", "qwen3-4b-instruct")]
)
def test_the_models_of_the_runs(run: str, model: str) -> None:
    found = resolve(ROOT, {"run": run}).runtime
    assert found is not None
    assert found.models == (model,)


def test_the_papers_settings() -> None:
    paper = resolve(ROOT, {"run": "paper"}).runtime
    assert paper is not None
    assert (paper.histories, paper.longer_than, paper.prefixes) == (16, 32_768, (2048, 8192, 32_768))
    assert (paper.tokens, paper.warmups, paper.repetitions) == (256, 1, 3)


def test_a_run_that_was_resolved_before_the_study_existed_is_still_read() -> None:
    values: dict[str, Any] = yaml.safe_load(dump(resolve(ROOT, {"run": "paper"})))
    del values["runtime"]
    assert validate(values, "an older run").runtime is None


@pytest.mark.parametrize(
    "removed",
    [
        {"runtime": None},
        {"select": {"benchmarks": ["aime2025", "amc23"]}, "transitions": {"benchmark": "amc23"}},
        {"select": {"models": ["qwen3-4b-instruct"]}},
        {"select": {"controllers": ["bank_free"]}},
    ],
    ids=["null", "benchmark", "model", "controller"],
)  # fmt: skip
def test_without_its_model_benchmark_or_controller_there_is_no_study(removed: dict[str, Any]) -> None:
    config = resolve(ROOT, {"run": "paper", **removed})
    assert config.runtime is None
    assert "bank_runtime" not in [each.name for each in exhibits(config)]


def test_shapes_only_measures() -> None:
    config = resolve(ROOT, {"run": "shapes"})
    assert config.only_measures
    assert not [each for each in exhibits(config) if each.rows is not None]
    jobs = listed("shapes")
    assert {job.rule for job in jobs} == {"measure_runtime", "table", "provenance", "report"}
    assert {job.wildcards["table"] for job in jobs if job.rule == "table"} == {"bank_runtime", "in_text"}
    assert not any(job.inputs for job in jobs if job.rule == "measure_runtime"), "the weights are random"
    assert not any(resolve(ROOT, {"run": name}).only_measures for name in ("paper", "tiny", "smoke"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"models": ["qwen4"]}, "runtime.models names the model 'qwen4', which is not configured"),
        ({"models": []}, "at least 1 item"),
        ({"benchmark": "gsm8k"}, "runtime.benchmark names the benchmark 'gsm8k'"),
        ({"condition": "vanilla"}, "runtime.condition: 'vanilla' has one turn, and a T2 prompt needs two"),
        ({"condition": "zero"}, "runtime.condition names the condition 'zero'"),
        ({"controller": "bank_free"}, "'bank_free' is of kind 'bank_free'; expected a controller of kind 'stair'"),
        ({"controller": "lora_stair"}, "'lora_stair' is of kind 'lora_stair'; expected a controller of kind 'stair'"),
        ({"condition": "lora"}, "'lora' is not run for qwen3.5-4b on math500, so there are no histories"),
        ({"prefixes": [8192, 2048]}, r"prefixes must ascend without repeats, not \[8192, 2048\]"),
        ({"prefixes": [0]}, "greater than or equal to 1"),
        ({"repetitions": 0}, "greater than or equal to 1"),
        ({"tokens": 0}, "greater than or equal to 1"),
        ({"histories": 0}, "greater than or equal to 1"),
        ({"synthetic": {"prompt_tokens": 8, "question_tokens": 4}}, "'runtime.synthetic.entries' is missing"),
        (
            {"synthetic": {"entries": 10, "prompt_tokens": 8, "question_tokens": 9}},
            "question_tokens is 9, more than the 8 prompt_tokens",
        ),
    ],
    ids=lambda item: "" if isinstance(item, str) else "-".join(item),
)
def test_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(ROOT, {"run": "paper", "runtime": changes})


def test_a_run_needs_conditions_unless_it_only_measures() -> None:
    with pytest.raises(ConfigError, match="conditions is empty; name one"):
        resolve(ROOT, {"run": "paper", "select": {"conditions": []}})
    # The study with a shared T1 history needs data and responses.
    with pytest.raises(ConfigError, match="conditions is empty; name one, or remove all controllers and the section"):
        resolve(
            ROOT,
            {
                "run": "shapes",
                "controls": yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))["controls"],
            },
        )


def test_settings_have_what_a_measurement_depends_on() -> None:
    def of(**changes: Any) -> dict[str, Any]:
        return runtime_settings(resolve(ROOT, {"run": "paper", **changes}), "qwen3.5-4b")

    paper = of()
    for changes in (
        {"runtime": {"tokens": 128}},
        {"transformers": {"prefill_chunk": 4096}},
        {"models": {"qwen3.5-4b": {"dtype": "float32"}}},
        {"controllers": {"stair": {"layers": [3, 11]}}},
    ):
        assert of(**changes) != paper, changes
    for changes in (
        {"models": {"qwen3.5-4b": {"label": "Another label"}}},
        {"evaluation": {"shards": 7}},
        {"runtime": {"models": ["qwen3.5-4b", "qwen3.5-9b"]}},
    ):
        assert of(**changes) == paper, changes
