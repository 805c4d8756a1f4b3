"""A trained adapter in the engine: PEFT's own files, on every token, named by every request."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import PreTrainedModel

from stair.engines.base import Reconstruction, Request
from stair.engines.transformers import TransformersEngine
from stair.records.keys import adapter_digest
from tests.conftest import LAYERS, TOKENS, random_model
from tests.deviation import deviation
from tests.engines.engine_cases import various
from tests.engines.naive_engine import respond

PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
both = pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])


def saved_adapter(model: PreTrainedModel, folder: Path) -> None:
    """A rank-2 adapter of all projections whose both matrices matter, written as PEFT writes it."""
    adapted = get_peft_model(model, LoraConfig(r=2, lora_alpha=4, lora_dropout=0.0, target_modules=PROJECTIONS))
    generator = torch.Generator().manual_seed(5)
    for name, parameter in adapted.named_parameters():
        if "lora_" in name:
            parameter.data = torch.randn(parameter.shape, generator=generator).to(parameter.dtype) * 0.3
    adapted.save_pretrained(str(folder))


def engine_with(model: PreTrainedModel, folder: Path, tmp_path: Path, dtype: str = "float64") -> TransformersEngine:
    model.save_pretrained(tmp_path / "model")
    return TransformersEngine.load(
        tmp_path / "model", dtype=dtype, device="cpu", attention="sdpa", tokens=TOKENS, layers=LAYERS, batch_width=4,
        prefill_width=2, cache_block=32, adapter=(folder, "the adapter"),
    )  # fmt: skip


@both
def test_tokens_and_states_under_an_adapter_are_those_of_plain_generation(architecture: str, tmp_path: Path) -> None:
    """With and without a read; the plain loop runs the adapted model too, and the frozen one answers otherwise."""
    saved_adapter(random_model(architecture, torch.float64), tmp_path / "adapter")
    frozen = random_model(architecture, torch.float64)
    engine = engine_with(frozen, tmp_path / "adapter", tmp_path)
    requests = [
        replace(each, adapter="the adapter", max_new_tokens=min(each.max_new_tokens, 12))
        for each in various(torch.float64, 6)
    ]
    found = {done.key: done for done in engine.run(requests)}
    differs = 0
    for each in requests:
        ids, reason, _ = respond(engine.model, each, LAYERS, tokens=TOKENS, context=512)
        assert (found[each.key].response_ids, found[each.key].finish_reason) == (ids, reason)
        differs += respond(frozen, each, LAYERS, tokens=TOKENS, context=512)[0] != ids
        if each.capture is not None:
            reconstruction = Reconstruction(
                each.key, each.prompt_ids, ids, each.stop_ids, each.capture, each.read, adapter="the adapter"
            )
            bank = found[each.key].bank
            assert bank is not None
            assert deviation(engine.reconstruct([reconstruction])[0], bank) < 1e-5
    assert differs >= 4


def test_a_request_for_another_adapter_is_refused(tmp_path: Path) -> None:
    saved_adapter(random_model("qwen3"), tmp_path / "adapter")
    engine = engine_with(random_model("qwen3"), tmp_path / "adapter", tmp_path, "float32")
    request: Request = various(torch.float32, 1)[0]
    with pytest.raises(ValueError, match="is for the adapter none, and this engine's model carries the adapter"):
        list(engine.run([request]))


def test_an_adapters_identity_is_what_it_does(tmp_path: Path) -> None:
    """Where its base model lay is not part of it; its scale and its weights are."""
    saved_adapter(random_model("qwen3"), tmp_path / "one")
    before = adapter_digest(tmp_path / "one")
    path = tmp_path / "one" / "adapter_config.json"
    settings = json.loads(path.read_text())
    path.write_text(json.dumps(settings | {"base_model_name_or_path": "elsewhere"}))
    assert adapter_digest(tmp_path / "one") == before
    path.write_text(json.dumps(settings | {"lora_alpha": 8}))
    assert adapter_digest(tmp_path / "one") != before
    path.write_text(json.dumps(settings))
    with open(tmp_path / "one" / "adapter_model.safetensors", "r+b") as weights:
        weights.seek(-1, 2)
        last = weights.read(1)
        weights.seek(-1, 2)
        weights.write(bytes([last[0] ^ 1]))
    assert adapter_digest(tmp_path / "one") != before


def test_a_folder_without_an_adapter_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty holds no adapter: there is no adapter_config\.json"):
        engine_with(random_model("qwen3"), tmp_path / "empty", tmp_path, "float32")
