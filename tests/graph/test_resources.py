"""What jobs ask a scheduler for, and the refusal of jobs that no partition can run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from stair.backbones.parameters import total_parameters
from stair.backbones.published import CONFIGS
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.config.site import Partition, Site
from stair.graph.outputs import OUTPUTS
from stair.graph.resources import check_fits, every_request, resources
from stair.graph.run import Run

ROOT = Path(__file__).parents[2]
GPU = Partition(minutes=2880, mem_mb=500_000, gpus=8, gpu_model="h100")
SITE = Site(partitions={"gpu": GPU, "cpu": Partition(minutes=4320, mem_mb=200_000)})


def run_of(name: str, **changes: Any) -> Run:
    config = resolve(ROOT, {"run": name, **changes})
    return Run(config, RunPaths.of(config))


@pytest.mark.parametrize("model", CONFIGS)
def test_the_parameters_of_a_backbone_are_nearly_those_of_its_class(model: str) -> None:
    with torch.device("meta"):
        real = AutoModelForCausalLM.from_config(AutoConfig.for_model(**CONFIGS[model]))
    assert total_parameters(CONFIGS[model]) == pytest.approx(real.num_parameters(), rel=0.01)


def test_requests_follow_the_model_the_bank_and_the_sites_limit() -> None:
    run = run_of("paper")
    responses = OUTPUTS["responses"]
    native, stair = (resources(run, responses, "qwen3.5-9b", "math500", c, site=SITE) for c in ("native", "stair"))
    assert native.mem_mb > 17.9e9 / 2**20, "two bytes a parameter"
    banks = (
        16 * 3 * 81_920 * 3 * 4 * 256 * 2 * 2 / 2**20
    )  # rows, turns, tokens, layers, heads, channels, keys and values, bytes
    assert stair.mem_mb - native.mem_mb == pytest.approx(banks, abs=1)
    assert (native.gpus, native.minutes) == (1, GPU.minutes)
    seal = resources(run, responses, "qwen3.5-9b", "math500", "stair", seals=True, site=SITE)
    assert seal.gpus == 0 and seal.mem_mb < native.mem_mb and seal.minutes < native.minutes
    assert SITE.partition_for(seal.gpus, seal.mem_mb, seal.minutes) == "cpu"
    assert SITE.partition_for(native.gpus, native.mem_mb, native.minutes) == "gpu"


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
        asked.append(resources(run, OUTPUTS["responses"], "qwen3-4b-instruct", "math500", "stair", site=SITE))
    assert asked[0] == asked[1] and asked[0].mem_mb > 2 * 8.03e9 / 2**20


def test_a_runtime_study_on_a_gpu_asks_for_the_page_locked_copy_of_its_longest_bank() -> None:
    there, here = (
        resources(run, OUTPUTS["runtime"], "qwen3.5-9b").mem_mb
        for run in (run_of("shapes"), run_of("shapes", transformers={"device": "cpu"}))
    )
    longest = 524_288 * 3 * 4 * 256 * 2 * 2 / 2**20  # entries, layers, heads, channels, keys and values, bytes
    assert here > longest
    assert there - here > 2 * longest


def test_a_tiny_run_asks_for_little() -> None:
    assert max(asked.mem_mb for _, asked in every_request(run_of("smoke"))) < 2_000
    assert not any(asked.gpus for _, asked in every_request(run_of("smoke", transformers={"device": "cpu"})))


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        ({"gpus": 1}, "controller qwen3-4b-instruct stair asks for 2 GPUs, and partitions.*.gpus is at most 1"),
        ({"gpus": 4, "mem_mb": 9_000}, "MB, and partitions.*.mem_mb with its GPUs is at most 9000"),
        ({"gpus": 4, "minutes": 30}, "minutes, and partitions.*.minutes is at most 30"),
    ],
)
def test_a_job_that_fits_no_partition_is_refused(partition: dict[str, int], said: str) -> None:
    run = run_of("paper", training={"workers": 2})
    site = Site(partitions={"only": Partition(**({"minutes": 1440, "mem_mb": 500_000} | partition))})
    with pytest.raises(ConfigError) as refused:
        check_fits(run, site)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_run_that_fits_is_accepted() -> None:
    check_fits(run_of("paper"), SITE)
