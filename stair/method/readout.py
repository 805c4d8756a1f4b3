"""The readout of one row at one layer: which tokens, which bank, which variant."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from stair.method.read import Receipt, RowControl
from stair.method.controllers import BankFree
from stair.method.differential import Backend, differential_read
from stair.method.interventions import permuted_order
from stair.method.rope import Rotary


class RowReadout:
    """A RowControl at work, chunk after chunk of its row's prompt. The bank is taken as it is when this is made.

    What a layer needs of the host is brought to `device` before the layers run. A copy behind the bank's
    transfer would hold up the host until the transfer is done.
    """

    def __init__(self, control: RowControl, rotary: Rotary, backend: Backend, device: torch.device) -> None:
        self.control, self.rotary, self.backend, self.device = control, rotary, backend, device
        bank = control.bank if not isinstance(control.controller, BankFree) else None
        self.receipt = Receipt.begun(bank)
        self.bank_tokens = self.receipt.bank_tokens
        self.columns: slice | Tensor = slice(0)
        self.controlled = 0
        self._weights = control.controller.weights.to(device)
        self._positions = torch.empty(0, dtype=torch.long)
        self._chunk = 0
        self._orders: dict[int, Tensor] = {}

    def prefetch(self, dtype: torch.dtype) -> None:
        """Start bringing the bank to a GPU, while the layers before the first controlled one run."""
        if self.bank_tokens and self.device.type == "cuda":
            assert self.control.bank is not None
            self.control.bank.resident(self.device, dtype, self.rotary)

    def enter_chunk(self, chunk: int, positions: Tensor) -> None:
        """Find the controlled columns among `positions` [tokens] of this chunk (CPU)."""
        start, end = self.control.span
        columns = torch.nonzero((positions >= start) & (positions < end))[:, 0]
        self._chunk, self.controlled = chunk, len(columns)
        self._positions = positions[columns].to(self.device)
        self.receipt.controlled_tokens += self.controlled
        first = int(columns[0]) if self.controlled else 0
        consecutive = self.controlled and int(columns[-1]) - first + 1 == self.controlled
        self.columns = slice(first, first + self.controlled) if consecutive else columns.to(self.device)

    @property
    def scales(self) -> bool:
        """Whether the control scales the output projection's input; else it adds to the output."""
        return isinstance(self.control.controller, BankFree)

    def scaled(self, index: int, attention: Tensor) -> Tensor:
        """Return the output projection's input times (1 + s) at the controlled tokens.

        `attention` [controlled, query_heads * head_dim] is that input as the model has it, after the
        gate. The arithmetic is float32 or wider; the result is rounded once to the dtype of `attention`.
        """
        scales = self._weights[index].flatten()
        self.receipt.add_readout(self._chunk, index, attention * scales)
        return (attention * (1.0 + scales)).to(attention.dtype)

    def update(self, index: int, queries: Tensor, gate: Tensor | None, weight: Tensor) -> Tensor | None:
        """Return W_O (g * z) at the controlled tokens (Eq. 20), or None where nothing is read.

        queries  [controlled, query_heads, head_dim], normalised and not rotated
        gate     [controlled, query_heads * head_dim], the sigmoid gate g; None without a gate
        weight   [hidden, query_heads * head_dim], the frozen weight of the output projection

        The readout z leaves the read in the dtype of `queries`, and every later step has that dtype. The
        product has the controlled tokens of this row alone: its bits do not depend on other rows.
        """
        if self.bank_tokens == 0:
            return None
        readout = self._read(index, queries).transpose(0, 1).flatten(1)
        if self.control.specification.variant == "zero":
            readout = readout * 0.0
        self.receipt.add_readout(self._chunk, index, readout)
        return F.linear(readout if gate is None else readout * gate, weight)

    def _read(self, index: int, queries: Tensor) -> Tensor:
        control, bank, read = self.control, self.control.bank, self.control.specification
        assert bank is not None
        assert not isinstance(control.controller, BankFree)
        resident = bank.resident(queries.device, queries.dtype, self.rotary)
        entries = read.readable(self.bank_tokens)
        keys, values = (tensor[None, :, :entries] for tensor in resident.layer(index))
        order = None
        if read.permutation_seed is not None:
            if index not in self._orders:
                layer, kv_heads = control.controller.layers[index], keys.shape[1]
                self._orders[index] = permuted_order(read.permutation_seed, layer, kv_heads, entries, keys.device)
            order = self._orders[index][None]
        rotated = self.rotary(queries.transpose(0, 1), self._positions + self.bank_tokens)
        return differential_read(
            rotated[None],
            keys,
            values,
            self._weights[index],
            smoothing=read.smoothing,
            backend=self.backend,
            variant=read.readout,
            value_order=order,
        )[0]
