"""The runtime of one history at batch one (appendix C.4): its bank's construction, then transfer, prefill and decoding."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import torch

from stair.core import ReadSpecification
from stair.engines.base import Capture, Reconstruction, Request, SamplingSettings
from stair.engines.transformers.batch import Batch, unsound_reason
from stair.engines.transformers.passes import Pass, Passes, reconstruct_states
from stair.engines.transformers.prefill import Prefilled
from stair.method import Attachment, Bank, Read, Reflector, Segment

NATIVE, FULL, CONSTRUCTION = "native", "full", "construction"


@dataclass(frozen=True)
class TimedHistory:
    """A T1 turn and the T2 prompt behind it.

    Attributes:
        name: `<session>-<sample>`, or `random-<number>`.
        first_prompt: token ids of the T1 prompt.
        response: token ids of the T1 response with the stop token.
        prompt: token ids of the full visible T2 prompt.
        span: the control span in `prompt`, end exclusive.
        entries: states that the response gives to the bank.
    """

    name: str
    first_prompt: tuple[int, ...]
    response: tuple[int, ...]
    prompt: tuple[int, ...]
    span: tuple[int, int]
    entries: int


@dataclass(frozen=True)
class Method:
    """How everything is measured: the engine's settings, the rows and the number of repetitions."""

    sampling: SamplingSettings
    vocabulary: int
    """Tokens of the tokenizer: ids from here on are never drawn."""
    stop_ids: tuple[int, ...]
    """End markers of saved responses; measured decoding ignores them."""
    end_of_thinking: int | None
    chunk: int
    block: int
    read: ReadSpecification
    prefixes: tuple[int, ...]
    """Readable entries of the rows between Native and the full bank."""
    tokens: int
    """Tokens that are decoded, exactly."""
    warmups: int
    repetitions: int


class PrefixBank(Bank):
    """The first `entries` states of a segment, moved and held alone; queries keep the positions behind the whole segment.

    The read equals that of the whole bank with `ReadSpecification.limit`.
    """

    def __init__(self, segment: Segment, entries: int) -> None:
        self._whole = segment.tokens
        keys, values = (states[:, :, :entries].contiguous() for states in (segment.keys, segment.values))
        super().__init__(segment.layers, [Segment(segment.layers, keys, values)])

    @property
    def tokens(self) -> int:
        """M, the entries of the whole bank."""
        return self._whole


class Measurer:
    """Measures histories on one frozen model; `controller` reads the banks."""

    def __init__(self, model: Any, controller: Reflector, method: Method) -> None:
        self._model, self._method = model, method
        parameter = next(model.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype
        self._controller = controller.to(self._device)
        self._attachment = Attachment(model, controller.layers)
        self._facts = self._attachment.architecture
        self._passes = Passes(model, self._attachment, 1, method.chunk, self._device)

    def measure(self, history: TimedHistory) -> list[dict[str, Any]]:
        """A history's timed repetitions: the bank's construction, then Native, the prefixes and the full bank.

        Raises ValueError if a read controls no token, or its readout is zero or not finite.
        """
        method, found = self._method, []
        for number in range(1 - method.warmups, method.repetitions + 1):
            start = self._now()
            segment = self.construct(history)
            seconds = self._now() - start
            if number > 0:
                found.append(dict(row=CONSTRUCTION, repetition=number, total_s=seconds, kv_bytes=segment.nbytes))
        prefixes = [(f"prefix-{length}", min(length, history.entries)) for length in method.prefixes]
        for row, entries in [(NATIVE, 0), *prefixes, (FULL, history.entries)]:
            bank = PrefixBank(segment, entries) if entries else None
            if bank is not None:
                bank.pin()
            for number in range(1 - method.warmups, method.repetitions + 1):
                one = self._answer(history, bank)
                if bank is not None and not (one["controlled_tokens"] > 0 and 0.0 < one["readout_norm"] < float("inf")):
                    raise ValueError(
                        f"{row} of {history.name}: {one['controlled_tokens']} tokens were controlled with a readout norm of "
                        f"{one['readout_norm']}; expected both above zero, so that the time is that of a read: check the "
                        "controller and the control span"
                    )
                if number > 0:
                    found.append(dict(row=row, repetition=number, entries=entries, **one))
        prompt = len(history.prompt)
        return [dict(history=history.name, bank_entries=history.entries, prompt_tokens=prompt, **one) for one in found]

    def construct(self, history: TimedHistory) -> Segment:
        """The bank of a history's T1 turn, reconstructed from its saved tokens, on the host.

        Raises ValueError if it has another number of entries than the response's ids say.
        """
        capture = Capture(self._controller.layers, self._method.end_of_thinking)
        saved = Reconstruction(history.name, history.first_prompt, history.response, self._method.stop_ids, capture)
        (segment,) = reconstruct_states(self._passes, [saved], self._facts.context)
        if segment.tokens != history.entries:
            raise ValueError(
                f"{history.name}: the reconstruction gives {segment.tokens} entries, expected {history.entries}"
            )
        return segment

    @torch.inference_mode()
    def _answer(self, history: TimedHistory, bank: Bank | None) -> dict[str, Any]:
        """Transfer, prefill, decode; the bank is on the host before and after."""
        read = None if bank is None else Read(bank, self._controller, history.span, self._method.read)
        on_gpu = self._device.type == "cuda"
        if on_gpu:
            torch.cuda.reset_peak_memory_stats(self._device)
        begun = self._now()
        if bank is not None:
            bank.resident(self._device, self._dtype, self._attachment.rotary)
        moved = self._now()
        passed = self._passes.run([history.prompt], [read], keep=True)
        filled = self._now()
        self._decode(history, passed, capture=bank is not None)
        ended = self._now()
        receipt = passed.receipts[0]
        return {
            "controlled_tokens": 0 if receipt is None else receipt.controlled_tokens,
            "readout_norm": 0.0 if receipt is None else receipt.readout_norm,
            "tokens": self._method.tokens,
            "kv_bytes": 0 if bank is None else bank.nbytes,
            "transfer_s": moved - begun,
            "prefill_s": filled - moved,
            "decode_s": ended - filled,
            "total_s": ended - begun,
            "peak_bytes": torch.cuda.max_memory_allocated(self._device) if on_gpu else None,
        }

    def _now(self) -> float:
        """Seconds, when the device has done everything so far."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        return time.perf_counter()

    def _decode(self, history: TimedHistory, passed: Pass, *, capture: bool) -> None:
        """Draw exactly the method's tokens; a turn that read a bank captures its own states, as in an evaluation."""
        assert passed.cache is not None
        method, attachment = self._method, self._attachment if capture else None
        batch = Batch(self._model, attachment, self._facts, method.vocabulary, 1, method.block)
        wanted = Capture(self._controller.layers, None) if capture else None
        request = Request(
            history.name, history.prompt, method.sampling, 0, method.tokens, stop_ids=(), capture=wanted
        )  # fmt: skip
        batch.begin(0, request, Prefilled(passed.cache, 0, passed.paddings[0], passed.logits[0], passed.receipts[0]))
        while batch:
            ended, unsound = batch.draw()
            if unsound:
                reason = unsound_reason(str(self._dtype).removeprefix("torch."))
                raise FloatingPointError(f"{history.name}: {reason}")
            if batch:
                batch.decode()
        assert len(ended[0].response_ids) == method.tokens
