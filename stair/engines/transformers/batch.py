"""The decoding batch: rows of running responses, their caches, their captured states, and the next draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from stair.engines.base import Completion, FinishReason, Request, Usage
from stair.engines.sampling import UNSOUND, BatchSampler
from stair.engines.transformers.decode_capture import DecodeCapture
from stair.engines.transformers.flash_step import stepping
from stair.engines.transformers.passes import layer_masks
from stair.engines.transformers.prefill import Prefilled
from stair.engines.transformers.slots import SlotCache
from stair.engines.transformers.step_graph import StepGraph
from stair.method import Attachment, Receipt
from stair.models.architecture import Architecture


@dataclass
class BatchRow:
    request: Request
    receipt: Receipt | None
    ids: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens of prompt and response so far."""
        return len(self.request.prompt_ids) + len(self.ids)


class Drawn(NamedTuple):
    """The responses that left the batch with a draw."""

    ended: list[Completion]
    unsound: list[str]
    """Keys of responses whose logits are NaN or infinite."""


class Batch:
    """A batch of fixed `width`. Every row is computed at every step, free rows too; a row sees only its own slots.

    `attachment` is None where nothing is captured. Ids from `tokens` on are never drawn. Caches grow in whole blocks of `block`
    positions.
    """

    def __init__(
        self, model: Any, attachment: Attachment | None, facts: Architecture, tokens: int, width: int, block: int
    ) -> None:
        self._model, self._attachment, self._facts = model, attachment, facts
        parameter = next(model.parameters())
        self._device = parameter.device
        self.width = width
        self.rows: list[BatchRow | None] = [None] * width
        self._cache = SlotCache(model.config, width, block, self._device)
        self._sampler = BatchSampler(width, facts.vocabulary, tokens, self._device)
        self._capture = None
        if attachment is not None:
            heads = (facts.kv_heads, facts.head_dim)
            self._capture = DecodeCapture(attachment.layers, width, block, heads, parameter.dtype, self._device)
        self._logits = torch.zeros(width, facts.vocabulary, dtype=parameter.dtype, device=self._device)
        self._graph = StepGraph(self._device.type == "cuda")
        self._active = torch.zeros(width, dtype=torch.bool, device=self._device)
        self._drawn = torch.zeros(width, dtype=torch.long, device=self._device)
        """`[rows]`, the tokens that wait to be processed."""

    @property
    def free(self) -> list[int]:
        """Rows that hold no response."""
        return [number for number, row in enumerate(self.rows) if row is None]

    def __bool__(self) -> bool:
        return any(row is not None for row in self.rows)

    # ---------------------------------------------------------------- rows come and go

    def begin(self, number: int, request: Request, prefilled: Prefilled) -> None:
        """Begins a response in a free row."""
        self._cache.place(number, prefilled, len(request.prompt_ids))
        self._sampler.start(number, request.prompt_ids, request.sampling, request.seed)
        if self._capture is not None:
            self._capture.start(number)
        self._logits[number] = prefilled.logits
        self._active[number] = True
        self.rows[number] = BatchRow(request, prefilled.receipt)

    def _release(self, number: int) -> None:
        self.rows[number] = None
        self._active[number] = False
        self._cache.release(number)
        if self._capture is not None:
            self._capture.start(number)

    # ---------------------------------------------------------------- a step

    def draw(self) -> Drawn:
        """Draws every row's next token; ended responses leave the batch."""
        self._drawn = self._sampler.draw(self._logits.masked_fill(~self._active[:, None], 0.0))
        tokens = self._drawn.tolist()  # the only copy of a step; it waits for the device
        under_way = [(number, row) for number, row in enumerate(self.rows) if row is not None]
        unsound = {number: row.request.key for number, row in under_way if tokens[number] == UNSOUND}
        for number, row in under_way:
            row.ids.append(tokens[number])
        # Memory can run out here too, so no row is released before all completions exist.
        ended = {
            number: self._complete(row, number, reason)
            for number, row in under_way
            if number not in unsound and (reason := _ended(row, self._facts.context)) is not None
        }
        for number in (*ended, *unsound):
            self._release(number)
        return Drawn(list(ended.values()), list(unsound.values()))

    def decode(self) -> None:
        """Processes the tokens just drawn."""
        rows = [row for row in self.rows if row is not None]
        ids = self._drawn.masked_fill(~self._active, 0)[:, None]
        mask = self._cache.prepare(max(row.length for row in rows))
        wanted = self._capture is not None and any(row.request.capture is not None for row in rows)
        forward, kind = self._forward, (self._cache.frontier.visible, self._cache.capacity, 0)
        if wanted:
            assert self._capture is not None
            self._capture.prepare(max(len(row.ids) - 1 for row in rows))
            forward, kind = self._capturing_forward, (*kind[:2], self._capture.capacity)
        if self._graph.prepare(kind, forward, ids, mask):
            logits = self._graph.launch(ids, mask)
        else:
            logits = forward(ids, mask)
        if wanted:
            assert self._capture is not None
            self._capture.advance(self._active)
        self._cache.advance(self._active)
        self._logits = logits

    def _capturing_forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        assert self._capture is not None and self._attachment is not None
        with self._attachment.capturing(self._capture.sink):
            return self._forward(ids, mask)

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with stepping(self._model.config):
            logits: torch.Tensor = self._model(
                input_ids=ids,
                attention_mask=layer_masks(self._model, mask, None),
                position_ids=self._cache.frontier.positions[:, None],
                past_key_values=self._cache,
                use_cache=True,
            ).logits[:, -1]
        return logits

    def _complete(self, row: BatchRow, number: int, reason: FinishReason) -> Completion:
        request, ids = row.request, tuple(row.ids)
        segment = None
        if request.capture is not None:
            assert self._capture is not None
            segment = self._capture.segment(number, ids, request.stop_ids, request.capture)
        usage = Usage(len(request.prompt_ids), len(ids))
        return Completion(request.key, ids, reason, segment, row.receipt, usage)


def unsound_reason(dtype: str) -> str:
    """Why a response of a model of that precision has no logits."""
    return (
        f"the model's logits became NaN or infinite: its weights are damaged, or {dtype} is too narrow for it; finished "
        "responses are kept"
    )


def _ended(row: BatchRow, context: int) -> FinishReason | None:
    """Whether the response has ended with the token just drawn, and why."""
    if row.ids[-1] in row.request.stop_ids:
        return "stop"
    if len(row.ids) >= row.request.max_new_tokens:
        return "length"
    # The token just drawn could still be processed only if a position is left for it.
    return "context" if row.length >= context else None
