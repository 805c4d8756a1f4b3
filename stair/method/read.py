"""The read of one row of a batch: what is read where, the receipt of it, and its computation layer by layer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from torch import Tensor
from torch.nn import functional as F

from stair.core import ReadSpecification
from stair.method.bank import Bank
from stair.method.controllers import BankFree, Reflector
from stair.method.differential import Backend, read_rows
from stair.method.interventions import permuted_order
from stair.method.rope import Rotary


@dataclass(frozen=True)
class Read:
    """What the auxiliary branch does in one row.

    bank           None or empty: the readout is zero
    controller     a Reflector reads `bank`; a BankFree scales the attention output and reads nothing
    span           the control span: positions (start, end) of the row's conversation, end exclusive, padding not counted,
                   from the last user header to the prompt's end (appendix B.3)
    specification  how the bank is read; its permutation_seed is that of this row's answer

    Raises ValueError for a span that is none, and for a bank of other layers than the controller's.
    """

    bank: Bank | None
    controller: Reflector | BankFree
    span: tuple[int, int]
    specification: ReadSpecification = field(default_factory=ReadSpecification)

    def __post_init__(self) -> None:
        start, end = self.span
        if not 0 <= start <= end:
            raise ValueError(f"a control span is (start, end) with 0 <= start <= end, not {self.span}")
        if self.bank is not None and self.bank.layers != self.controller.layers:
            raise ValueError(
                f"a bank of layers {self.bank.layers} cannot serve a controller of layers {self.controller.layers}"
            )


@dataclass
class Receipt:
    """What a read did to one row.

    controlled_tokens  tokens whose attention output the read acts on, at each controlled layer
    bank_tokens        M, the entries of the bank (the limit not applied); 0 without a bank
    """

    controlled_tokens: int = 0
    bank_tokens: int = 0
    # By (chunk, layer), so that recomputation under activation checkpointing counts once.
    _squares: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    @classmethod
    def begun(cls, bank: Bank | None) -> Self:
        """Return the receipt of a read of this bank that begins now; None reads no bank."""
        return cls() if bank is None else cls(bank_tokens=bank.tokens)

    def add_readout(self, chunk: int, index: int, readout: Tensor) -> None:
        """Record a chunk's readout, of any shape, at the layer of this index."""
        self._squares[chunk, index] = readout.detach().float().square().sum()

    @property
    def readout_norm(self) -> float:
        """Frobenius norm over controlled positions and layers, before the output projection.

        Under a reflector it is that of the readouts z, before the gate. Under bank-free control it is
        that of the attention output times s, after the gate.
        """
        return sum(float(square) for square in self._squares.values()) ** 0.5


class RowReadout:
    """A Read at work, chunk after chunk of its row's prompt. The bank is taken as it is when this is made.

    What a layer needs of the host is copied to `device` before the layers run: behind the bank's transfer, the copy would
    hold up the host until the transfer is done.
    """

    def __init__(self, read: Read, rotary: Rotary, backend: Backend, device: torch.device) -> None:
        self.read, self.rotary, self.backend, self.device = read, rotary, backend, device
        self.scales = isinstance(read.controller, BankFree)
        """Whether the controller scales the output projection's input; else the readout is added to its output."""
        self.receipt = Receipt.begun(None if self.scales else read.bank)
        self.bank_tokens = self.receipt.bank_tokens
        self.columns: slice | Tensor = slice(0)
        self.controlled = 0
        self._weights = read.controller.weights.to(device)
        self._positions = torch.empty(0, dtype=torch.long)
        self._chunk = 0
        self._orders: list[Tensor] = []

    def prefetch(self, dtype: torch.dtype) -> None:
        """Start the bank's transfer to a GPU, while the layers before the first controlled one run."""
        bank, specification = self.read.bank, self.read.specification
        if bank is None or not self.bank_tokens:
            return
        if specification.permutation_seed is not None:
            seed, kv_heads = specification.permutation_seed, bank.segments[0].keys.shape[1]
            entries = specification.readable(self.bank_tokens)
            self._orders = [permuted_order(seed, layer, kv_heads, entries, self.device) for layer in bank.layers]
        if self.device.type == "cuda":
            bank.resident(self.device, dtype, self.rotary)

    def enter_chunk(self, chunk: int, positions: Tensor) -> None:
        """Find the controlled columns among `positions` [tokens] of this chunk (CPU)."""
        start, end = self.read.span
        columns = torch.nonzero((positions >= start) & (positions < end))[:, 0]
        places = positions[columns]
        self._chunk, self.controlled = chunk, len(columns)
        self.receipt.controlled_tokens += self.controlled
        if self.controlled and all(bool((each.diff() == 1).all()) for each in (columns, places)):
            first, place = int(columns[0]), int(places[0])
            self.columns = slice(first, first + self.controlled)
            # Filled there: a copy would wait until the device has computed the chunk before.
            self._positions = torch.arange(place, place + self.controlled, device=self.device)
        else:
            self.columns, self._positions = columns.to(self.device), places.to(self.device)

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

        The readout z and every later step have the dtype of `queries`. The product has the controlled tokens of this
        row alone: its bits do not depend on other rows.
        """
        if self.bank_tokens == 0:
            return None
        readout = self._readout(index, queries).transpose(0, 1).flatten(1)
        if self.read.specification.variant == "zero":
            readout = readout * 0.0
        self.receipt.add_readout(self._chunk, index, readout)
        return F.linear(readout if gate is None else readout * gate, weight)

    def _readout(self, index: int, queries: Tensor) -> Tensor:
        bank, specification = self.read.bank, self.read.specification
        assert bank is not None
        resident = bank.resident(queries.device, queries.dtype, self.rotary)
        entries = specification.readable(self.bank_tokens)
        keys, values = (tensor[None, :, :entries] for tensor in resident.layer(index))
        order = self._orders[index][None] if self._orders else None
        rotated = self.rotary(queries.transpose(0, 1), self._positions + self.bank_tokens)
        return read_rows(
            rotated[None],
            keys,
            values,
            self._weights[index],
            [keys.shape[2]],
            self.backend,
            {"smoothing": specification.smoothing, "variant": specification.readout, "value_order": order},
        )[0]
