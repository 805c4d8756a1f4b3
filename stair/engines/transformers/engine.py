"""Batched decoding with Transformers' own models (section 'Engine' of docs/design.md)."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from stair.backbones.architecture import describe
from stair.backbones.load import load_model
from stair.engines.base import Capabilities, Completion, FinishReason, Replay, Request, Usage
from stair.engines.identity import transformers_version
from stair.engines.sampling import BatchSampler
from stair.engines.transformers.capture import DecodeCapture
from stair.engines.transformers.prefill import Prefilled, padded_length, prefill
from stair.engines.transformers.replay import replay_states
from stair.engines.transformers.slots import SlotCache
from stair.method import Attachment, Receipt, Segment

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float64": torch.float64}


@dataclass
class _Row:
    """A response under way."""

    request: Request
    receipt: Receipt | None
    ids: list[int] = field(default_factory=list)

    @property
    def length(self) -> int:
        """Tokens of prompt and response so far."""
        return len(self.request.prompt_ids) + len(self.ids)


class TransformersEngine:
    """Decodes a batch of fixed width; a row that ends is refilled at once.

    Every row of the batch is computed at every step, free rows too, and a row sees only its own slots: in FP32 a response
    has the same tokens alone and among others. Prompts are prefilled in passes of a fixed width too.

    Args:
        model: a frozen Transformers model, unmodified.
        tokens: how many ids are tokens of the tokenizer; ids beyond are never drawn.
        layers: layers that requests may capture or control; empty for none.
        batch_width: rows of the decoding batch.
        prefill_width: prompts that are prefilled together; above one, free rows wait for each other to be refilled.
        cache_block: the cache is read in whole blocks of this many positions.
    """

    name = "transformers"

    def __init__(
        self,
        model: Any,
        *,
        tokens: int,
        layers: tuple[int, ...] = (),
        batch_width: int = 16,
        prefill_width: int = 1,
        cache_block: int = 256,
    ) -> None:
        self._model, self._tokens, self._layers = model, tokens, layers
        self._width, self._block = batch_width, cache_block
        self._prefill_width = min(prefill_width, batch_width)
        parameter = next(model.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype
        self.version = transformers_version()
        self.attention = str(model.config._attn_implementation)
        self.dtype = str(parameter.dtype).removeprefix("torch.")
        self.device = torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else self._device.type
        self._architecture = describe(model.config.to_dict())
        if layers:
            self._architecture.check_controlled_layers(layers)
        self.capabilities = Capabilities(
            architectures=("qwen3", "qwen3_5"),
            read=bool(layers),
            capture=bool(layers),
            adapters=False,
            batch_invariant=True,
        )
        self._attachment = Attachment(model, layers) if layers else None
        self._submitted: deque[Request] = deque()
        self._shared: dict[tuple[int, ...], Prefilled] = {}
        self.steps = self.generated = 0
        """Decoding steps and tokens drawn since the engine was made."""

    @classmethod
    def load(
        cls,
        folder: Path | str,
        *,
        dtype: str,
        device: str,
        attention: str,
        tokens: int,
        revision: str | None = None,
        **options: Any,
    ) -> TransformersEngine:
        """Loads a model folder. `device` is auto, cpu or cuda; the other options are the constructor's."""
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        model = load_model(folder, dtype=DTYPES[dtype], device=device, attention=attention, revision=revision)
        return cls(model, tokens=tokens, **options)

    def submit(self, request: Request) -> None:
        """Adds a request to the run under way."""
        self._submitted.append(request)

    @torch.inference_mode()
    def replay(self, replay: Replay) -> Segment:
        """One pass over prompt and response; the last token drawn has no state, as in decoding."""
        assert self._attachment is not None, "a replay needs layers to capture"
        return replay_states(self._model, self._attachment, replay, self._device, self._architecture.context)

    @torch.inference_mode()
    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yields completions as responses end; see `Engine.run`.

        Raises:
            ValueError: a request needs what this engine cannot do, or holds an id outside the vocabulary.
            FloatingPointError: a response's logits became NaN; the message names it.
        """
        source = iter(requests)
        cache = SlotCache(self._model.config, self._width, self._block, self._device)
        facts = self._architecture
        sampler = BatchSampler(self._width, facts.vocabulary, self._tokens, self._device)
        capture = (
            DecodeCapture(
                self._layers, self._width, self._block, (facts.kv_heads, facts.head_dim), self._dtype, self._device
            )
            if self._layers
            else None
        )
        rows: list[_Row | None] = [None] * self._width
        logits = torch.zeros(self._width, facts.vocabulary, dtype=self._dtype, device=self._device)
        while True:
            free = [number for number, row in enumerate(rows) if row is None]
            if len(free) >= self._prefill_width:
                begun: list[Request] = []
                while len(begun) < len(free) and (request := self._next(source)) is not None:
                    if len(request.prompt_ids) < facts.context:
                        begun.append(request)
                        continue
                    states = capture.empty() if capture is not None and request.capture is not None else None
                    yield Completion(request.key, (), "context", states, None, Usage(len(request.prompt_ids), 0))
                for number, request, prefilled in zip(free[: len(begun)], begun, self._prefill(begun), strict=True):
                    cache.place(number, prefilled, len(request.prompt_ids))
                    sampler.start(number, request.prompt_ids, request.sampling, request.seed)
                    if capture is not None:
                        capture.start(number)
                    logits[number] = prefilled.logits
                    rows[number] = _Row(request, prefilled.receipt)
            if not any(rows):
                return
            drawn = self._draw(sampler, logits, rows)
            for number, row in enumerate(rows):
                if row is None:
                    continue
                row.ids.append(drawn[number])
                reason = _ended(row, facts.context)
                if reason is not None:
                    rows[number] = None
                    completion = self._complete(row, number, reason, capture)
                    cache.release(number)
                    if capture is not None:
                        capture.start(number)
                    yield completion
            if any(rows):
                logits = self._decode(rows, drawn, cache, capture)

    def _next(self, source: Iterator[Request]) -> Request | None:
        request = self._submitted.popleft() if self._submitted else next(source, None)
        if request is None:
            return None
        bad = [token for token in request.prompt_ids if not 0 <= token < self._tokens]
        if bad:
            raise ValueError(f"request {request.key[:12]}: token {bad[0]} is outside the vocabulary of {self._tokens}")
        if (request.read or request.capture) and not self._layers:
            raise ValueError(f"request {request.key[:12]} reads or captures, but the engine was made without layers")
        if request.capture and request.capture.layers != self._layers:
            raise ValueError(f"request {request.key[:12]} captures layers {request.capture.layers}, not {self._layers}")
        if request.adapter is not None:
            raise ValueError(f"request {request.key[:12]} needs an adapter, which this engine does not load")
        return request

    def _prefill(self, requests: Sequence[Request]) -> list[Prefilled]:
        """The processed prompts of the requests. Samples of one prompt without a read share one: the same numbers."""
        done: dict[int, Prefilled] = {}
        together: dict[int, list[int]] = defaultdict(list)
        first: dict[tuple[int, ...], int] = {}
        for number, request in enumerate(requests):
            if request.read is None and (known := self._shared.get(request.prompt_ids)) is not None:
                done[number] = known
            elif request.read is not None or first.setdefault(request.prompt_ids, number) == number:
                together[padded_length(request)].append(number)
        for numbers in together.values():
            for start in range(0, len(numbers), self._prefill_width):
                part = numbers[start : start + self._prefill_width]
                made = prefill(
                    self._model, self._attachment, [requests[n] for n in part], self._prefill_width, self._device
                )
                done.update(zip(part, made, strict=True))
        shared = {
            request.prompt_ids: done[first[request.prompt_ids]] for request in requests if request.prompt_ids in first
        }
        self._shared = shared or self._shared
        return [done[n] if n in done else shared[request.prompt_ids] for n, request in enumerate(requests)]

    def _draw(self, sampler: BatchSampler, logits: torch.Tensor, rows: list[_Row | None]) -> list[int]:
        active = torch.tensor([row is not None for row in rows], device=self._device)
        try:
            drawn: list[int] = sampler.draw(logits.masked_fill(~active[:, None], 0.0)).tolist()
        except FloatingPointError:
            broken = torch.isnan(logits).any(-1) & active
            names = [row.request.key[:12] for row, bad in zip(rows, broken.tolist(), strict=True) if row and bad]
            raise FloatingPointError(f"the model's logits became NaN in the responses {', '.join(names)}") from None
        self.steps += 1
        self.generated += sum(row is not None for row in rows)
        return drawn

    def _decode(
        self, rows: list[_Row | None], drawn: list[int], cache: SlotCache, capture: DecodeCapture | None
    ) -> torch.Tensor:
        """Processes the tokens just drawn; logits `[rows, vocabulary]`."""
        active = torch.tensor([row is not None for row in rows], device=self._device)
        ids = torch.tensor(drawn, device=self._device).masked_fill(~active, 0)[:, None]
        mask = cache.prepare(max(row.length for row in rows if row is not None))
        wanted = capture is not None and any(row is not None and row.request.capture is not None for row in rows)

        def forward() -> torch.Tensor:
            output = self._model(
                input_ids=ids,
                attention_mask={"full_attention": mask, "linear_attention": None},
                position_ids=cache.frontier.positions[:, None],
                past_key_values=cache,
                use_cache=True,
            )
            return output.logits[:, -1]

        if wanted:
            assert capture is not None and self._attachment is not None
            capture.prepare(max(len(row.ids) - 1 for row in rows if row is not None))
            with self._attachment.capturing(capture.sink):
                logits = forward()
            capture.advance(active)
        else:
            logits = forward()
        cache.advance(active)
        return logits

    def _complete(self, row: _Row, number: int, reason: FinishReason, capture: DecodeCapture | None) -> Completion:
        request, ids = row.request, tuple(row.ids)
        segment = None
        if request.capture is not None:
            assert capture is not None
            segment = capture.take(number, ids, request.stop_ids, request.capture)
        return Completion(request.key, ids, reason, segment, row.receipt, Usage(len(request.prompt_ids), len(ids)))


def _ended(row: _Row, context: int) -> FinishReason | None:
    """Whether the response has ended with the token just drawn, and why."""
    if row.ids[-1] in row.request.stop_ids:
        return "stop"
    if len(row.ids) >= row.request.max_new_tokens:
        return "length"
    # The token just drawn could still be processed only if a position is left for it.
    return "context" if row.length >= context else None
