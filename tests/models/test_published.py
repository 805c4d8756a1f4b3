"""The paper's parameter counts, on models of the published shapes built on the meta device."""

from __future__ import annotations

import peft
import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from stair.method import Attachment, BankFree, Reflector
from stair.models.architecture import describe
from stair.models.published import CONFIGS, CONTROLLED_LAYERS

LORA = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def on_meta(key: str) -> PreTrainedModel:
    with torch.device("meta"):
        return AutoModelForCausalLM.from_config(AutoConfig.for_model(**CONFIGS[key]))


@pytest.mark.parametrize(
    ("key", "billions", "head_std"),
    [("qwen3-4b-instruct", 4.022, 128**-0.5), ("qwen3.5-4b", 4.206, 1 / 16), ("qwen3.5-9b", 8.954, 1 / 16)],
)
def test_each_model_trains_12288_parameters(key: str, billions: float, head_std: float) -> None:
    model = on_meta(key)
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e9 == pytest.approx(billions, abs=5e-4)
    architecture = describe(model.config.to_dict())
    assert architecture == describe(CONFIGS[key])
    attachment = Attachment(model, CONTROLLED_LAYERS)
    shape = (attachment.architecture.query_heads, attachment.architecture.head_dim)
    reflector, bank_free = Reflector.draw(CONTROLLED_LAYERS, *shape, seed=0), BankFree.zeros(CONTROLLED_LAYERS, *shape)
    for controller in (reflector, bank_free):
        controller.check(architecture)
        assert sum(parameter.numel() for parameter in controller.parameters()) == 12_288
    assert float(reflector.normals.detach().std()) == pytest.approx(head_std, rel=0.03)
    assert not bank_free.scales.any()


def test_lora_on_qwen3_4b_trains_336_times_as_many() -> None:
    config = peft.LoraConfig(r=2, lora_alpha=4, lora_dropout=0.0, target_modules=LORA)
    model = peft.get_peft_model(on_meta("qwen3-4b-instruct"), config)
    lora = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    assert lora == 4_128_768 == 336 * 12_288
    attachment = Attachment(model, CONTROLLED_LAYERS)
    reflector = Reflector.draw(attachment.layers, 32, 128, seed=0)
    reflector.check(attachment.architecture)
    assert lora + reflector.normals.numel() == 4_141_056
