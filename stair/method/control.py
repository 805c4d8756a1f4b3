"""What one row of a batch is to be controlled with, and the receipt of what was done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

from stair.method.bank import Bank
from stair.method.controllers import BankFree, Reflector
from stair.method.differential import SMOOTHING, check_smoothing

ReadVariant = Literal["differential", "direct", "null"]


@dataclass(frozen=True)
class RowControl:
    """The control of one row.

    controller        a Reflector reads `bank`; a BankFree scales the attention output and reads nothing
    bank              None or empty: the readout is zero
    span              positions (start, end) of the row's conversation, end exclusive, padding not counted: from the last
                      user header to the prompt's end (appendix B.3)
    variant           `differential` (Eq. 9), `direct` (the reflected read alone), `null` (the readout times zero)
    limit             read the first `limit` entries only; queries keep position M + p with M the full length
    permutation_seed  pair each key with the value of another entry, by layer and K/V head (appendix C.4)
    smoothing         the paper's epsilon
    """

    controller: Reflector | BankFree
    bank: Bank | None
    span: tuple[int, int]
    variant: ReadVariant = "differential"
    limit: int | None = None
    permutation_seed: int | None = None
    smoothing: float = SMOOTHING

    def __post_init__(self) -> None:
        start, end = self.span
        if not 0 <= start <= end:
            raise ValueError(f"a control span is (start, end) with 0 <= start <= end, not {self.span}")
        if self.variant not in ("differential", "direct", "null"):
            raise ValueError(f"a read variant is 'differential', 'direct' or 'null', not {self.variant!r}")
        if self.limit is not None and self.limit < 1:
            raise ValueError(f"a prefix limit is at least 1 entry, not {self.limit}")
        check_smoothing(self.smoothing)
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
