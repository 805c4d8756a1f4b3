"""The architectures of the small backbones, as Transformers' own classes with small sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.qwen3_5 import Qwen3_5ForCausalLM, Qwen3_5TextConfig, modeling_qwen3_5

from stair.config.backbones import TinyBackbone
from stair.models.architectures import FILES

_ROPE_THETA = 10_000.0
_MAX_POSITIONS = 4096
_LINEAR_HEADS, _LINEAR_HEAD_DIM = 2, 16
"""Of Gated DeltaNet's keys, and of its values."""
_NORM_GAIN = 1.5
"""With unit norms the attention logits of a 16-dimensional head cannot exceed 4, too flat to copy a token."""


def build(shape: TinyBackbone, vocabulary: int, special: Sequence[int]) -> Any:
    """A freshly initialised causal language model, fp32; ``special`` holds the ids of padding and end of turn.

    ``qwen3_5`` has full attention, with an output gate, in every fourth layer (3, 7, 11, ... from zero) and Gated DeltaNet in
    the others; its rotary embedding turns the first quarter of a head's dimensions.
    """
    pad, end = special
    common: dict[str, Any] = {
        "vocab_size": vocabulary,
        "hidden_size": shape.hidden_size,
        "intermediate_size": shape.ffn,
        "num_hidden_layers": shape.layers,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "tie_word_embeddings": True,
        "max_position_embeddings": _MAX_POSITIONS,
        "initializer_range": shape.hidden_size**-0.5,
        "eos_token_id": end,
        "pad_token_id": pad,
        "bos_token_id": None,
        "dtype": "float32",
    }
    rope: dict[str, Any] = {"rope_type": "default", "rope_theta": _ROPE_THETA}
    if shape.architecture != "qwen3_5":
        model_type = FILES[shape.architecture].MODEL_TYPES[0]
        config = AutoConfig.for_model(model_type, **common, rope_parameters=rope)
        return _initialised(AutoModelForCausalLM.from_config(config), _NORM_GAIN)
    hybrid = Qwen3_5TextConfig(
        **common,
        rope_parameters={**rope, "partial_rotary_factor": 0.25},
        linear_num_key_heads=_LINEAR_HEADS,
        linear_num_value_heads=_LINEAR_HEADS,
        linear_key_head_dim=_LINEAR_HEAD_DIM,
        linear_value_head_dim=_LINEAR_HEAD_DIM,
    )
    # Qwen3.5's norm multiplies by one plus its weight.
    return _initialised(Qwen3_5ForCausalLM(hybrid), _NORM_GAIN - 1.0)


def _initialised(model: Any, norm: float) -> Any:
    """``model`` with starting values from which a few hundred updates suffice; ``norm`` is that of query and key norms.

    A token's own embedding must not drown in what twelve fresh blocks add to the residual stream, so embeddings start
    at twice the usual scale and the blocks' outputs at half of it.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("embed_tokens.weight"):
                parameter.mul_(2.0)
            elif name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
                parameter.mul_(0.5)
            elif name.endswith(("q_norm.weight", "k_norm.weight")):
                parameter.fill_(norm)
            elif name.endswith("A_log"):
                # Transformers' start forgets within a token; with this one the heads remember for 1 to 170 tokens.
                parameter.copy_(torch.linspace(-4.0, 1.0, parameter.numel()))
            elif name.endswith("dt_bias"):
                parameter.fill_(-1.0)
    return model


@contextmanager
def short_chunks(size: int = 16) -> Iterator[None]:
    """Within it, Gated DeltaNet's PyTorch form works in chunks of ``size`` tokens instead of 64: the same function.

    The conversations have some 40 tokens, so that most of a chunk of 64 would be padding; a quarter of the time is saved.
    """
    original = modeling_qwen3_5.torch_chunk_gated_delta_rule
    modeling_qwen3_5.torch_chunk_gated_delta_rule = partial(original, chunk_size=size)
    try:
        yield
    finally:
        modeling_qwen3_5.torch_chunk_gated_delta_rule = original
