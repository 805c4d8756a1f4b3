"""Capture of the controlled layers' states while a batch decodes."""

from __future__ import annotations

import torch

from stair.engines.base import Capture
from stair.method import Segment, capture_length


class DecodeCapture:
    """Keeps keys (before RoPE) and values of processed response tokens, row by row.

    The buffers are `[layers, rows, capacity, kv_heads, head_dim]` and grow by `block` positions. The token drawn last is not in
    them: it has no state until it is processed (appendix B.1). `heads` are the K/V heads and their width.
    """

    def __init__(
        self,
        layers: tuple[int, ...],
        rows: int,
        block: int,
        heads: tuple[int, int],
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self.layers = layers
        self._rows, self._block = torch.arange(rows, device=device), block
        self._processed = torch.zeros(rows, dtype=torch.long, device=device)
        self._keys = torch.zeros(len(layers), rows, block, *heads, dtype=dtype, device=device)
        self._values = torch.zeros_like(self._keys)

    @property
    def capacity(self) -> int:
        """Positions that a row has room for. While it stays, so do the tensors."""
        return self._keys.shape[2]

    def start(self, row: int) -> None:
        """Begins a response in a row, or frees the row."""
        self._processed[row] = 0

    def prepare(self, longest: int) -> None:
        """Before a step: room for one position more than `longest`, the most processed tokens of any row."""
        if longest < self.capacity:
            return
        # Half as much again, so that growing stays rare; whole blocks.
        capacity = -(-max(longest + 1, longest * 3 // 2) // self._block) * self._block
        for name in ("_keys", "_values"):
            old = getattr(self, name)
            new = old.new_zeros(*old.shape[:2], capacity, *old.shape[3:])
            new[:, :, : old.shape[2]] = old
            setattr(self, name, new)

    def sink(self, index: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Takes one decoding step of one layer: keys and values `[rows, 1, kv_heads, head_dim]`."""
        self._keys[index, self._rows, self._processed] = keys[:, 0]
        self._values[index, self._rows, self._processed] = values[:, 0]

    def advance(self, rows: torch.Tensor) -> None:
        """After a step: the given rows (bool `[rows]`) have one processed token more."""
        self._processed += rows

    def segment(self, row: int, response_ids: tuple[int, ...], stop_ids: tuple[int, ...], what: Capture) -> Segment:
        """The states of a finished response that enter the bank, copied to the host."""
        length = capture_length(response_ids, end_of_thinking=what.end_of_thinking, stop_ids=stop_ids)

        def kept(buffer: torch.Tensor) -> torch.Tensor:
            # To [layers, kv_heads, tokens, head_dim], a copy of its own: the buffer's row is written again.
            return buffer[:, row, :length].transpose(1, 2).contiguous().cpu()

        return Segment(self.layers, kept(self._keys), kept(self._values))
