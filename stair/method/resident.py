"""A bank made ready for reading on one device: keys rotated, segments joined, each entry handled once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stair.method.rope import Rotary
from stair.method.segment import Segment


class Resident:
    """Rotated keys and values of each layer of a bank, on `device` in `dtype`.

    On a CUDA device the work is queued on a stream of its own, layer by layer, and a layer's reader waits for that layer
    only: host-to-device transfer runs beside the layers that come before. Copies from pinned memory (`Segment.pin`) do
    not hold up the host either.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype, rotary: Rotary) -> None:
        self.device, self.dtype, self.rotary = device, dtype, rotary
        self.entries = 0
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._segments = 0  # how many are in already
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._ready: list[torch.cuda.Event] = []

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self._layers)

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
        earlier = self._layers
        # A bank filled while generating has to serve training too, so nothing here may be an inference tensor.
        with torch.inference_mode(False), torch.no_grad():
            self._layers = [self._room(segment_total(fresh) + self.entries, fresh[0]) for _ in fresh[0].layers]
            if self._stream is None:
                for index in range(len(self._layers)):
                    self._fill(index, earlier, fresh)
            else:
                self._fill_on_stream(earlier, fresh)
        self.entries += segment_total(fresh)
        self._segments = len(segments)

    def _room(self, entries: int, like: Segment) -> tuple[Tensor, Tensor]:
        _, kv_heads, _, head_dim = like.keys.shape
        keys = torch.empty(kv_heads, entries, head_dim, device=self.device, dtype=self.dtype)
        return keys, torch.empty_like(keys)

    def _fill(self, index: int, earlier: Sequence[tuple[Tensor, Tensor]], fresh: Sequence[Segment]) -> None:
        keys, values = self._layers[index]
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

    def _fill_on_stream(self, earlier: Sequence[tuple[Tensor, Tensor]], fresh: Sequence[Segment]) -> None:
        assert self._stream is not None
        reader = torch.cuda.current_stream(self.device)
        self._stream.wait_stream(reader)  # segments captured on the device, and the memory just allocated
        self._ready = []
        with torch.cuda.stream(self._stream):
            for index in range(len(self._layers)):
                self._fill(index, earlier, fresh)
                # The allocator may not hand this memory on before the side stream is done with it.
                for tensor in (*self._layers[index], *(earlier[index] if earlier else ())):
                    tensor.record_stream(self._stream)
                self._ready.append(self._stream.record_event())
            for segment in fresh:
                if segment.keys.is_cuda:
                    segment.keys.record_stream(self._stream)
                    segment.values.record_stream(self._stream)


def segment_total(segments: Sequence[Segment]) -> int:
    """Return the entries of these segments together."""
    return sum(segment.tokens for segment in segments)
