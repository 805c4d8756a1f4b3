"""How much memory a history's batches need, from a model's configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stair.models.architecture import describe

CPU_TILE, GPU_TILE = 3 << 19, 256 << 20
"""Bytes of a tile of the probes, of which there are two: on a CPU they have to stay near the core, on a GPU launches should
be few."""

_WIDE = 4  # bytes of FP32


def replay_memory(
    config: Mapping[str, Any],
    *,
    prefix: int,
    rows: int,
    columns: int,
    tile: int,
    weights: int,
    width: int,
    flash: bool,
) -> int:
    """Bytes at the peak of one history: its prefix is computed in one pass, its problems in one batch.

    A block counts with the tensors that live together in it: those of attention, of the MLP, of a recurrence or of the
    probes, whichever are more.

    Args:
        config: the content of the model's config.json.
        prefix: tokens of the history.
        rows: problems of a batch.
        columns: tokens of a problem's turn, padding included.
        tile: bytes of a tile of the probes, which hold two.
        weights: parameters of the backbone.
        width: bytes of a number of the backbone.
        flash: whether attention behind a prefix needs no mask (`stair.models.attention`); else it takes keys and values once
            for every query head, and a mask.
    """
    facts = describe(config)
    text = config.get("text_config", config)
    hidden, ffn = facts.hidden_size, int(text["intermediate_size"])
    heads, kv = facts.query_heads * facts.head_dim, 2 * facts.kv_heads * facts.head_dim
    recurrent = facts.layers - len(facts.full_attention_layers)
    whole, tokens = prefix + columns, rows * columns
    state, token = _recurrence(text, width) if recurrent else (0, 0)

    def block(tokens: int, rows: int, sources: int, probed: bool) -> int:
        """The most that one block holds besides the residual stream."""
        # Queries before and after RoPE, the output in two orders; a gate and its product.
        own = tokens * (2 * hidden + (4 + 3 * facts.gated) * heads + 2 * kv) * width
        behind = rows * sources * kv * width
        mask = 0
        if not flash:
            behind += rows * sources * 2 * heads * width
            # A pass from the start on is causal by itself; else the mask is converted to numbers.
            mask = rows * (tokens // rows) * sources * width if probed else 0
        attention = own + behind + mask
        mlp = tokens * (3 * ffn + 2 * hidden) * width
        probes = 0
        if probed:
            # The average attention of each head, the sorted keys and values of one head. The kernel for masses alone needs less.
            average = rows * facts.query_heads * whole * _WIDE
            probes = own + 2 * tile + average + 2 * prefix * facts.head_dim * _WIDE + tokens * heads * _WIDE
        return max(attention, mlp, probes, tokens * token)

    pass_of_prefix = prefix * hidden * width + block(prefix, 1, prefix, False)
    pass_of_batch = tokens * hidden * width + rows * recurrent * state + block(tokens, rows, whole, True)
    if not flash:
        pass_of_batch += tokens * whole
    states_of_prefix = prefix * kv * len(facts.full_attention_layers) * width + recurrent * state
    return weights * width + states_of_prefix + max(pass_of_prefix, pass_of_batch)


def _recurrence(text: Mapping[str, Any], width: int) -> tuple[int, int]:
    """Bytes of a Gated DeltaNet layer's state, and of what it computes with each token, by Transformers' own code.

    A fused kernel holds less.
    """
    heads = int(text["linear_num_value_heads"])
    value = int(text["linear_value_head_dim"])
    key = int(text["linear_key_head_dim"])
    keys, values = int(text["linear_num_key_heads"]) * key, heads * value
    convolved = 2 * keys + values
    state = heads * key * value * _WIDE + convolved * int(text.get("linear_conv_kernel_dim") or 4) * width
    # In FP32, once for every value head: queries, keys and values, scaled or decayed copies, what each block of 64 tokens
    # computes among itself.
    token = width * (3 * convolved + 2 * values) + _WIDE * (7 * heads * key + 4 * values + 4 * 64 * heads)
    return state, token
