"""A bank made ready for reading on one device: keys rotated, segments joined, each entry handled once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from stair.method.rope import Rotary
from stair.method.segment import Segment


class Resident:
    """Rotated keys and values of each layer of a bank, on `device` in `dtype`."""

    def __init__(self, device: torch.device, dtype: torch.dtype, rotary: Rotary) -> None:
        self.device, self.dtype, self.rotary = device, dtype, rotary
        self.entries = 0
        self._layers: list[tuple[Tensor, Tensor]] = []
        self._segments = 0  # how many are in already

    @property
    def nbytes(self) -> int:
        return sum(keys.nbytes + values.nbytes for keys, values in self._layers)

    def layer(self, index: int) -> tuple[Tensor, Tensor]:
        """Return (rotated keys, values), each [kv_heads, entries, head_dim], of the bank's `index`-th layer. Read only."""
        return self._layers[index]

    def extend(self, segments: Sequence[Segment]) -> None:
        """Bring in the segments that are not in yet; earlier entries are copied as they are, not rotated again."""
        fresh = segments[self._segments :]
        if not fresh:
            return
        total = self.entries + sum(segment.tokens for segment in fresh)
        # A bank filled while generating has to serve training too, so nothing here may be an inference tensor.
        with torch.inference_mode(False), torch.no_grad():
            self._layers = [self._extended(index, fresh, total) for index in range(len(fresh[0].layers))]
        self.entries = total
        self._segments = len(segments)

    def _extended(self, index: int, fresh: Sequence[Segment], total: int) -> tuple[Tensor, Tensor]:
        kv_heads, _, head_dim = fresh[0].keys[index].shape
        keys = torch.empty(kv_heads, total, head_dim, device=self.device, dtype=self.dtype)
        values = torch.empty_like(keys)
        if self._layers:
            keys[:, : self.entries] = self._layers[index][0]
            values[:, : self.entries] = self._layers[index][1]
        start = self.entries
        for segment in fresh:
            end = start + segment.tokens
            positions = torch.arange(start, end, device=self.device)
            keys[:, start:end] = self.rotary(segment.keys[index].to(self.device), positions).to(self.dtype)
            values[:, start:end] = segment.values[index].to(self.device)
            start = end
        return keys, values
