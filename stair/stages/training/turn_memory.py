"""The GPU memory of a supervised turn, from a model's configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stair.models.architecture import describe

CHUNK_TOKENS = 256
"""Tokens of a chunk of `training.objective`."""

_WIDE = 4  # bytes of FP32: normals, adapters, log-probabilities
_USED = 0.8  # of the free memory: measured peaks were up to 1.2 times the estimate


@dataclass(frozen=True)
class Turn:
    """The longest turn of a session, in tokens."""

    history: int
    """Visible text before the current user message."""
    prompt: int
    """From the user message to the generation prefix."""
    response: int
    bank: int


def turn_memory(
    config: Mapping[str, Any],
    turn: Turn,
    *,
    weights: int,
    layers: tuple[int, ...],
    trained: int,
    adapts: bool,
    width: int = 2,
    flash: bool = True,
    recomputed: int | None = None,
) -> dict[str, int]:
    """Bytes by part at the peak of a turn.

    Args:
        config: the content of the model's config.json.
        weights: parameters of the backbone.
        layers: controlled layers; none for an adapter alone.
        trained: trained parameters.
        adapts: whether an adapter is trained, so that the graph begins at the first layer and the history is processed.
        width: bytes of a number of the backbone.
        flash: whether queries behind a prefix need no mask (`stair.models.attention`).
        recomputed: first decoder layers that run again in the backward pass; None: all.

    The peak is in the backward pass of one layer. The objective's chunks, whose peak comes before it, count if they are larger.
    The layers that run again come last in the backward pass, when the others' states are gone; both count.
    """
    facts = describe(config)
    text = config.get("text_config", config)
    ffn, hidden = int(text["intermediate_size"]), facts.hidden_size
    full = facts.full_attention_layers
    prefix = len(full) == facts.layers
    tokens = turn.prompt + turn.response + (0 if prefix and not adapts else turn.history)
    whole = turn.history + turn.prompt + turn.response
    heads = facts.query_heads * facts.head_dim
    kv = 2 * facts.kv_heads * facts.head_dim
    first = 0 if adapts or not layers else min(layers)
    # A recomputed layer keeps: the MLP's two halves, their activation and product, each with its gradient; the inputs and
    # outputs of attention or a recurrence; the copies of the residual stream.
    mlp = 6 * ffn + 6 * hidden
    attention = 2 * (3 * heads + 2 * kv) + 6 * hidden + (2 * heads if facts.gated else 0)
    # An adapter's matrices are FP32: each of the seven projections keeps its input in FP32, and one result is under way.
    adapter = _WIDE * (5 * hidden + heads + 2 * ffn) if adapts and width < _WIDE else 0
    again = tokens * (max(mlp + 2 * hidden, attention + 2 * hidden) * width + adapter)
    if not prefix:
        again = max(again, tokens * (_recurrent(text, width) + 4 * hidden * width))
    loss = CHUNK_TOKENS * facts.vocabulary * 3 * _WIDE
    recomputed = facts.layers if recomputed is None else recomputed
    # A layer that keeps its states: inputs of the norms in FP32, the MLP's two halves and its activation; queries and keys before
    # their norms in FP32 and after RoPE, values and result; keys and values of the prefix, or all of them for each query head.
    kept = tokens * (2 * hidden * _WIDE + 3 * ffn * width)
    kept_attention = tokens * ((heads + kv // 2) * _WIDE + ((3 if facts.gated else 2) * heads + kv) * width)
    if prefix and not adapts:
        kept_attention += turn.history * kv * width if flash else whole * 2 * heads * width
    kept_recurrence = 0 if prefix else tokens * _recurrent(text, width)
    if adapts:  # the projections' inputs, in FP32
        kept += tokens * _WIDE * ((5 if width < _WIDE else 2) * hidden + (heads if width < _WIDE else 0) + ffn)
    keeping = range(max(first, recomputed), facts.layers)
    attending = len(set(keeping) & set(full))
    return {
        "weights": weights * width,
        "trained": trained * 4 * _WIDE,
        "native keys and values": whole * kv * facts.layers * width if prefix else 0,
        "prefix of one layer": (turn.history * kv + tokens * kv) * width if prefix and not adapts else 0,
        "attention mask": tokens * whole * (1 + width) if prefix and not adapts and not flash else 0,
        "bank": 2 * turn.bank * kv * len(layers) * width,
        "layers' inputs": max(0, recomputed - first) * tokens * hidden * width,
        "other layers' states": len(keeping) * kept
        + attending * kept_attention
        + (len(keeping) - attending) * kept_recurrence,
        # The student's and the teacher's; the student's gradient is FP32 until it is scaled.
        "hidden states": turn.response * hidden * (2 * width + _WIDE),
        "one layer again, or a chunk of the objective": max(again, loss),
    }


def layers_to_recompute(config: Mapping[str, Any], turn: Turn, free: int, **sizes: Any) -> int:
    """The fewest first decoder layers that must run again in the backward pass; all if even that does not suffice.

    Args:
        config: the content of the model's config.json.
        turn: the turn, before the student's pass.
        free: free bytes of the device before this pass.
        sizes: further arguments of `turn_memory`.
    """
    layers = describe(config).layers
    for count in range(layers):
        parts = turn_memory(config, turn, **sizes, recomputed=count)
        if sum(bytes for part, bytes in parts.items() if part not in _THERE_BEFORE) <= _USED * free:
            return count
    return layers


_THERE_BEFORE = ("weights", "trained", "native keys and values")


def _recurrent(text: Mapping[str, Any], width: int) -> int:
    """Bytes a token that a Gated DeltaNet layer keeps in its backward pass, by Transformers' own code.

    Projections and the convolution in the backbone's precision; the recurrence in FP32: its inputs, their scaled copies, and
    what each block of 64 tokens computes among itself. Fused kernels keep less.
    """
    heads = int(text["linear_num_value_heads"])
    keys = int(text["linear_num_key_heads"]) * int(text["linear_key_head_dim"])
    values = heads * int(text["linear_value_head_dim"])
    repeated = heads * int(text["linear_key_head_dim"])  # queries and keys stand once for every value head
    return width * (3 * (2 * keys + values) + 2 * values) + _WIDE * (6 * repeated + 6 * values + 8 * 64 * heads)
