"""The decoding batch: rows of running responses, their caches, their captured states, and the next draw."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

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
class Row:
    request: Request
    receipt: Receipt | None
    ids: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens of prompt and response so far."""
        return len(self.request.prompt_ids) + len(self.ids)


class UnsoundLogits(FloatingPointError):
    """Logits of the responses `keys` that became NaN or infinite in a model of precision `dtype`."""

    def __init__(self, keys: list[str], dtype: torch.dtype) -> None:
        self.keys = keys
        self.reason = (
            f"the model's logits became NaN or infinite: its weights are damaged, or {str(dtype).removeprefix('torch.')} is too "
            "narrow for it; finished responses are kept"
        )
        super().__init__(f"responses {', '.join(key[:12] for key in keys)}: {self.reason}")


@dataclass(frozen=True)
class Parked:
    """A response that was taken out of a batch before its next draw; its states are on the host."""

    row: Row
    states: Prefilled
    captured: tuple[torch.Tensor, torch.Tensor] | None


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
        self._invariant = seen_as_invariant(parameter.dtype)
        self.width = width
        self.rows: list[Row | None] = [None] * width
        self._cache = SlotCache(model.config, width, block, self._device)
        self._sampler = BatchSampler(width, facts.vocabulary, tokens, self._device)
        self._capture = None
        if attachment is not None:
            heads = (facts.kv_heads, facts.head_dim)
            self._capture = DecodeCapture(attachment.layers, width, block, heads, parameter.dtype, self._device)
        self._logits = torch.zeros(width, facts.vocabulary, dtype=parameter.dtype, device=self._device)
        self._graph = StepGraph(self._device.type == "cuda", self._cache.recording)
        self._active = torch.zeros(width, dtype=torch.bool, device=self._device)
        self._drawn: torch.Tensor | None = None
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
        self._put(number, Row(request, prefilled.receipt), prefilled)
        if self._capture is not None:
            self._capture.start(number)

    def resume(self, number: int, parked: Parked) -> None:
        """Continues a parked response in a free row."""
        # Memory can run out in either: the response takes the row last, so that it is here or still parked, never both.
        if self._capture is not None and parked.captured is not None:
            self._capture.put_back(number, parked.captured)
        self._put(number, parked.row, parked.states)

    def _put(self, number: int, row: Row, states: Prefilled) -> None:
        request = row.request
        # Before its first draw a response has processed its prompt, later all that it has.
        self._cache.place(number, states, row.length)
        self._sampler.start(number, request.prompt_ids, request.sampling, request.seed, row.ids)
        self._logits[number] = states.logits
        self.rows[number] = row
        self._active[number] = True

    def park(self) -> list[Parked]:
        """Takes every response out, the longest first. An interrupted step is undone: its tokens are drawn again."""
        self._cache.take_back()
        parked = []
        for number, row in enumerate(self.rows):
            if row is None:
                continue
            if self._drawn is not None:
                row.ids.pop()
            states = Prefilled(self._cache.lift(number, row.length), 0, 0, self._logits[number].cpu(), row.receipt)
            captured = None
            if self._capture is not None and row.request.capture is not None:
                captured = self._capture.lift(number, len(row.ids))
            parked.append(Parked(row, states, captured))
        self.rows = [None] * self.width
        return sorted(parked, key=lambda each: -each.row.length)

    def _release(self, number: int) -> None:
        self.rows[number] = None
        self._active[number] = False
        self._cache.release(number)
        if self._capture is not None:
            self._capture.start(number)

    # ---------------------------------------------------------------- a step

    def draw(self) -> list[Completion]:
        """Draws every row's next token; ended responses leave the batch.

        Raises:
            UnsoundLogits: the logits of some responses are NaN or infinite; nothing is drawn then.
        """
        tokens = self._sampler.draw(self._logits.masked_fill(~self._active[:, None], 0.0))
        drawn = tokens.tolist()  # the only copy of a step; it waits for the device
        under_way = [(number, row) for number, row in enumerate(self.rows) if row is not None]
        if unsound := [row.request.key for number, row in under_way if drawn[number] == UNSOUND]:
            raise UnsoundLogits(unsound, self._logits.dtype)
        for number, row in under_way:
            row.ids.append(drawn[number])
        self._drawn = tokens
        # Memory can run out here too, so no row is given up before all that ended are safe.
        ended = {
            number: self._complete(row, number, reason)
            for number, row in under_way
            if (reason := _ended(row, self._facts.context)) is not None
        }
        for number in ended:
            self._release(number)
        if not self:
            self._drawn = None  # nothing waits for this step: responses that come now have drawn nothing in it
        return list(ended.values())

    def decode(self) -> None:
        """Processes the tokens just drawn."""
        assert self._drawn is not None
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
            self._cache.begin()
            logits = forward(ids, mask)
        if wanted:
            assert self._capture is not None
            self._capture.advance(self._active)
        self._cache.advance(self._active)
        self._logits, self._drawn = logits, None

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

    def _complete(self, row: Row, number: int, reason: FinishReason) -> Completion:
        request, ids = row.request, tuple(row.ids)
        segment = None
        if request.capture is not None:
            assert self._capture is not None
            segment = self._capture.segment(number, ids, request.stop_ids, request.capture)
        usage = Usage(len(request.prompt_ids), len(ids))
        return Completion(request.key, ids, reason, segment, row.receipt, usage, batch_invariant=self._invariant)


def seen_as_invariant(dtype: torch.dtype) -> bool | None:
    """Whether a response has the same tokens alone and in a batch; None if nobody has compared them.

    Tests compare them in FP32 and FP64. In 16 bits near ties are frequent.
    """
    return True if dtype.itemsize >= 4 else None


def _ended(row: Row, context: int) -> FinishReason | None:
    """Whether the response has ended with the token just drawn, and why."""
    if row.ids[-1] in row.request.stop_ids:
        return "stop"
    if len(row.ids) >= row.request.max_new_tokens:
        return "length"
    # The token just drawn could still be processed only if a position is left for it.
    return "context" if row.length >= context else None
