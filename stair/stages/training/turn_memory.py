"""The GPU memory of a supervised turn, from a model's configuration. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stair.models.architecture import describe

CHUNK_TOKENS = 256
"""Tokens of a chunk of `training.objective`."""

_WIDE = 4  # bytes of FP32: normals, adapters, log-probabilities
_USED = 0.8  # of the free memory: measured peaks were up to 1.1 times the estimate, and a GPU's memory is fragmented


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

    The backward pass begins with the last layers, which kept their states. Then each of the first layers runs again and has its
    states alone. The gradients within an MLP come on top of either, or before them a chunk of the objective.
    """
    facts = describe(config)
    text = config.get("text_config", config)
    ffn, hidden = int(text["intermediate_size"]), facts.hidden_size
    full = facts.full_attention_layers
    prefix = len(full) == facts.layers
    reuses = prefix and not adapts
    whole = turn.history + turn.prompt + turn.response
    tokens = turn.prompt + turn.response if reuses else whole
    query, key = facts.query_heads * facts.head_dim, facts.kv_heads * facts.head_dim
    first = 0 if adapts or not layers else min(layers)
    again = max(first, facts.layers if recomputed is None else recomputed)

    def states(layer: int) -> int:
        """Bytes that autograd keeps of a layer. A frozen projection keeps nothing, one with an adapter its input."""
        kept = 2 * hidden * _WIDE + 3 * ffn * width  # inputs of the norms; the MLP's two halves and the activation
        if adapts:
            kept += (hidden + ffn) * width
        if layer == first and not (adapts and layer in full):  # the graph begins behind its attention
            return tokens * (kept - hidden * _WIDE)
        if layer not in full:
            return tokens * (kept + _recurrent(text, width))
        # Queries and keys before their norms; queries and results, which a gate copies and multiplies.
        kept += (query + key) * _WIDE + (4 if facts.gated else 2) * query * width
        if adapts:
            kept += hidden * width
        # Keys and values. A mask has them repeated for each query head, and becomes a tensor of the backbone's precision.
        masked = reuses and not flash
        return tokens * kept + whole * (2 * query + tokens if masked else 2 * key) * width

    keeping = sum(states(layer) for layer in range(again, facts.layers))
    alone = max((states(layer) for layer in range(first, again)), default=0)
    gradients = tokens * 3 * ffn * width
    # Beside a chunk: the input of the last norm and the gradient of its output.
    chunk = CHUNK_TOKENS * facts.vocabulary * 3 * _WIDE + tokens * 2 * hidden * _WIDE
    return {
        "weights": weights * width,
        "trained": trained * 4 * _WIDE,
        "native keys and values": turn.history * 2 * key * facts.layers * width if reuses else 0,
        "attention mask": tokens * whole if reuses and not flash else 0,
        "bank": 2 * turn.bank * 2 * key * len(layers) * width,
        "layers' inputs": (again - first) * tokens * hidden * width,
        # The student's, and the teacher's or the gradient; the teacher's are kept for a second attempt.
        "hidden states": (2 if again == facts.layers else 3) * tokens * hidden * width,
        "states of layers, and gradients or a chunk": max(keeping + chunk, max(keeping, alone) + gradients),
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
    """Bytes a token that autograd keeps of a Gated DeltaNet, by Transformers' own code; fused kernels keep less.

    In the backbone's precision: the convolution's input and output, and the norm's output. In FP32: the recurrence's inputs and
    their scaled copies, five matrices of 64 x 64 for each block of 64 tokens, and a state for each block.
    """
    heads = int(text["linear_num_value_heads"])
    key, value = int(text["linear_key_head_dim"]), int(text["linear_value_head_dim"])
    convolved = 2 * int(text["linear_num_key_heads"]) * key + heads * value
    # Queries and keys are repeated for every value head.
    return width * (2 * convolved + heads * value) + heads * _WIDE * (8 * key + 6 * value + 5 * 64 + key * value // 64)
