"""The historical K/V bank (section 3.1): what earlier answers computed, in turn order, never rewritten."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from stair.method.rope import Rotary
from stair.method.segment import Segment


class Bank:
    """An append-only sequence of segments over the zero-based controlled `layers`.

    Entry j, counted through all segments, has auxiliary position j for good. So its rotated key is computed once and kept.
    """

    def __init__(self, layers: Sequence[int], segments: Iterable[Segment] = ()) -> None:
        self.layers = tuple(int(layer) for layer in layers)
        self._segments: list[Segment] = []
        self._resident: Resident | None = None
        self._digests = [hashlib.sha256(f"bank {list(self.layers)}".encode()).hexdigest()]
        for segment in segments:
            self.append(segment)

    @property
    def segments(self) -> tuple[Segment, ...]:
        return tuple(self._segments)

    @property
    def tokens(self) -> int:
        """M: the number of entries at each layer and K/V head."""
        return sum(segment.tokens for segment in self._segments)

    @property
    def nbytes(self) -> int:
        """Bytes of the stored states."""
        return sum(segment.nbytes for segment in self._segments)

    @property
    def digest(self) -> str:
        """SHA-256 over the layers and the segments' digests in order; costs only the segments that are new."""
        while len(self._digests) <= len(self._segments):
            latest = self._segments[len(self._digests) - 1]
            self._digests.append(hashlib.sha256((self._digests[-1] + latest.digest).encode()).hexdigest())
        return self._digests[-1]

    def append(self, segment: Segment) -> None:
        """Add the states of the next answer. Raises ValueError when layers, heads, channels or dtype differ."""
        if segment.layers != self.layers:
            raise ValueError(f"a segment of layers {segment.layers} does not fit a bank of layers {self.layers}")
        if self._segments:
            first = self._segments[0].keys
            ours, theirs = (first.shape[1], first.shape[3], first.dtype), segment.keys
            if ours != (theirs.shape[1], theirs.shape[3], theirs.dtype):
                raise ValueError(
                    f"a segment of (kv_heads, head_dim, dtype) {(theirs.shape[1], theirs.shape[3], theirs.dtype)} "
                    f"does not fit a bank of {ours}"
                )
        self._segments.append(segment)

    def save(self, folder: str | Path) -> tuple[str, ...]:
        """Write each segment to `<digest>.safetensors` in `folder` unless it is there; return the digests in order."""
        for segment in self._segments:
            path = Path(folder) / f"{segment.digest}.safetensors"
            if not path.exists():
                segment.save(path)
        return tuple(segment.digest for segment in self._segments)

    @classmethod
    def load(cls, layers: Sequence[int], folder: str | Path, digests: Iterable[str]) -> Self:
        """Return the bank of the segments with these digests, as `save` wrote them.

        Raises ValueError for a segment that is missing, damaged, or another than its file's name says.
        """
        bank = cls(layers)
        for digest in digests:
            path = Path(folder) / f"{digest}.safetensors"
            segment = Segment.load(path)
            if segment.digest != digest:
                raise ValueError(f"{path} is damaged: it holds the segment {segment.digest}")
            bank.append(segment)
        return bank

    def resident(self, device: torch.device, dtype: torch.dtype, rotary: Rotary) -> Resident:
        """Return the bank made ready for reading on `device`, with all entries stored now.

        On CUDA this queues the transfer and returns, so an early call hides the transfer. States in host memory are pinned first.
        """
        assert self.tokens > 0
        if device.type == "cuda":
            for segment in self._segments:
                if segment.keys.device.type == "cpu":
                    segment.pin()
        kept = self._resident
        if kept is None or (kept.device, kept.dtype, kept.rotary) != (device, dtype, rotary):
            kept = self._resident = Resident(device, dtype, rotary)
        kept.extend(self._segments)
        return kept

    def pin(self) -> None:
        """Move the stored states to page-locked host memory (see `Segment.pin`)."""
        for segment in self._segments:
            segment.pin()

    def release(self) -> None:
        """Drop everything kept for reading; the stored states stay."""
        self._resident = None


class Resident:
    """Rotated keys and values of each layer of a bank, on `device` in `dtype`.

    On CUDA the work is queued on a stream of its own, layer by layer, and a layer's reader waits for that layer only: the
    transfer runs beside the layers before it. Copies from pinned memory (`Segment.pin`) do not hold up the host.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype, rotary: Rotary) -> None:
        self.device, self.dtype, self.rotary = device, dtype, rotary
        self.entries = 0
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._segments = 0  # how many are in already
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._ready: list[torch.cuda.Event] = []

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Return (rotated keys, values), each [kv_heads, entries, head_dim], of the bank's `index`-th layer. Read only."""
        if self._ready:
            torch.cuda.current_stream(self.device).wait_event(self._ready[index])
        return self._layers[index]

    def extend(self, segments: Sequence[Segment]) -> None:
        """Bring in the segments that are not in yet; earlier entries are copied as they are, not rotated again."""
        fresh = segments[self._segments :]
        if not fresh:
            return
        earlier, added = self._layers, sum(segment.tokens for segment in fresh)
        # A bank filled while generating has to serve training too, so nothing here may be an inference tensor.
        with torch.inference_mode(False), torch.no_grad():
            layers = [self._room(self.entries + added, fresh[0]) for _ in fresh[0].layers]
            if self._stream is None:
                ready = []
                for index, layer in enumerate(layers):
                    self._fill(index, layer, earlier, fresh)
            else:
                ready = self._fill_on_stream(self._stream, layers, earlier, fresh)
        # If memory runs out before, the next call begins with the earlier entries.
        self._layers, self._ready = layers, ready
        self.entries += added
        self._segments = len(segments)

    def _room(self, entries: int, like: Segment) -> tuple[Tensor, Tensor]:
        _, kv_heads, _, head_dim = like.keys.shape
        keys = torch.empty(kv_heads, entries, head_dim, device=self.device, dtype=self.dtype)
        return keys, torch.empty_like(keys)

    def _fill(
        self,
        index: int,
        layer: tuple[Tensor, Tensor],
        earlier: Sequence[tuple[Tensor, Tensor]],
        fresh: Sequence[Segment],
    ) -> None:
        keys, values = layer
        if earlier:
            keys[:, : self.entries] = earlier[index][0]
            values[:, : self.entries] = earlier[index][1]
        start = self.entries
        for segment in fresh:
            end = start + segment.tokens
            moved = segment.keys[index].to(self.device, non_blocking=True)
            keys[:, start:end] = self.rotary(moved, torch.arange(start, end, device=self.device)).to(self.dtype)
            values[:, start:end].copy_(segment.values[index], non_blocking=True)
            start = end

    def _fill_on_stream(
        self,
        stream: torch.cuda.Stream,
        layers: Sequence[tuple[Tensor, Tensor]],
        earlier: Sequence[tuple[Tensor, Tensor]],
        fresh: Sequence[Segment],
    ) -> list[torch.cuda.Event]:
        reader = torch.cuda.current_stream(self.device)
        stream.wait_stream(reader)  # segments captured on the device, and the memory just allocated
        ready = []
        # The allocator may not hand this memory on before the side stream is done with it, also if filling breaks off.
        for tensor in chain(*layers, *earlier):
            tensor.record_stream(stream)
        for segment in fresh:
            if segment.keys.is_cuda:
                segment.keys.record_stream(stream)
                segment.values.record_stream(stream)
        with torch.cuda.stream(stream):
            for index, layer in enumerate(layers):
                self._fill(index, layer, earlier, fresh)
                ready.append(stream.record_event())
        return ready
