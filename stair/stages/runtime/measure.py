"""Transfer, prefill and decoding of one request, as the Transformers engine computes them, batch one."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from stair.core import ReadSpecification
from stair.engines.base import Capture, Reconstruction, Request, SamplingSettings
from stair.engines.transformers.batch import Batch
from stair.engines.transformers.passes import Pass, Passes, reconstruct_states
from stair.engines.transformers.prefill import Prefilled
from stair.method import Attachment, Bank, Read, Reflector, Segment
from stair.method.differential import Backend
from stair.stages.runtime.stopwatch import Stopwatch
from stair.stages.runtime.study_units import History, Unit


class PrefixBank(Bank):
    """A bank prefix: the first `limit` entries of some segments, copied on the host (appendix C.4).

    `tokens` stays the length M of the whole bank: the current query keeps position M + p. The read equals that of the whole bank
    with `ReadSpecification.limit`; transfer and memory are those of the prefix.
    """

    def __init__(self, layers: Sequence[int], segments: Sequence[Segment], limit: int) -> None:
        super().__init__(layers)
        self._length = sum(segment.tokens for segment in segments)
        left = limit
        for segment in segments:
            count = min(left, segment.tokens)
            if count:
                keys, values = (states[:, :, :count].cpu().contiguous() for states in (segment.keys, segment.values))
                self.append(Segment(segment.layers, keys, values))
            left -= count

    @property
    def tokens(self) -> int:
        """M, the entries of the whole bank."""
        return self._length


BACKENDS: dict[str, Backend] = {"fast": "auto", "printed": "naive"}
"""The backend of `differential_read` by a variant's read."""

_MATRICES = 8
"""Matrices of heads x tokens x bank that the printed equations hold at once, at most."""


@dataclass(frozen=True)
class Repetition:
    """One timed repetition. Seconds; bytes; None where a part was not measured."""

    transfer_s: float | None = None
    prefill_s: float | None = None
    decode_s: float | None = None
    total_s: float | None = None
    construction_s: float | None = None
    peak_bytes: int | None = None
    kv_bytes: int = 0
    controlled_tokens: int = 0
    readout_norm: float = 0.0
    tokens: int = 0


@dataclass(frozen=True)
class Method:
    """How everything is measured: the engine's settings and the number of repetitions."""

    sampling: SamplingSettings
    tokens: int
    """Tokens of the tokenizer: ids from here on are never drawn."""
    stop_ids: tuple[int, ...]
    """End markers of saved responses; measured decoding ignores them."""
    end_of_thinking: int | None
    chunk: int
    block: int
    decode: int
    """Tokens that are decoded, exactly."""
    read: ReadSpecification
    """How banks are read; a prefix is a bank of its own, which is read in full."""
    warmups: int
    repetitions: int


class Measurer:
    """Measures the units of one model, the frozen backbone; `controller` is the reflector that reads the banks."""

    def __init__(self, model: Any, controller: Reflector, method: Method) -> None:
        self._model, self._method = model, method
        parameter = next(model.parameters())
        self._device, self._dtype = parameter.device, parameter.dtype
        self._controller = controller.to(self._device)
        self._layers = controller.layers
        self._attachments = {
            read: Attachment(model, self._layers, backend=backend) for read, backend in BACKENDS.items()
        }
        self._facts = self._attachments["fast"].architecture
        self._passes = {
            read: Passes(model, attachment, 1, method.chunk, self._device)
            for read, attachment in self._attachments.items()
        }
        self._watch = Stopwatch(self._device)
        self.memory = self._watch.memory

    def construct(self, history: History) -> Segment:
        """Return the bank of a history's T1 turn, reconstructed from its saved tokens, on the host (appendix C.4).

        Raises ValueError if it has another number of entries than the response's ids say.
        """
        capture = Capture(self._layers, self._method.end_of_thinking)
        saved = Reconstruction(history.name, history.first_prompt, history.response, self._method.stop_ids, capture)
        (segment,) = reconstruct_states(self._passes["fast"], [saved], self._facts.context)
        if segment.tokens != history.entries:
            raise ValueError(
                f"{history.name}: the reconstruction gives {segment.tokens} entries, expected {history.entries}"
            )
        return segment

    def random_segments(self, lengths: Sequence[int]) -> list[Segment]:
        """Return segments of random states on the host, a function of their lengths, their numbers and the device.

        A GPU draws them, a layer at a time: a CPU needs half a minute for the longest.
        """
        segments = []
        for number, entries in enumerate(lengths):
            generator = torch.Generator(self._device).manual_seed(number)
            shape = (len(self._layers), self._facts.kv_heads, entries, self._facts.head_dim)
            drawn = torch.empty(shape[1:], dtype=self._dtype, device=self._device)
            keys, values = (torch.empty(shape, dtype=self._dtype) for _ in range(2))
            for layer in (*keys, *values):
                layer.copy_(drawn.normal_(generator=generator))
            segments.append(Segment(self._layers, keys, values))
        return segments

    def measure(self, unit: Unit, history: History, segments: Sequence[Segment]) -> dict[str, Any]:
        """The record of a unit: its repetitions, or the reason why there are none.

        `segments` are the whole bank on the host; a construction and a native row need none. Raises ValueError if a reading
        repetition controls no token, or its readout is zero or not finite.
        """
        variant = unit.variant
        tokens = self._method.decode if unit.part == "row" else 0
        if reason := self._too_large(unit, history):
            return {"gap": reason}
        bank = None
        if variant:
            bank = PrefixBank(self._layers, segments, unit.entries)
            if self._device.type == "cuda":
                bank.pin()
        repetitions = []
        try:
            for number in range(self._method.warmups + self._method.repetitions):
                one = (
                    self._construction(history)
                    if unit.part == "construction"
                    else self._answer(unit, history, bank, tokens)
                )
                if number >= self._method.warmups:
                    repetitions.append(asdict(one))
        except torch.OutOfMemoryError:
            return {"gap": f"{_named(unit)}: the device's memory does not suffice"}
        finally:
            bank = None  # or neither its states nor its page-locked copy could be given back
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
                _empty_host_cache()
        return {"repetitions": repetitions}

    def _construction(self, history: History) -> Repetition:
        self._watch.start()
        segment = self.construct(history)
        self._watch.mark()
        seconds = self._watch.seconds()[-1]
        return Repetition(construction_s=seconds, peak_bytes=self._watch.peak_bytes(), kv_bytes=segment.nbytes)

    @torch.inference_mode()
    def _answer(self, unit: Unit, history: History, bank: PrefixBank | None, tokens: int) -> Repetition:
        """Transfer, prefill, decode; the bank is on the host before and after."""
        kind, _, transfer = unit.variant.partition("-")
        read = None
        if bank is not None:
            read = Read(bank, self._controller, history.span, self._method.read)
            bank.release()
        watch = self._watch
        watch.start()
        if bank is not None and transfer == "serial":
            self._transfer(bank, kind)
        watch.mark()
        passed = self._passes[kind or "fast"].run([history.prompt], [read], keep=True)
        watch.mark()
        decoded = self._decode(history, passed, tokens, capture=bank is not None)
        watch.mark()
        moved, prefill, decode, total = watch.seconds()
        peak = watch.peak_bytes()
        receipt = passed.receipts[0]
        repetition = Repetition(
            transfer_s=None if transfer == "overlapped" else moved,
            prefill_s=prefill,
            decode_s=decode if tokens else None,
            total_s=total if tokens else None,
            peak_bytes=peak,
            kv_bytes=0 if bank is None else bank.nbytes,
            controlled_tokens=0 if receipt is None else receipt.controlled_tokens,
            readout_norm=0.0 if receipt is None else receipt.readout_norm,
            tokens=decoded,
        )
        if bank is not None and not (repetition.controlled_tokens > 0 and 0.0 < repetition.readout_norm < float("inf")):
            raise ValueError(
                f"{_named(unit)}: {repetition.controlled_tokens} tokens were controlled with a readout norm of "
                f"{repetition.readout_norm}; expected both above zero, so that the time is that of a read: check the "
                "controller and the control span"
            )
        return repetition

    def _transfer(self, bank: Bank, kind: str) -> None:
        """Bring the bank to the device, keys rotated, and let the current stream wait for all of it."""
        resident = bank.resident(self._device, self._dtype, self._attachments[kind].rotary)
        for index in range(len(self._layers)):
            resident.layer(index)

    def _decode(self, history: History, passed: Pass, tokens: int, *, capture: bool) -> int:
        """Draw exactly `tokens` tokens; a turn that read a bank captures its own states, as in an evaluation."""
        if not tokens:
            return 0
        assert passed.cache is not None
        attachment = self._attachments["fast"] if capture else None
        batch = Batch(self._model, attachment, self._facts, self._method.tokens, 1, self._method.block)
        wanted = Capture(self._layers, None) if capture else None
        request = Request(
            history.name, history.prompt, self._method.sampling, 0, tokens, stop_ids=(), capture=wanted
        )  # fmt: skip
        batch.begin(0, request, Prefilled(passed.cache, 0, passed.paddings[0], passed.logits[0], passed.receipts[0]))
        drawn = 0
        while batch:
            drawn += 1
            ended = batch.draw()
            if batch:
                batch.decode()
        assert drawn == tokens == len(ended[0].response_ids)
        return drawn

    def _too_large(self, unit: Unit, history: History) -> str | None:
        """Why the printed equations do not fit the free memory; None where they do, and for other reads."""
        if not unit.variant.startswith("printed"):
            return None
        rows = self._facts.query_heads * unit.entries
        width = torch.finfo(self._dtype).bits // 8
        tokens = min(history.span[1] - history.span[0], self._method.chunk)
        needed = width * rows * (_MATRICES * tokens + 2 * self._facts.head_dim)
        free = self._free_bytes()
        if needed <= free:
            return None
        return (
            f"{_named(unit)}: the equations as printed hold about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB "
            "are free"
        )

    def _free_bytes(self) -> int:
        if self._device.type == "cuda":
            gc.collect()
            torch.cuda.empty_cache()
            return int(torch.cuda.mem_get_info(self._device)[0])
        import psutil  # a GPU's own Python may lack it

        return int(psutil.virtual_memory().available)


def _empty_host_cache() -> None:
    """Give page-locked memory back, of which torch keeps every size that a bank has had; older versions cannot."""
    if hasattr(torch.accelerator, "empty_host_cache"):
        torch.accelerator.empty_host_cache()


def _named(unit: Unit) -> str:
    return f"{unit.part} {unit.row} of {unit.history}" + (f" ({unit.variant})" if unit.variant else "")
