"""Batched decoding with Transformers' own models (`The decoding batch` in docs/design.md)."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from stair.core import EngineIdentity
from stair.engines.base import Completion, Reconstruction, Request, Usage
from stair.engines.identity import transformers_version
from stair.engines.transformers.batch import Batch, unsound_reason
from stair.engines.transformers.passes import PAD_BLOCK, Passes, reconstruct_states
from stair.engines.transformers.prefill import Prefill, Prefilled
from stair.method import Attachment, Segment, load_adapter
from stair.models.architecture import describe
from stair.models.attention import configured
from stair.models.device_and_dtype import DTYPES, device_for, out_of_memory
from stair.models.load import load_model


class TransformersEngine:
    """Decodes a batch of fixed width; a row that ends is refilled at once.

    Every row of the batch is computed at every step, free rows too, and a row sees only its own slots: in FP32 a response
    has the same tokens alone and among others. When the device runs out of memory, the running responses start again in a
    batch of half the width, and draw the same tokens. The width is whole again once no response, counted as long as it was
    before it started again, is longer than half of the longest then.

    Args:
        model: a frozen Transformers model, unmodified or with an adapter's layers in it.
        tokens: the number of the tokenizer's tokens; larger ids are never drawn.
        layers: layers that requests may capture or control; empty for none.
        batch_width: rows of the decoding batch.
        prefill_width: prompts that are prefilled together; above one, free rows wait for each other to be refilled.
        prefill_chunk: tokens of a prompt that are processed at once, a multiple of 64.
        cache_block: the cache is read in whole blocks of this many positions.
        adapter: the digest of the model's adapter; every request must name it.
    """

    def __init__(
        self,
        model: Any,
        *,
        tokens: int,
        layers: tuple[int, ...] = (),
        batch_width: int = 16,
        prefill_width: int = 1,
        prefill_chunk: int = 8192,
        cache_block: int = 256,
        adapter: str | None = None,
    ) -> None:
        assert prefill_chunk % PAD_BLOCK == 0
        self.model, self._tokens, self._layers, self._adapter = model, tokens, layers, adapter
        self._width, self._block = batch_width, cache_block
        parameter = next(model.parameters())
        self._device = parameter.device
        self.identity = EngineIdentity(
            "transformers",
            transformers_version(),
            attention=configured(model),
            dtype=str(parameter.dtype).removeprefix("torch."),
            device=torch.cuda.get_device_name(self._device) if self._device.type == "cuda" else self._device.type,
        )
        self.architecture = describe(model.config.to_dict())
        if layers:
            self.architecture.check_controlled_layers(layers)
        self._attachment = Attachment(model, layers) if layers else None
        self._passes = Passes(model, self._attachment, min(prefill_width, batch_width), prefill_chunk, self._device)
        self.reconstructions_at_once = batch_width if self._passes.width > 1 else 1
        self._submitted: deque[Request] = deque()
        self._ended: deque[Completion] = deque()
        self._batch: Batch | None = None
        self._prefill = Prefill(self._passes)
        self._whole = self._width, self._passes
        self._reached: dict[str, int] = {}
        """The most tokens of responses that started again, by key."""
        self._crowded = 0
        """The most tokens of a response when memory last ran out."""
        self.watch: Callable[[int, int], None] | None = None
        self.failed: Callable[[str, str], None] | None = None
        self.drawn: Callable[[str, Sequence[int]], None] | None = None
        """Called after each step with the key and the tokens of every response that goes on."""
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
        adapter: tuple[Path, str] | None = None,
        **options: Any,
    ) -> TransformersEngine:
        """Loads a model folder. `device` is auto, cpu or cuda; `options` are the constructor's.

        `adapter` is the folder of a trained adapter and its digest. Its layers are not merged, so that its numbers are those of
        training. Raises ValueError without such a model or adapter, or if FlashAttention2 has no GPU.
        """
        device = device_for(device, attention)
        model: Any = load_model(folder, dtype=DTYPES[dtype], device=device, attention=attention)
        if adapter is not None:
            model = load_adapter(model, adapter[0]).get_base_model()
            options["adapter"] = adapter[1]
        return cls(model, tokens=tokens, **options)

    def submit(self, request: Request) -> None:
        self._submitted.append(request)

    def reconstruct(self, reconstructions: Sequence[Reconstruction]) -> list[Segment]:
        """Passes over prompts and responses; the last token drawn has no state, as in decoding."""
        assert self._attachment is not None, "a reconstruction needs layers to capture"
        for reconstruction in reconstructions:
            self._check_adapter(reconstruction)
        while True:
            try:
                return reconstruct_states(self._passes, reconstructions, self.architecture.context)
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                message = str(error)
            if not self._make_room():
                raise MemoryError(_too_small(message))

    @torch.inference_mode()
    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        """Yields completions as responses end; see `Engine.run`.

        Raises:
            ValueError: a request needs what this engine cannot do, or has an id outside the vocabulary.
            FloatingPointError: without `failed`: a response's logits are NaN or infinite.
            MemoryError: without `failed`: the device's memory does not suffice for one response.
        """
        source = iter(requests)
        self._ended.clear()
        self._submitted.clear()
        self._reached.clear()
        self._width, self._passes = self._whole
        self._batch, self._prefill = self._new_batch(), Prefill(self._passes)
        while True:
            try:
                yield from self._refill(source)
                narrow = self._width < self._whole[0] and not self._current.free
                if narrow and self._longest() <= self._crowded // 2:
                    self._restart(*self._whole)
                    continue
                running = self._current.width - len(self._current.free)
                if not running:
                    return
                self.steps += 1
                self.generated += running
                if self.watch is not None:
                    self.watch(running, self.generated)
                drawn = self._current.draw()
                self._ended.extend(drawn.ended)
                if self.drawn is not None:
                    for row in self._current.rows:
                        if row is not None:
                            self.drawn(row.request.key, row.ids)
                while self._ended:
                    yield self._ended.popleft()
                for key in drawn.unsound:
                    self._give_up(key, FloatingPointError, unsound_reason(self.identity.dtype))
                if self._current:
                    self._current.decode()
                continue
            except RuntimeError as error:
                if not out_of_memory(error):
                    raise
                message = str(error)
            # After the handler, because the error holds tensors of the failed step.
            if not self._make_room():
                # The one running response is first in line again. If none was running, the first could not begin.
                self._give_up(self._submitted.popleft().key, MemoryError, _too_small(message))

    def ended(self) -> list[Completion]:
        """Finished responses of the last step that were not yielded; see `Engine.ended`."""
        completions = list(self._ended)
        self._ended.clear()
        return completions

    @property
    def _current(self) -> Batch:
        """The running batch. No frame that outlives a step holds it: a discarded batch would keep its memory."""
        assert self._batch is not None
        return self._batch

    def _new_batch(self) -> Batch:
        return Batch(self.model, self._attachment, self.architecture, self._tokens, self._width, self._block)

    def _refill(self, source: Iterator[Request]) -> Iterator[Completion]:
        """Fills free rows; yields what has no room in the context at all."""
        free = len(self._current.free)
        # Where prompts go through in passes of several, passes should be full: a quarter of the rows waits for each other.
        if self._passes.width > 1 and free < max(self._passes.width, self._current.width // 4):
            return
        if not free:
            return
        begun: list[Request] = []
        while len(begun) < free and (request := self._next(source)) is not None:
            if len(request.prompt_ids) < self.architecture.context:
                begun.append(request)
                continue
            states = self._no_states() if request.capture is not None else None
            usage = Usage(len(request.prompt_ids), 0)
            yield Completion(request.key, (), "context", states, None, usage)
        # Drawing requests can have reconstructed states, and so run out of memory and made the batch narrower.
        batch, waiting = self._current, dict(enumerate(begun))
        rows = batch.free

        def place(number: int, prefilled: Prefilled) -> None:
            batch.begin(rows[number], waiting[number], prefilled)
            del waiting[number]

        try:
            self._prefill(begun[: len(rows)], place)
        finally:
            self._submitted.extendleft(reversed(waiting.values()))

    def _next(self, source: Iterator[Request]) -> Request | None:
        try:
            request = self._submitted.popleft() if self._submitted else next(source, None)
        except (
            RuntimeError
        ) as error:  # a generator that raised is at its end: its further requests would be lost silently
            if not out_of_memory(error):
                raise
            raise MemoryError(_too_small(str(error))) from None
        if request is None:
            return None
        bad = [token for token in request.prompt_ids if not 0 <= token < self._tokens]
        if bad:
            raise ValueError(f"request {request.key[:12]}: token {bad[0]} is outside the vocabulary of {self._tokens}")
        if (request.read or request.capture) and not self._layers:
            raise ValueError(f"request {request.key[:12]} reads or captures, but the engine was made without layers")
        if request.capture and request.capture.layers != self._layers:
            raise ValueError(f"request {request.key[:12]} captures layers {request.capture.layers}, not {self._layers}")
        self._check_adapter(request)
        return request

    def _check_adapter(self, request: Request | Reconstruction) -> None:
        if request.adapter != self._adapter:
            raise ValueError(
                f"request {request.key[:12]} is for the adapter {(request.adapter or 'none')[:12]}, and this engine's model "
                f"carries {(self._adapter or 'none')[:12]}"
            )

    def _no_states(self) -> Segment:
        facts = self.architecture
        nothing = torch.zeros(len(self._layers), facts.kv_heads, 0, facts.head_dim, dtype=DTYPES[self.identity.dtype])
        return Segment(self._layers, nothing, nothing.clone())

    def _make_room(self) -> bool:
        """Starts the running responses again in a narrower batch, or with smaller chunks of prompts.

        If neither can shrink, they start again at the whole width, and the result is False.
        """
        chunk = self._passes.chunk
        if self._width > 1:
            width = self._width // 2
            self._restart(width, replace(self._passes, width=min(self._passes.width, width)))
            now = f"the batch starts again with {width} rows"
        elif chunk > PAD_BLOCK:
            chunk = max(chunk // 2 // PAD_BLOCK, 1) * PAD_BLOCK
            self._restart(1, replace(self._passes, chunk=chunk))
            now = f"prompts are processed in chunks of {chunk} tokens"
        else:
            self._restart(*self._whole)
            return False
        self._crowded = self._longest()
        print(f"warning: out of memory on {self.identity.device}: {now}", file=sys.stderr, flush=True)
        return True

    def _restart(self, width: int, passes: Passes) -> None:
        """Replaces the batch by one of another width. Its responses start again before others, the longest first."""
        running = self._batch is not None
        rows = [row for row in (self._batch.rows if self._batch is not None else ()) if row is not None]
        for row in sorted(rows, key=lambda row: row.length):
            key = row.request.key
            self._reached[key] = max(row.length, self._reached.get(key, 0))
            self._submitted.appendleft(row.request)
        self._width, self._passes = width, passes
        self._batch, self._prefill = None, Prefill(passes)
        gc.collect()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()
        if running:
            self._batch = self._new_batch()

    def _longest(self) -> int:
        """The most tokens of a response that runs or waits for a row, as far as they are known."""
        lengths = {request.key: len(request.prompt_ids) for request in self._submitted}
        if self._batch is not None:
            lengths |= {row.request.key: row.length for row in self._batch.rows if row is not None}
        return max((max(length, self._reached.get(key, 0)) for key, length in lengths.items()), default=0)

    def _give_up(self, key: str, error: type[Exception], reason: str) -> None:
        """Continues without a response; raises the error if nothing is to be called about it."""
        if self.failed is None:
            raise error(f"response {key[:12]}: {reason}")
        self.failed(key, reason)


def _too_small(error: str) -> str:
    return (
        "the device's memory does not suffice for a single response; finished responses are kept: run this on a device with more "
        f"memory ({error.splitlines()[0]})"
    )
