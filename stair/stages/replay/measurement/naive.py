"""The measurements as written, slow: what `attention` and `Probe` are compared with.

H query heads, K key/value heads, S positions of the whole prompt, D channels of a head.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from stair.models.architecture import describe
from stair.models.attention_modules import gate_logits
from stair.stages.replay.measurement.categories import CATEGORIES, Labelled
from stair.stages.replay.measurement.probe import MeasuredStates


def probabilities(q_HSD: Tensor, k_KSD: Tensor) -> Tensor:
    """Return alpha_{h,t,j} [H, S, S], normalised over the causally visible positions."""
    heads, positions, head_dim = q_HSD.shape
    keys = k_KSD.repeat_interleave(heads // k_KSD.shape[0], dim=0)
    logits = q_HSD @ keys.mT * head_dim**-0.5
    later = torch.ones(positions, positions, dtype=torch.bool, device=q_HSD.device).triu(1)
    return torch.softmax(logits.masked_fill(later, -torch.inf), dim=-1)


def masses(alpha_HSS: Tensor, categories: Sequence[int], body: tuple[int, int]) -> Tensor:
    """Return A^c of each category (Eq. 12), [4].

    `categories` holds each position's index in CATEGORIES; `body` is the current user body (end exclusive).
    """
    total = alpha_HSS.new_zeros(len(CATEGORIES))
    for category in range(len(CATEGORIES)):
        for position, own in enumerate(categories):
            if own == category:
                total[category] += alpha_HSS[:, body[0] : body[1], position].sum()
    return total / (alpha_HSS.shape[0] * (body[1] - body[0]))


def reads(
    alpha_HSS: Tensor,
    v_KSD: Tensor,
    output_projection: Tensor,
    categories: Sequence[int],
    body: tuple[int, int],
    gate_SHD: Tensor | None = None,
) -> Tensor:
    """Return r^c of each category (Eq. 17), [4, hidden]; `categories` and `body` as `masses`.

    The gate multiplies each token's read before W_O (Qwen3.5); `gate_SHD` holds its logits.
    """
    heads = alpha_HSS.shape[0]
    values = v_KSD.repeat_interleave(heads // v_KSD.shape[0], dim=0)
    of_positions = torch.tensor(categories, device=v_KSD.device)
    by_category = []
    for category in range(len(CATEGORIES)):
        total = torch.zeros_like(output_projection[:, 0])
        for token in range(*body):
            sources = of_positions == category
            parts = [alpha_HSS[head, token, sources] @ values[head, sources] for head in range(heads)]
            if gate_SHD is not None:
                parts = [torch.sigmoid(gate_SHD[token, head]) * part for head, part in enumerate(parts)]
            total = total + output_projection @ torch.cat(parts)
        by_category.append(total / (body[1] - body[0]))
    return torch.stack(by_category)


@torch.inference_mode()
def measure_whole(model: Any, prompt: Labelled, layers: Sequence[int] = ()) -> MeasuredStates:
    """Return what `Probe` measures for one problem."""
    assert model.config._attn_implementation == "eager", "no other attention gives out probabilities"
    architecture = describe(model.config.to_dict())
    start, end = prompt.body
    outputs: dict[Any, Tensor] = {}
    decoder = model.base_model
    with ExitStack() as stack:

        def keep(name: Any, module: nn.Module) -> None:
            def hooked(_: nn.Module, args: Any, output: Tensor) -> None:
                outputs[name] = output[0]

            stack.callback(module.register_forward_hook(hooked).remove)

        keep("embedding", decoder.embed_tokens)
        for number, block in enumerate(decoder.layers):
            keep(("block", number), block)
            keep(("mlp", number), block.mlp)
            if number in layers:
                keep(("values", number), block.self_attn.v_proj)
                keep(("projected", number), block.self_attn.q_proj)
        ids = torch.tensor([prompt.ids], device=next(model.parameters()).device)
        given = model(ids, attention_mask=torch.ones_like(ids), output_attentions=True, use_cache=False).attentions
    # A recurrent layer gives none.
    alphas = dict(zip(architecture.full_attention_layers, (one[0] for one in given if one is not None), strict=True))

    def mean(name: Any) -> Tensor:
        return outputs[name][start:end].mean(0)

    def read(layer: int) -> Tensor:
        values = outputs["values", layer].view(len(prompt.ids), -1, architecture.head_dim).transpose(0, 1)
        gate = None
        if architecture.gated:
            gate = gate_logits(outputs["projected", layer], architecture.head_dim)
        weight = decoder.layers[layer].self_attn.o_proj.weight
        return reads(alphas[layer], values, weight, prompt.categories, prompt.body, gate)

    return MeasuredStates(
        mean("embedding")[None],
        torch.stack([mean(("block", layer)) for layer in range(architecture.layers)])[None],
        torch.stack([masses(alpha, prompt.categories, prompt.body) for alpha in alphas.values()])[None],
        torch.stack([read(layer) for layer in layers])[None] if layers else None,
        torch.stack([mean(("mlp", layer + 1)) for layer in layers])[None] if layers else None,
    )
