"""What the pipeline knows of an engine before it is loaded is said once."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.model import Config
from stair.config.resolve import resolve
from stair.engines.choice import engine_identity

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def config() -> Config:
    return resolve(ROOT, {"run": "paper", "sglang": {"arguments": ["--quantization", "fp8"], "tensor_parallel": 2}})


def test_the_part_of_response_keys(config: Config) -> None:
    sglang = engine_identity(config, "sglang", "bfloat16").as_key()
    assert sglang == {
        "name": "sglang",
        "version": config.sglang.version,
        "attention": config.sglang.attention,
        "dtype": "bfloat16",
        "arguments": "--quantization fp8 --tensor-parallel-size 2",
    }
    transformers = engine_identity(config, "transformers", "float32").as_key()
    assert transformers.keys() == {"name", "version", "attention", "dtype"}
    third = config.model_copy(
        update={"transformers": config.transformers.model_copy(update={"attention": "flash_attention_3"})}
    )
    assert engine_identity(third, "transformers", "bfloat16").as_key()["attention"] == "flash_attention_3"


def test_each_engine_draws_by_its_own_law(config: Config) -> None:
    assert config.transformers.truncation == "sequential"
    assert config.sglang.truncation == "joint"
