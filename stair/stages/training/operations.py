"""The floating-point operations of training, from a model's configuration. Imports no torch.

A multiplication with an addition counts as two. Counted are products with parameters, attention and the output layer; not
counted are the recurrence of Gated DeltaNet besides its projections, norms, an adapter and the reads of the bank.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stair.models.architecture import describe
from stair.models.parameters import layer_parameters

PUBLISHED_TFLOPS = {"H100": 989, "H200": 989, "H800": 989, "A100": 312, "A800": 312, "L40S": 362}
"""Operations a second in BF16, without sparsity, by a part of a GPU's name."""


class Span(NamedTuple):
    """Tokens of a pass, behind known ones whose keys and values exist."""

    known: int
    tokens: int


def pass_operations(config: Mapping[str, Any], span: Span, layers: slice = slice(None)) -> tuple[float, float]:
    """Operations of a forward pass through some layers: of parameters, and of causal attention."""
    facts = describe(config)
    pairs = span.tokens * (span.known + (span.tokens + 1) / 2)
    attending = len(set(range(facts.layers)[layers]) & set(facts.full_attention_layers))
    parameters = sum(layer_parameters(config)[layers])
    return 2.0 * parameters * span.tokens, 4.0 * facts.query_heads * facts.head_dim * attending * pairs


def turn_operations(
    config: Mapping[str, Any],
    teacher: Span,
    student: Span,
    response: int,
    *,
    layers: tuple[int, ...],
    adapts: bool,
    recomputed: int = 0,
) -> dict[str, float]:
    """Operations of a supervised turn by part.

    The backbone is frozen, so its products have one product each in the backward pass, for the inputs; attention has 2.5 times
    those of its forward pass. The backward pass ends at the first trained layer. A layer that runs again stops before the MLP's
    last product, whose result nothing needs.

    Args:
        config: the content of the model's config.json.
        teacher, student: their passes.
        response: tokens of the response.
        layers: controlled layers; none for an adapter alone.
        adapts: whether an adapter is trained.
        recomputed: first decoder layers that run again in the backward pass.
    """
    facts = describe(config)
    first = 0 if adapts or not layers else min(layers)
    parameters, attention = pass_operations(config, student, slice(first, None))
    again = slice(first, max(first, recomputed))
    last = 2.0 * facts.hidden_size * int(config.get("text_config", config)["intermediate_size"]) * student.tokens
    return {
        "teacher": sum(pass_operations(config, teacher)),
        "student forward": sum(pass_operations(config, student)),
        "again": sum(pass_operations(config, student, again)) - last * len(range(facts.layers)[again]),
        "backward": parameters + 2.5 * attention,
        "loss": 6.0 * facts.vocabulary * facts.hidden_size * response,
    }


def utilisation(tflops: float, device: str) -> float | None:
    """The share of a GPU's published operations a second; None for other devices."""
    published = next((peak for name, peak in PUBLISHED_TFLOPS.items() if name in device), None)
    return None if published is None else tflops / published
