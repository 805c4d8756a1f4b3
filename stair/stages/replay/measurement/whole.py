"""One cell by a stock model over the whole prompt, with eager attention: slow, and the measure of `Probe`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn

from stair.models.architecture import describe
from stair.models.attention_modules import gate_logits
from stair.stages.replay.measurement import naive
from stair.stages.replay.measurement.categories import Labelled
from stair.stages.replay.measurement.probe import Measured


@torch.inference_mode()
def measure_whole(model: Any, prompt: Labelled, layers: Sequence[int] = ()) -> Measured:
    """Return what `Probe` measures for one problem. Raises ValueError unless the model's attention is eager."""
    if model.config._attn_implementation != "eager":
        raise ValueError("attention probabilities are given out by eager attention only; load the model with it")
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
        return naive.reads(alphas[layer], values, weight, prompt.categories, prompt.body, gate)

    hidden = outputs["embedding"].shape[-1]
    return Measured(
        mean("embedding")[None],
        torch.stack([mean(("block", layer)) for layer in range(architecture.layers)])[None],
        torch.stack([naive.masses(alpha, prompt.categories, prompt.body) for alpha in alphas.values()])[None],
        torch.stack([read(layer) for layer in layers])[None] if layers else ids.new_empty(1, 0, 4, hidden),
        torch.stack([mean(("mlp", layer + 1)) for layer in layers])[None] if layers else ids.new_empty(1, 0, hidden),
    )
