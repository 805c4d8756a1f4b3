"""What one row of a batch is to be controlled with, and the receipt of what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from torch import Tensor

from stair.core import ReadSpecification
from stair.method.bank import Bank
from stair.method.controllers import BankFree, Reflector


@dataclass(frozen=True)
class RowControl:
    """The control of one row.

    controller     a Reflector reads `bank`; a BankFree scales the attention output and reads nothing
    bank           None or empty: the readout is zero
    span           positions (start, end) of the row's conversation, end exclusive, padding not counted: from the last
                   user header to the prompt's end (appendix B.3)
    specification  how the bank is read; its permutation_seed is that of this row's answer
    """

    controller: Reflector | BankFree
    bank: Bank | None
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
    """What a control did to one row.

    controlled_tokens  tokens whose attention output the control acts on, at each controlled layer
    bank_tokens        M, the entries that the bank held (the limit not applied); 0 without a bank
    """

    controlled_tokens: int = 0
    bank_tokens: int = 0
    _bank: Bank | None = None
    _segments: int = 0
    # By (chunk, layer), so that recomputation under activation checkpointing counts once.
    _squares: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    @classmethod
    def begun(cls, bank: Bank | None) -> Self:
        """Return the receipt of a control that begins now with this bank; None for a control that reads none."""
        return cls() if bank is None else cls(bank_tokens=bank.tokens, _bank=bank, _segments=len(bank.segments))

    def add_readout(self, chunk: int, index: int, readout: Tensor) -> None:
        """Record a chunk's readout, of any shape, at the layer of this index."""
        self._squares[chunk, index] = readout.detach().float().square().sum()

    @property
    def bank_digest(self) -> str | None:
        """The digest of the bank as it was when the control began; None without a bank."""
        return None if self._bank is None else self._bank.digest_of(self._segments)

    @property
    def readout_norm(self) -> float:
        """Frobenius norm over controlled positions and layers, before the output projection.

        Under a reflector it is that of the readouts z, before the gate. Under bank-free control it is
        that of the attention output times s, after the gate.
        """
        return sum(float(square) for square in self._squares.values()) ** 0.5
