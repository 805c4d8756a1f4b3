"""Tiny random models of both architectures, and random banks and controls, for the tests of the method."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3_5ForCausalLM,
    Qwen3_5TextConfig,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from stair.method import Bank, Reflector, Segment

LAYERS = (1, 3)
SHARED = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


def tiny_qwen3() -> PreTrainedModel:
    return Qwen3ForCausalLM(Qwen3Config(**SHARED))


def tiny_qwen3_5() -> PreTrainedModel:
    kinds = ["full_attention" if layer % 2 else "linear_attention" for layer in range(6)]
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0]}
    deltanet = {
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
    }
    return Qwen3_5ForCausalLM(Qwen3_5TextConfig(**SHARED, **deltanet, layer_types=kinds, rope_parameters=rope))


def tiny_llama() -> PreTrainedModel:
    rope = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0}
    rope |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 128}
    return LlamaForCausalLM(LlamaConfig(**SHARED, rope_parameters=rope))


@dataclass
class Case:
    """A prompt of `tokens` ids whose control span starts at `start`, and what it is controlled with."""

    ids: Tensor
    start: int
    bank: Bank
    reflector: Reflector


def relative(found: Tensor, expected: Tensor) -> float:
    """The relative Frobenius distance, in float64."""
    found, expected = found.detach().double(), expected.detach().double()
    return float((found - expected).norm() / expected.norm().clamp_min(1e-300))


def random_bank(*lengths: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Bank:
    generator = torch.Generator().manual_seed(seed)
    bank = Bank(LAYERS)
    for length in lengths:
        keys = torch.randn(len(LAYERS), 2, length, 16, generator=generator) * 2
        values = torch.randn(len(LAYERS), 2, length, 16, generator=generator)
        bank.append(Segment(LAYERS, keys.to(dtype), values.to(dtype)))
    return bank


def random_case(tokens: int = 19, start: int = 8, seed: int = 1) -> Case:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(0, 64, (1, tokens), generator=generator)
    return Case(ids, start, random_bank(23, 14, seed=seed), Reflector.draw(LAYERS, 4, 16, seed=seed))
