"""The GPUs and the host memory of jobs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.models.parameters import total_parameters
from stair.models.published import CONFIGS
from stair.pipeline.resources import resources
from stair.pipeline.run import Run
from tests.listed import listed

ROOT = Path(__file__).parents[2]


def run_of(name: str, **changes: Any) -> Run:
    config = resolve(ROOT, {"run": name, **changes})
    return Run(config, RunPaths.of(config))


@pytest.mark.parametrize("model", CONFIGS)
def test_the_parameters_of_a_backbone_are_nearly_those_of_its_class(model: str) -> None:
    with torch.device("meta"):
        real = AutoModelForCausalLM.from_config(AutoConfig.for_model(**CONFIGS[model]))
    assert total_parameters(CONFIGS[model]) == pytest.approx(real.num_parameters(), rel=0.01)


def test_memory_follows_the_model_and_the_bank() -> None:
    run = run_of("paper")
    place = {"model": "qwen3.5-9b", "benchmark": "math500", "shard": "0", "of": "4"}
    native, stair = (
        resources(run, "evaluation_shard", place | {"condition": condition}) for condition in ("native", "stair")
    )
    assert native.mem_mb > 17.9e9 / 2**20, "two bytes a parameter"
    banks = (
        16 * 3 * 81_920 * 3 * 4 * 256 * 2 * 2 / 2**20
    )  # rows, turns, tokens, layers, heads, channels, keys and values, bytes
    assert stair.mem_mb - native.mem_mb == pytest.approx(banks, abs=1)
    assert native.gpus == 1
    seal = resources(run, "seal_evaluation", place | {"condition": "stair"})
    assert seal.gpus == 0 and seal.mem_mb < native.mem_mb


def test_a_model_may_leave_the_head_size_out(tmp_path: Path) -> None:
    """As the published config.json of Llama 3 does."""
    content = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "intermediate_size": 14_336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128_256,
        "max_position_embeddings": 131_072,
        "tie_word_embeddings": False,
    }
    asked = []
    for number, more in enumerate(({}, {"head_dim": 128})):
        (folder := tmp_path / str(number)).mkdir()
        (folder / "config.json").write_text(json.dumps(content | more))
        run = run_of("paper", models={"qwen3-4b-instruct": {"path": str(folder), "repository": None, "revision": None}})
        place = {"model": "qwen3-4b-instruct", "benchmark": "math500", "condition": "stair"}
        asked.append(resources(run, "evaluation_shard", place))
    assert asked[0] == asked[1] and asked[0].mem_mb > 2 * 8.03e9 / 2**20


def test_a_runtime_study_on_a_gpu_asks_for_the_page_locked_copy_of_its_longest_bank() -> None:
    there, here = (
        resources(run, "measure_runtime", {"model": "qwen3.5-9b"}).mem_mb
        for run in (run_of("shapes"), run_of("shapes", transformers={"device": "cpu"}))
    )
    longest = 524_288 * 3 * 4 * 256 * 2 * 2 / 2**20  # entries, layers, heads, channels, keys and values, bytes
    assert here > longest
    assert there - here > 2 * longest


def test_a_tiny_run_asks_for_little() -> None:
    for run in (run_of("smoke"), run_of("smoke", transformers={"device": "cpu"})):
        asked = [resources(run, job.rule, job.wildcards) for job in listed("smoke")]
        assert max(each.mem_mb for each in asked) < 2_000
    assert not any(each.gpus for each in asked)
