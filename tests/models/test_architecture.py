"""Architecture facts from the content of a config.json, and the errors of a wrong one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding, apply_rotary_pos_emb

from stair.method import Reflector
from stair.method.rope import Rotary
from stair.models.architecture import describe

QWEN3_4B = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "hidden_size": 2560,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
    "rope_theta": 5000000,
    "rope_scaling": None,
    "tie_word_embeddings": True,
}
QWEN35_TEXT = {
    "model_type": "qwen3_5_text",
    "num_hidden_layers": 32,
    "hidden_size": 2560,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "full_attention_interval": 4,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 10000000,
        "partial_rotary_factor": 0.25,
        "mrope_section": [11, 11, 10],
    },
}
QWEN35 = {"model_type": "qwen3_5", "tie_word_embeddings": True, "text_config": QWEN35_TEXT, "vision_config": {}}


def test_qwen3() -> None:
    found = describe(QWEN3_4B)
    assert (found.name, found.layers, found.query_heads, found.kv_heads, found.head_dim) == ("qwen3", 36, 32, 8, 128)
    assert (found.rotary_dim, found.rope_theta, found.gated, found.tied_embeddings) == (128, 5e6, False, True)
    assert (found.hidden_size, found.vocabulary, found.context) == (2560, 151936, 262144)
    assert found.full_attention_layers == tuple(range(36))


@pytest.mark.parametrize("config", [QWEN35_TEXT, QWEN35], ids=["text", "multimodal"])
def test_qwen3_5(config: dict) -> None:
    found = describe(config)
    assert (found.name, found.layers, found.query_heads, found.kv_heads, found.head_dim) == ("qwen3_5", 32, 16, 4, 256)
    assert (found.rotary_dim, found.rope_theta, found.gated) == (64, 1e7, True)
    assert found.tied_embeddings == (config is QWEN35)
    assert found.full_attention_layers == (3, 7, 11, 15, 19, 23, 27, 31)
    found.check_controlled_layers([3, 11, 19])


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([3, 4], "layer 4 is not a full-attention"),
        ([32], "0 to 31"),
        ([-1], "exist"),
        ([3, 3], "twice"),
        ([], "no controlled"),
    ],
)
def test_layers_that_cannot_be_controlled(layers: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        describe(QWEN35).check_controlled_layers(layers)
    assert "\n" not in str(caught.value)


def test_what_is_unknown_is_named() -> None:
    with pytest.raises(ValueError, match=r"'gpt2'.*llama, qwen3, qwen3_5_text, qwen3_5"):
        describe({**QWEN3_4B, "model_type": "gpt2"})
    with pytest.raises(ValueError, match="'hidden_size'"):
        describe({key: value for key, value in QWEN3_4B.items() if key != "hidden_size"})
    with pytest.raises(ValueError, match="'yarn' is not supported"):
        describe({**QWEN3_4B, "rope_scaling": {"rope_type": "yarn", "factor": 4.0}})


def test_the_facts_need_no_torch() -> None:
    code = "import sys, stair.models.architecture; print({'torch', 'transformers'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"


LLAMA = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000.0,
    "rope_scaling": {"rope_type": "llama3", "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip


def test_llama_and_its_scaled_rope() -> None:
    found = describe(LLAMA)
    assert (found.name, found.head_dim, found.rotary_dim, found.gated) == ("llama", 64, 64, False)
    assert found.full_attention_layers == tuple(range(16))
    rope = LlamaRotaryEmbedding(LlamaConfig(**LLAMA))
    states = torch.randn(1, 2, 3, 64, generator=torch.Generator().manual_seed(0))
    positions = torch.tensor([0, 9, 5000])
    cos, sin = rope(states, positions[None])
    expected, _ = apply_rotary_pos_emb(states, states, cos, sin)
    turned = Rotary(found.rotary_dim, found.rope_theta, found.rope_scaling)(states, positions)
    torch.testing.assert_close(turned, expected, atol=2e-3, rtol=0)
    unscaled = Rotary(found.rotary_dim, found.rope_theta)(states, positions)
    assert (unscaled - expected).abs().max() > 0.1


def test_a_scaled_rope_is_part_of_what_a_controller_belongs_to(tmp_path: Path) -> None:
    scaled, plain = describe(LLAMA), describe({**LLAMA, "rope_scaling": None})
    Reflector.draw((1,), 32, 64, seed=0).save(tmp_path / "c", architecture=scaled)
    assert Reflector.load(tmp_path / "c", scaled).configuration is not None
    with pytest.raises(ValueError, match=r"belongs to a model with rope_scaling .*32"):
        Reflector.load(tmp_path / "c", plain)
