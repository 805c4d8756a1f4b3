"""Passes of whole sequences through the model: several rows together, in chunks, with the auxiliary branch, with capture."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from transformers.cache_utils import DynamicCache

from stair.engines.base import Read
from stair.engines.transformers.layer_masks import layer_masks
from stair.method import Attachment, Receipt, RowControl

PAD_BLOCK = 32
"""Sequences that are processed together are padded on the left to whole blocks of this many tokens.

How much a sequence is padded depends on its own length alone, and a whole block keeps its sums in the same vector lanes
wherever it lies: so do its numbers.
"""

ChunkSink = Callable[[int, int, torch.Tensor, torch.Tensor], None]
"""Receives one chunk at one layer: the layer's index, the chunk's first column, keys and values [rows, columns, heads, dim]."""


@dataclass(frozen=True)
class Pass:
    """The result of a pass."""

    cache: DynamicCache | None
    """States of all rows, where they were to be kept."""
    paddings: tuple[int, ...]
    """Columns before each row's first token."""
    logits: torch.Tensor
    """`[rows, vocabulary]`, behind each row's last token."""
    receipts: tuple[Receipt | None, ...]


@dataclass(frozen=True)
class Passes:
    """How sequences go through a model.

    Args:
        model: a frozen Transformers model.
        attachment: its hooks, where reads or captures are asked for.
        width: rows of every pass. Rows that nothing takes are computed too, so that a sequence's arithmetic depends on
            nothing else. With a width of one nothing is padded.
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
        cache = DynamicCache(config=self.model.config) if keep or columns > self.chunk else None
        receipts: Sequence[Receipt | None] = [None] * len(rows)
        with ExitStack() as stack:
            for read in reads:
                if read is not None and read.bank is not None:
                    stack.callback(read.bank.release)  # the device copy serves this pass only, also one that breaks off
            if any(reads):
                assert self.attachment is not None, "a read needs controlled layers"
                controls = [None if read is None else row_control(read) for read in reads]
                controls += [None] * (self.width - len(rows))
                first = positions[:, : self.chunk]
                receipts = stack.enter_context(self.attachment.controlling(controls, first))
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
        ids: torch.Tensor,
        positions: torch.Tensor,
        chunk: slice,
        cache: DynamicCache | None,
        sink: ChunkSink | None,
    ) -> torch.Tensor:
        """One chunk; logits `[rows, vocabulary]` behind its last column."""
        visible = positions[:, : chunk.stop]
        with ExitStack() as stack:
            if sink is not None:
                assert self.attachment is not None, "a capture needs controlled layers"
                stack.enter_context(
                    self.attachment.capturing(lambda index, keys, values: sink(index, chunk.start, keys, values))
                )
            logits: torch.Tensor = self.model(
                input_ids=ids[:, chunk],
                attention_mask=_masks(visible, chunk, self.model) if self.width > 1 else torch.ones_like(visible),
                position_ids=visible[:, chunk].clamp_min(0),
                past_key_values=cache,
                use_cache=cache is not None,
                logits_to_keep=1,
            ).logits[:, -1]
        return logits


def _masks(positions: torch.Tensor, chunk: slice, model: Any) -> Any:
    """Masks of one chunk's queries over the columns so far, padding left out.

    A padding column sees itself, because a softmax over nothing has no value.
    """
    real = positions >= 0
    if model.config._attn_implementation == "flash_attention_2":
        return layer_masks(model, real, real[:, chunk])
    columns = torch.arange(positions.shape[1], device=positions.device)
    queries = columns[chunk, None]
    visible = ((queries >= columns) & real[:, None, :]) | (queries == columns)
    additive = torch.zeros(visible.shape, dtype=model.dtype, device=visible.device).masked_fill(~visible, -torch.inf)
    return layer_masks(model, additive[:, None], real[:, chunk])


def row_control(read: Read) -> RowControl:
    """A request's read as the method's hooks take it."""
    return RowControl(
        controller=read.controller,
        bank=read.bank,
        span=read.span,
        specification=read.specification,
    )
