"""Hooks that control and capture an unmodified Transformers model (sections 3.1 to 3.3, appendix B)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from stair.method.differential import Backend
from stair.method.read import Read, Receipt, RowReadout
from stair.method.rope import Rotary
from stair.models.architecture import describe
from stair.models.attention_modules import gate_logits, key_source, per_head, query_source

Sink = Callable[[int, Tensor, Tensor], None]
_ATTENTION = re.compile(r"(?:^|\.)layers\.(\d+)\.self_attn$")


class Attachment:
    """Controls and captures the zero-based `layers` of `model` (of a known architecture, wrapped by peft or not, on one device).

    Hooks exist only while `controlling` or `capturing` is open; the model's code and weights are never touched.
    `backend` is the one of `differential_read`. Attach after peft has wrapped the model, or the LoRA terms are missed.
    Raises ValueError for an unknown architecture and for layers that cannot be controlled.
    """

    def __init__(self, model: nn.Module, layers: Sequence[int], *, backend: Backend = "auto") -> None:
        self.architecture = describe(model.config.to_dict())  # type: ignore[union-attr, operator]
        self.architecture.check_controlled_layers(layers)
        self.layers = tuple(int(layer) for layer in layers)
        self.backend: Backend = backend
        self.rotary = Rotary(self.architecture.rotary_dim, self.architecture.rope_theta, self.architecture.rope_scaling)
        attentions = {
            int(match.group(1)): module
            for name, module in model.named_modules()
            if (match := _ATTENTION.search(name)) and hasattr(module, "k_proj")
        }
        self._modules: list[Any] = [attentions[layer] for layer in self.layers]
        self._handles: dict[str, list[RemovableHandle]] = {}
        self._readouts: list[RowReadout | None] = []
        self._positions: Tensor | None = None
        self._chunk = 0

    # Controlling

    @contextmanager
    def controlling(self, reads: Sequence[Read | None], positions: Tensor) -> Iterator[list[Receipt]]:
        """Control the forwards inside; yields one receipt a row, which fills as they run.

        `reads` has one entry a batch row, None for a native row. `positions` [batch, tokens] (integers) is each column's
        position in its row's conversation, negative for padding: a token is controlled when span[0] <= position < span[1].
        Set `attachment.positions` before each further chunk of the same rows.
        Under activation checkpointing, keep the context open until `backward()` has returned.
        Raises ValueError when a read does not fit this model or the attachment is controlling already. Inside, a forward of
        other tokens than `positions` raises it too, for example the decoding steps of `generate`.
        """
        if "control" in self._handles:
            raise ValueError("this attachment is controlling already; close the other context first")
        for controller in (read.controller for read in reads if read is not None):
            if controller.layers != self.layers:
                raise ValueError(
                    f"a controller of layers {controller.layers} is not for an attachment to {self.layers}"
                )
            controller.check(self.architecture)
        handles = self._handles["control"] = []
        try:
            weight = next(self._modules[0].parameters())
            self._readouts = [
                None if read is None else RowReadout(read, self.rotary, self.backend, weight.device) for read in reads
            ]
            self._chunk = -1
            self.positions = positions
            for readout in self._readouts:
                if readout is not None:
                    readout.prefetch(weight.dtype)
            for index, module in enumerate(self._modules):
                handles.extend(self._control_hooks(index, module))
            yield [Receipt() if readout is None else readout.receipt for readout in self._readouts]
        finally:
            self._remove("control")
            self._readouts, self._positions = [], None

    @property
    def positions(self) -> Tensor:
        """The positions [batch, tokens] of the chunk that is being processed."""
        assert self._positions is not None
        return self._positions

    @positions.setter
    def positions(self, positions: Tensor) -> None:
        if positions.dim() != 2 or positions.shape[0] != len(self._readouts):
            raise ValueError(
                f"positions are [batch, tokens] with {len(self._readouts)} rows, not {list(positions.shape)}"
            )
        self._positions = positions.detach().cpu()
        self._chunk += 1
        for row, readout in zip(self._positions, self._readouts, strict=True):
            if readout is not None:
                readout.enter_chunk(self._chunk, row)

    def _control_hooks(self, index: int, module: Any) -> list[RemovableHandle]:
        architecture = self.architecture
        kept: dict[str, Tensor] = {}

        def keep_queries(_: nn.Module, args: Any, output: Tensor) -> None:
            kept["queries"] = per_head(output, architecture.head_dim)

        def keep_gates(_: nn.Module, args: Any, output: Tensor) -> None:
            kept["gates"] = gate_logits(output, architecture.head_dim).flatten(2)

        # Under LoRA the readout passes through the frozen weight alone (appendix B.3), not the adapter.
        frozen = getattr(module.o_proj, "base_layer", module.o_proj)

        def scale_inputs(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
            attention, changed = args[0], None
            if attention.shape[:2] != self.positions.shape:
                raise ValueError(
                    f"the forward has {list(attention.shape[:2])} tokens, `positions` are for {list(self.positions.shape)}: set "
                    "`attachment.positions` before each chunk of the prompt, and close `controlling` before decoding "
                    "(`generate` continues from the prompt's cache: past_key_values)"
                )
            for row, readout in self._at_work(scales=True):
                here = (row, readout.columns)
                changed = attention.clone() if changed is None else changed
                changed[here] = readout.scaled(index, attention[here])
            return args if changed is None else (changed, *args[1:])

        def add_updates(_: nn.Module, args: Any, output: Tensor) -> Tensor:
            changed = None
            for row, readout in self._at_work(scales=False):
                here = (row, readout.columns)
                gate = torch.sigmoid(kept["gates"][here]) if architecture.gated else None
                update = readout.update(index, kept["queries"][here], gate, frozen.weight)
                if update is not None:
                    changed = output.clone() if changed is None else changed
                    changed[here] = output[here] + update
            kept.clear()
            return output if changed is None else changed

        handles = [
            query_source(module).register_forward_hook(keep_queries),
            frozen.register_forward_pre_hook(scale_inputs),
            # Outside the adapter's wrapper: what the projection computes by itself stays as it is.
            module.o_proj.register_forward_hook(add_updates),
        ]
        if architecture.gated:
            handles.append(module.q_proj.register_forward_hook(keep_gates))
        return handles

    def _at_work(self, *, scales: bool) -> Iterator[tuple[int, RowReadout]]:
        """Yield the batch rows whose read acts in this chunk, by where it acts."""
        for row, readout in enumerate(self._readouts):
            if readout is not None and readout.controlled and readout.scales == scales:
                yield row, readout

    # Capturing

    @contextmanager
    def capturing(self, sink: Sink) -> Iterator[None]:
        """Call `sink(index_in_layers, keys, values)` at every forward inside, for every controlled layer.

        Keys are those before RoPE, after key normalisation where the architecture has one; values those after projection. Both
        are [batch, tokens, kv_heads, head_dim], not copied and not detached. Recomputation under activation checkpointing calls
        again. Raises ValueError when a capture is already open.
        """
        if "capture" in self._handles:
            raise ValueError("this attachment is capturing already; close the other context first")
        handles = self._handles["capture"] = []
        try:
            for index, module in enumerate(self._modules):
                handles.extend(self._capture_hooks(index, module, sink))
            yield
        finally:
            self._remove("capture")

    def _capture_hooks(self, index: int, module: Any, sink: Sink) -> list[RemovableHandle]:
        kept: dict[str, Tensor] = {}

        def keep_keys(_: nn.Module, args: Any, output: Tensor) -> None:
            kept["keys"] = per_head(output, self.architecture.head_dim)

        def give(_: nn.Module, args: Any, output: Tensor) -> None:
            # Every architecture computes values after keys.
            normalised = kept.pop("keys")
            sink(index, normalised, output.view(normalised.shape))

        return [key_source(module).register_forward_hook(keep_keys), module.v_proj.register_forward_hook(give)]

    def _remove(self, what: str) -> None:
        for handle in self._handles.pop(what):
            handle.remove()
