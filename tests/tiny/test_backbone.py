"""Training a small backbone: deterministic, an ordinary Hugging Face folder, a loss that falls."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from stair.config.backbones import TinyBackbone
from stair.tiny.backbone_training import BackboneSpec, train_backbone
from stair.tiny.small_architectures import build, short_chunks
from tests.tiny.cases import PROMPTS

FILES = {
    "chat_template.jinja",
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "training_curve.csv",
}


def tiny(architecture: str, **changes: Any) -> TinyBackbone:
    sizes = dict(layers=12, hidden_size=16, heads=2, kv_heads=2, head_dim=8, ffn=32)
    training = dict(steps=2, batch_tokens=128, learning_rate=1e-2, seeds=["test"])
    return TinyBackbone(architecture=architecture, **sizes | training | changes)


def spec(architecture: str, **changes: Any) -> BackboneSpec:
    return BackboneSpec(tiny(architecture, **changes), architecture == "qwen3_5", PROMPTS, "test")


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
def test_one_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path, architecture: str) -> None:
    torch.manual_seed(7)
    state = torch.get_rng_state()
    steps: list[int] = []
    facts = train_backbone(tmp_path / "a", spec(architecture), steps.append)
    assert torch.equal(torch.get_rng_state(), state)
    assert steps == [1, 2]
    torch.manual_seed(8)  # of no influence
    train_backbone(tmp_path / "b", spec(architecture))
    train_backbone(tmp_path / "c", replace(spec(architecture), seed="other"))
    assert {path.name for path in (tmp_path / "a").iterdir()} == FILES
    for name in FILES:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert (tmp_path / "a/model.safetensors").read_bytes() != (tmp_path / "c/model.safetensors").read_bytes()

    with safe_open(tmp_path / "a/model.safetensors", "pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"BF16"}  # noqa: SIM118
    model, info = AutoModelForCausalLM.from_pretrained(tmp_path / "a", output_loading_info=True, dtype=torch.float32)
    assert not info["missing_keys"]
    assert not info["unexpected_keys"]
    assert model.config.model_type == {"qwen3": "qwen3", "qwen3_5": "qwen3_5_text"}[architecture]
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert sum(parameter.numel() for parameter in model.parameters()) == facts["parameters"]
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "a")
    generation = GenerationConfig.from_pretrained(tmp_path / "a")
    assert generation.eos_token_id == model.config.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert len(tokenizer) == model.config.vocab_size


def test_the_loss_falls(tmp_path: Path) -> None:
    facts = train_backbone(tmp_path, spec("qwen3", steps=40, learning_rate=2e-2))
    with (tmp_path / "training_curve.csv").open() as file:
        curve = [float(row["loss"]) for row in csv.DictReader(file)]
    assert len(curve) == 40
    assert facts["final_loss"] == pytest.approx(sum(curve[-4:]) / 4)
    assert facts["final_loss"] < 0.6 * curve[0]


def test_hybrids_have_full_attention_in_every_fourth_layer_with_a_gate_and_partial_rotation() -> None:
    model = build(tiny("qwen3_5", head_dim=32), 300, (0, 1))
    assert [index for index, kind in enumerate(model.config.layer_types) if kind == "full_attention"] == [3, 7, 11]
    attention = model.model.layers[3].self_attn
    assert attention.q_proj.out_features == 2 * 2 * 32  # per head a query and a gate
    position = torch.arange(3)[None]
    assert model.model.rotary_emb(torch.zeros(1, 3, 16), position)[0].shape[-1] == 8


def test_short_chunks_compute_the_same_function() -> None:
    torch.manual_seed(0)
    model = build(tiny("qwen3_5"), 300, (0, 1)).eval()
    ids = torch.randint(0, 300, (2, 70))
    with torch.no_grad():
        whole = model(input_ids=ids).logits
        with short_chunks():
            short = model(input_ids=ids).logits
        assert torch.equal(model(input_ids=ids).logits, whole)  # undone
    torch.testing.assert_close(short, whole, rtol=1e-3, atol=1e-3)
