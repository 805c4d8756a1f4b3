"""Loading from disk: both architectures, the vocabulary head's trap, and the errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration, Qwen3Config, Qwen3ForCausalLM

from stair.models import flash_kernels
from stair.models.device_and_dtype import device_for
from stair.models.load import load_model

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
}


@pytest.fixture
def qwen3(tmp_path: Path) -> Path:
    Qwen3ForCausalLM(Qwen3Config(**SIZES, tie_word_embeddings=False)).save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def test_a_loaded_model_is_frozen_and_in_eval_mode(qwen3: Path) -> None:
    model = load_model(qwen3, dtype=torch.bfloat16, device="cpu")
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert model.config._attn_implementation == "sdpa"
    assert (
        load_model(str(qwen3), dtype=torch.float32, device="cpu", attention="eager").config._attn_implementation
        == "eager"
    )


def test_a_missing_weight_is_refused(qwen3: Path) -> None:
    weights = load_file(qwen3 / "model.safetensors")
    del weights["lm_head.weight"]
    save_file(weights, qwen3 / "model.safetensors", {"format": "pt"})
    with pytest.raises(ValueError, match=r"lack 1 weights.*lm_head\.weight"):
        load_model(qwen3, dtype=torch.float32, device="cpu")


@pytest.fixture
def multimodal(tmp_path: Path) -> Path:
    """A multimodal Qwen3.5 checkpoint whose configuration ties the embeddings at the root only."""
    text = {
        **SIZES,
        "num_hidden_layers": 4,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "tie_word_embeddings": True,
    }
    vision = {"depth": 1, "hidden_size": 16, "intermediate_size": 16, "num_heads": 2, "out_hidden_size": 32}
    config = Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=True)
    Qwen3_5ForConditionalGeneration(config).save_pretrained(tmp_path / "m")
    content = json.loads((tmp_path / "m" / "config.json").read_text())
    content["text_config"].pop("tie_word_embeddings", None)
    (tmp_path / "m" / "config.json").write_text(json.dumps(content))
    return tmp_path / "m"


def test_a_multimodal_checkpoint_loads_as_text_with_its_head_tied(multimodal: Path) -> None:
    model = load_model(multimodal, dtype=torch.float32, device="cpu")
    assert type(model).__name__ == "Qwen3_5ForCausalLM"
    stored = load_file(multimodal / "model.safetensors")
    embedding = next(tensor for name, tensor in stored.items() if name.endswith("embed_tokens.weight"))
    assert torch.equal(model.lm_head.weight, embedding)


def test_what_is_not_there_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    for name, message in (("none", "none does not exist"), ("empty", "empty"), ("other", "unknown model_type 'gpt2'")):
        with pytest.raises(ValueError, match=message) as caught:
            load_model(tmp_path / name, dtype=torch.float32, device="cpu")
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("attention", "package"), [("flash_attention_2", "flash-attn"), ("flash_attention_3", "flash-attn-3")]
)
def test_an_attention_without_its_gpu_or_package_is_refused_in_one_line(
    attention: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flash_kernels, "installed", lambda _: False)
    with pytest.raises(ValueError, match=f"^transformers.attention: {attention} needs a GPU, and there is none here"):
        device_for("cpu", attention)
    with pytest.raises(
        ValueError, match=f"^transformers.attention: {attention} needs the package {package}, .*, or run: "
    ):
        device_for("cuda", attention)
    assert device_for("cpu", "sdpa") == "cpu"
