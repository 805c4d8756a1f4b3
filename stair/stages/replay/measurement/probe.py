"""The measurements of a batch of current problems behind one shared prefix, by hooks on an unmodified model.

Block outputs come from hooks: `output_hidden_states` holds the normalised output at the last layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from stair.models.architecture import describe
from stair.models.attention_modules import gate_logits, key_source, per_head, query_source
from stair.models.prefix import Prefix, run
from stair.stages.replay.measurement.attention import Layer, masses_and_reads
from stair.stages.replay.measurement.categories import CATEGORIES, CurrentTurn


@dataclass(frozen=True)
class Turns:
    """`count` turns in a batch of `ids` [rows, columns]; rows beyond them repeat the first.

    `weights` [rows, columns] are 1 / |T_x| on the body's tokens and zero elsewhere.
    """

    ids: Tensor
    weights: Tensor
    count: int

    @classmethod
    def pad(cls, turns: Sequence[CurrentTurn], *, rows: int, columns: int, device: torch.device | str = "cpu") -> Turns:
        """A batch of at most `rows` turns of at most `columns` tokens, padded on the right."""
        assert 0 < len(turns) <= rows and max(len(turn.ids) for turn in turns) <= columns
        ids = torch.zeros(rows, columns, dtype=torch.long)
        weights = torch.zeros(rows, columns, dtype=torch.float64)
        for row in range(rows):
            turn = turns[row] if row < len(turns) else turns[0]
            ids[row, : len(turn.ids)] = torch.tensor(turn.ids)
            start, end = turn.body
            weights[row, start:end] = 1 / (end - start)
        return cls(ids.to(device), weights.to(device), len(turns))


@dataclass(frozen=True)
class MeasuredStates:
    """One row a problem, each number a mean over its body tokens; FP32, FP64 for an FP64 model.

    `masses` are of the full-attention layers in order, `reads` and `next_mlp` of the measured layers in order.
    """

    embedding: Tensor
    """[problems, hidden]: the input of block 0. The input of each other block is the output of the one before."""
    block_outputs: Tensor
    """[problems, layers, hidden]"""
    masses: Tensor
    """[problems, full-attention layers, 4], by `CATEGORIES`"""
    reads: Tensor | None
    """[problems, measured layers, 4, hidden]; None without such layers"""
    next_mlp: Tensor | None
    """[problems, measured layers, hidden]: the MLP output of the block behind the measured one; None without such layers"""


class Probe:
    """Measures `model`; reads and the next block's MLP output are of the zero-based `layers`.

    These are full-attention layers with a next block. Hooks exist only while `measure` runs.
    """

    def __init__(self, model: Any, layers: Sequence[int] = ()) -> None:
        self.architecture = describe(model.config.to_dict())
        self.model, self.layers = model, tuple(layers)

    @torch.inference_mode()
    def measure(self, prefix: Prefix, categories: Sequence[int], turns: Turns) -> MeasuredStates:
        """Run `turns` behind `prefix` and return the measurements; `categories` are those of the prefix's tokens."""
        assert len(categories) == len(prefix.ids)
        working = torch.float64 if self.model.dtype == torch.float64 else torch.float32
        weights = turns.weights.to(working)
        of_positions = torch.tensor(categories, dtype=torch.long, device=turns.ids.device)
        sources = [(of_positions == earlier).nonzero()[:, 0] for earlier in range(len(CATEGORIES) - 1)]
        means: dict[str, Tensor] = {}
        attended: dict[int, tuple[Tensor, Tensor | None]] = {}
        decoder = self.model.base_model

        def keep_mean(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
            def hooked(_: nn.Module, args: Any, output: Tensor) -> None:
                means[name] = (weights[:, None] @ output.to(weights.dtype))[:, 0]

            return hooked

        with ExitStack() as stack:

            def hook(handle: RemovableHandle) -> None:
                stack.callback(handle.remove)

            hook(decoder.embed_tokens.register_forward_hook(keep_mean("embedding")))
            for number, block in enumerate(decoder.layers):
                hook(block.register_forward_hook(keep_mean(f"block {number}")))
                if number - 1 in self.layers:
                    hook(block.mlp.register_forward_hook(keep_mean(f"mlp behind {number - 1}")))
                if number in self.architecture.full_attention_layers:
                    self._attach(number, block.self_attn, prefix, sources, weights, attended, hook)
            run(self.model, turns.ids, prefix.cache(len(turns.ids)), len(prefix.ids))
        count = turns.count

        def stacked(parts: Iterable[Tensor | None]) -> Tensor:
            return torch.stack([part[:count] for part in parts if part is not None], dim=1)

        return MeasuredStates(
            means["embedding"][:count],
            stacked(means[f"block {layer}"] for layer in range(self.architecture.layers)),
            stacked(attended[layer][0] for layer in self.architecture.full_attention_layers),
            stacked(attended[layer][1] for layer in self.layers) if self.layers else None,
            stacked(means[f"mlp behind {layer}"] for layer in self.layers) if self.layers else None,
        )

    def _attach(
        self,
        number: int,
        module: Any,
        prefix: Prefix,
        sources: Sequence[Tensor],
        weights: Tensor,
        attended: dict[int, tuple[Tensor, Tensor | None]],
        hook: Callable[[RemovableHandle], None],
    ) -> None:
        """Hooks that rebuild one layer's attention behind its own computation."""
        architecture, measured = self.architecture, number in self.layers
        recorded: dict[str, Any] = {}

        def keep(name: str) -> Callable[[nn.Module, Any, Tensor], None]:
            def hooked(_: nn.Module, args: Any, output: Tensor) -> None:
                recorded[name] = output

            return hooked

        def keep_rotation(_: nn.Module, args: Any, kwargs: dict[str, Any]) -> None:
            recorded["rotation"] = kwargs["position_embeddings"]

        def rebuild(_: nn.Module, args: Any, output: Any) -> None:
            pair = prefix.states[number]
            assert pair is not None
            keys, values = pair
            cos, sin = (part[:, None] for part in recorded["rotation"])
            heads = (*recorded["queries"].shape[:2], -1, architecture.head_dim)
            gate = None
            if architecture.gated and measured:
                gate = gate_logits(recorded["projected"], architecture.head_dim)
            layer = Layer(
                rotate(per_head(recorded["queries"], architecture.head_dim).transpose(1, 2), cos, sin),
                keys[0],
                values[0],
                rotate(per_head(recorded["keys"], architecture.head_dim).transpose(1, 2), cos, sin),
                recorded["values"].view(heads).transpose(1, 2),
                gate,
            )
            projection = module.o_proj.weight if measured else None
            attended[number] = masses_and_reads(layer, sources, weights, projection)
            recorded.clear()

        hook(module.register_forward_pre_hook(keep_rotation, with_kwargs=True))
        hook(query_source(module).register_forward_hook(keep("queries")))
        hook(key_source(module).register_forward_hook(keep("keys")))
        hook(module.v_proj.register_forward_hook(keep("values")))
        if architecture.gated and measured:
            hook(module.q_proj.register_forward_hook(keep("projected")))
        hook(module.register_forward_hook(rebuild))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE as every architecture applies it, in the model's own precision; channels beyond the angles stay."""
    turned, rest = x[..., : cos.shape[-1]], x[..., cos.shape[-1] :]
    first, second = turned.chunk(2, dim=-1)
    return torch.cat([turned * cos + torch.cat([-second, first], dim=-1) * sin, rest], dim=-1)
