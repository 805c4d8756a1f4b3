"""Current turns of one fixed shape: padded on the right, where no token of a turn looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from stair.stages.replay.measurement.categories import Turn


@dataclass(frozen=True)
class Turns:
    """`count` turns in a batch of `ids` [rows, columns]; rows beyond them repeat the first.

    `weights` [rows, columns] are 1 / |T_x| on the body's tokens and zero elsewhere.
    """

    ids: Tensor
    weights: Tensor
    count: int

    @classmethod
    def pad(cls, turns: Sequence[Turn], *, rows: int, columns: int, device: torch.device | str = "cpu") -> Turns:
        """Raises ValueError when there is no turn, or more or longer ones than the shape holds."""
        longest = max((len(turn.ids) for turn in turns), default=0)
        if not turns or len(turns) > rows or longest > columns:
            raise ValueError(
                f"{len(turns)} turns of at most {longest} tokens do not fit a batch of {rows} x {columns} tokens"
            )
        ids = torch.zeros(rows, columns, dtype=torch.long)
        weights = torch.zeros(rows, columns, dtype=torch.float64)
        for row in range(rows):
            turn = turns[row] if row < len(turns) else turns[0]
            ids[row, : len(turn.ids)] = torch.tensor(turn.ids)
            start, end = turn.body
            weights[row, start:end] = 1 / (end - start)
        return cls(ids.to(device), weights.to(device), len(turns))
