"""Passes of whole sequences through the model: several rows together, in chunks, with reads and capture.

`reconstruct_states` makes bank states from saved tokens with such passes (appendices B.1 and C.4).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicCache

from stair.engines.base import Reconstruction
from stair.method import Attachment, Read, Receipt, Segment, capture_length
from stair.models.flash_kernels import PACKAGES

PAD_BLOCK = 32
"""Sequences that are processed together are padded on the left to whole blocks of this many tokens.

A sequence's padding depends on its own length alone. A whole block keeps its sums in the same vector lanes: so its numbers.
"""

ChunkSink = Callable[[int, int, Tensor, Tensor], None]
"""Receives one chunk at one layer: the layer's index, the chunk's first column, keys and values [rows, columns, heads, dim]."""


@dataclass(frozen=True)
class Pass:
    """The result of a pass."""

    cache: DynamicCache | None
    """States of all rows, where they were to be kept."""
    paddings: tuple[int, ...]
    """Columns before each row's first token."""
    logits: Tensor
    """`[rows, vocabulary]`, behind each row's last token."""
    receipts: tuple[Receipt | None, ...]


@dataclass(frozen=True)
class Passes:
    """How sequences go through a model.

    Args:
        model: a frozen Transformers model.
        attachment: its hooks, where reads or captures are asked for.
        width: rows of every pass, all computed: a sequence's arithmetic depends on nothing else. A width of one pads nothing.
        chunk: columns that are processed at once; a multiple of `PAD_BLOCK`.
        device: the model's.
    """

    model: Any
    attachment: Attachment | None
    width: int
    chunk: int
    device: torch.device

    def columns(self, tokens: int) -> int:
        """Columns that a sequence takes; sequences of equal columns can share a pass."""
        return -(-tokens // PAD_BLOCK) * PAD_BLOCK if self.width > 1 else tokens

    @torch.inference_mode()
    def run(
        self,
        rows: Sequence[Sequence[int]],
        reads: Sequence[Read | None],
        *,
        keep: bool,
        sink: ChunkSink | None = None,
    ) -> Pass:
        """Processes sequences of equal `columns` in one pass; `keep` says whether their states are needed afterwards."""
        assert 1 <= len(rows) <= self.width and len(rows) == len(reads)
        columns = self.columns(len(rows[0]))
        paddings = [columns - len(row) for row in rows]
        # A column's position in its row's conversation, negative where it is padding.
        positions = torch.arange(columns) - torch.tensor([*paddings, *paddings[:1] * (self.width - len(rows))])[:, None]
        ids = torch.zeros(self.width, columns, dtype=torch.long)
        for number, row in enumerate(rows):
            ids[number, paddings[number] :] = torch.tensor(row)
        # These copies come before a bank's transfer; behind it they would wait.
        ids, places = ids.to(self.device), positions.to(self.device)
        # One row has no mask. Without a mask and without a cache, Transformers would search the positions for packed sequences.
        cache = DynamicCache(config=self.model.config)
        receipts: Sequence[Receipt | None] = [None] * len(rows)
        with ExitStack() as stack:
            for read in reads:
                if read is not None and read.bank is not None:
                    stack.callback(read.bank.release)  # the device copy serves this pass only, also one that breaks off
            if any(reads):
                assert self.attachment is not None, "a read needs controlled layers"
                of_all_rows = [*reads, *[None] * (self.width - len(rows))]
                first = positions[:, : self.chunk]
                receipts = stack.enter_context(self.attachment.controlling(of_all_rows, first))
            for start in range(0, columns, self.chunk):
                chunk = slice(start, min(start + self.chunk, columns))
                if start and any(reads):
                    assert self.attachment is not None
                    self.attachment.positions = positions[:, chunk]
                logits = self._forward(ids, places, chunk, cache, sink)
        row_receipts = tuple(
            None if read is None else receipt for read, receipt in zip(reads, receipts[: len(rows)], strict=True)
        )
        return Pass(cache if keep else None, tuple(paddings), logits, row_receipts)

    def _forward(
        self,
        ids: Tensor,
        positions: Tensor,
        chunk: slice,
        cache: DynamicCache,
        sink: ChunkSink | None,
    ) -> Tensor:
        """One chunk; logits `[rows, vocabulary]` behind its last column."""
        visible = positions[:, : chunk.stop]
        with ExitStack() as stack:
            if sink is not None:
                assert self.attachment is not None, "a capture needs controlled layers"
                stack.enter_context(
                    self.attachment.capturing(lambda index, keys, values: sink(index, chunk.start, keys, values))
                )
            logits: Tensor = self.model(
                input_ids=ids[:, chunk],
                attention_mask=_masks(visible, chunk, self.model) if self.width > 1 else None,
                position_ids=visible[:, chunk].clamp_min(0),
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
        return logits


def _masks(positions: Tensor, chunk: slice, model: Any) -> Any:
    """Masks of one chunk's queries over the columns so far, padding left out.

    A padding column sees itself, because a softmax over nothing has no value.
    """
    real = positions >= 0
    if model.config._attn_implementation in PACKAGES:
        return layer_masks(model, real, real[:, chunk])
    columns = torch.arange(positions.shape[1], device=positions.device)
    queries = columns[chunk, None]
    visible = ((queries >= columns) & real[:, None, :]) | (queries == columns)
    additive = torch.zeros(visible.shape, dtype=model.dtype, device=visible.device).masked_fill(~visible, -torch.inf)
    return layer_masks(model, additive[:, None], real[:, chunk])


def layer_masks(model: Any, full: Tensor, linear: Tensor | None) -> Tensor | dict[str, Tensor | None]:
    """Return the mask of full attention, or one mask by kind of layer where the model has kinds of layers."""
    if getattr(model.config, "layer_types", None) is None:
        return full
    return {"full_attention": full, "linear_attention": linear}


def reconstruct_states(passes: Passes, reconstructions: Sequence[Reconstruction], context: int) -> list[Segment]:
    """The states that decoding would have captured, from passes over prompts and saved responses.

    A response that was generated with a read is processed with the same read.
    """
    together: dict[int, list[int]] = defaultdict(list)
    sequences = [_sequence(each, context) for each in reconstructions]
    for number, sequence in enumerate(sequences):
        together[passes.columns(len(sequence))].append(number)
    segments_by_number: dict[int, Segment] = {}
    for numbers in together.values():
        for start in range(0, len(numbers), passes.width):
            part = numbers[start : start + passes.width]
            segments = _captured(passes, [reconstructions[n] for n in part], [sequences[n] for n in part])
            segments_by_number.update(zip(part, segments, strict=True))
    return [segments_by_number[number] for number in range(len(reconstructions))]


def _sequence(each: Reconstruction, context: int) -> tuple[int, ...]:
    """The processed tokens: the token drawn last has no state, as in decoding."""
    if len(each.prompt_ids) >= context:  # nothing was generated, and nothing can be processed
        return each.prompt_ids[:1]
    return (*each.prompt_ids, *each.response_ids[:-1])


def _captured(
    passes: Passes, reconstructions: Sequence[Reconstruction], sequences: Sequence[tuple[int, ...]]
) -> list[Segment]:
    """The segments of sequences of equal columns, in one pass."""
    columns = passes.columns(len(sequences[0]))
    wanted = []
    for each, sequence in zip(reconstructions, sequences, strict=True):
        length = capture_length(each.response_ids, end_of_thinking=each.capture.end_of_thinking, stop_ids=each.stop_ids)
        start = columns - len(sequence) + len(each.prompt_ids)
        wanted.append(slice(start, start + length))
    layers = reconstructions[0].capture.layers
    # Of each row and layer: keys and values of the captured columns, chunk after chunk.
    kept: list[list[list[tuple[Tensor, Tensor]]]] = [[[] for _ in layers] for _ in reconstructions]

    def sink(index: int, first: int, keys: Tensor, values: Tensor) -> None:
        for row, span in enumerate(wanted):
            here = slice(max(span.start - first, 0), max(span.stop - first, 0))
            # [tokens, kv_heads, head_dim] to [kv_heads, tokens, head_dim]
            kept[row][index].append((keys[row, here].transpose(0, 1), values[row, here].transpose(0, 1)))

    passes.run(sequences, [each.read for each in reconstructions], keep=False, sink=sink)

    def joined(chunks: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        keys, values = zip(*chunks, strict=True)
        # To the host at the end: a copy between the layers would wait for the device.
        return torch.cat(keys, dim=1).cpu(), torch.cat(values, dim=1).cpu()

    return [Segment.of_layers(layers, [joined(chunks) for chunks in row]) for row in kept]
