"""What jobs ask a scheduler for, and the refusal of jobs that no partition can run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.config.site import Partition, Site
from stair.models.parameters import total_parameters
from stair.models.published import CONFIGS
from stair.pipeline.resources import REQUESTED, check_fits, request, resources
from stair.pipeline.run import Run
from tests.listed import job, listed

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
    place = {"model": "qwen3.5-9b", "benchmark": "math500", "shard": "0", "of": "4"}
    native, stair = (
        resources(run, "evaluation_shard", place | {"condition": condition}, site=SITE)
        for condition in ("native", "stair")
    )
    assert native.mem_mb > 17.9e9 / 2**20, "two bytes a parameter"
    banks = (
        16 * 3 * 81_920 * 3 * 4 * 256 * 2 * 2 / 2**20
    )  # rows, turns, tokens, layers, heads, channels, keys and values, bytes
    assert stair.mem_mb - native.mem_mb == pytest.approx(banks, abs=1)
    assert (native.gpus, native.minutes) == (1, GPU.minutes)
    seal = resources(run, "seal_evaluation", place | {"condition": "stair"}, site=SITE)
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
        place = {"model": "qwen3-4b-instruct", "benchmark": "math500", "condition": "stair"}
        asked.append(resources(run, "evaluation_shard", place, site=SITE))
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


@pytest.mark.parametrize(
    ("partition", "said"),
    [
        ({"gpus": 1}, "train_controller qwen3-4b-instruct stair asks for 2 GPUs, and partitions.*.gpus is at most 1"),
        ({"gpus": 4, "mem_mb": 9_000}, "MB, and partitions.*.mem_mb with its GPUs is at most 9000"),
        ({"gpus": 4, "minutes": 30}, "minutes, and partitions.*.minutes is at most 30"),
    ],
)
def test_a_job_that_fits_no_partition_is_refused(partition: dict[str, int], said: str) -> None:
    run = run_of("paper", training={"workers": 2})
    site = Site(partitions={"only": Partition(**({"minutes": 1440, "mem_mb": 500_000} | partition))})
    training = job("train_controller", model="qwen3-4b-instruct", controller="stair")
    with pytest.raises(ConfigError) as refused:
        check_fits(run, site, [job("check"), training, job("score_condition")])
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_run_that_fits_is_accepted() -> None:
    check_fits(run_of("paper"), SITE, listed("paper"))


def test_a_job_goes_to_its_partition_and_a_further_attempt_asks_for_more_memory() -> None:
    run, training = run_of("paper"), {"model": "qwen3-4b-instruct", "controller": "stair"}
    first, third = (request(run, "train_controller", training, attempt=attempt, site=SITE) for attempt in (1, 3))
    assert tuple(first) == REQUESTED
    assert (first["gpu"], first["slurm_partition"], first["gpu_model"]) == (1, "gpu", "h100")
    assert first["slurm_extra"] == "--signal=USR1@300" and third["mem_mb"] == 3 * int(first["mem_mb"] or 0)
    check = request(run, "check", {}, attempt=9, site=SITE)
    assert (check["slurm_partition"], check["gpu_model"], check["slurm_extra"]) == ("cpu", None, None)
    here = request(run, "train_controller", training)
    assert here["gpu"] == 1 and not any(value for key, value in here.items() if "slurm" in key)
