"""Reading what a replay measured: one layer of a group's cells at a time, from the files of its batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from safetensors import safe_open

from stair.records.keys import file_digest
from stair.records.rows import ReplayCell
from stair.records.schemas import REPLAY_CELLS
from stair.records.tables import rows_as

CoverageName = Literal["history_coverage", "problem_coverage"]


class _Place(NamedTuple):
    file: str
    row: int


class ReplayStates:
    """The measurements of one model's replay, by its index of cells: `cells.parquet`, and the folder of the batches' files.

    Arrays have the current problems first, then the histories, both in the order of the design.
    Raises ValueError if the index is absent or has other columns.
    """

    def __init__(self, cells: Path, folder: Path) -> None:
        self._cells, self._folder = cells, folder
        self._digests: dict[str, str] = {}
        self._sound: set[str] = set()
        self._places: dict[tuple[int, int], dict[tuple[str, str | None], _Place]] = defaultdict(dict)
        self._covered: dict[tuple[int, CoverageName], tuple[dict[str, None], dict[str, int]]] = {}
        rows = list(rows_as(cells, REPLAY_CELLS, ReplayCell))
        names: tuple[CoverageName, ...] = ("history_coverage", "problem_coverage")
        for row in rows:
            self._digests[row.file] = row.sha256
            self._places[row.group, row.depth][row.problem_id, row.history] = _Place(row.file, row.row)
            for name in names:
                if getattr(row, name) and row.history is not None:
                    problems, histories = self._covered.setdefault((row.group, name), ({}, {}))
                    problems[row.problem_id] = None
                    histories[row.history] = max(histories.get(row.history, 0), row.depth)
        self.depth: int = max(row.depth for row in rows)
        """Completed turns of the longest histories."""

    def problems(self, group: int, coverage: CoverageName) -> tuple[str, ...]:
        """A coverage's current problems."""
        return tuple(self._covered[group, coverage][0])

    def histories(self, group: int, coverage: CoverageName) -> tuple[str, ...]:
        """A coverage's histories."""
        return tuple(self._covered[group, coverage][1])

    def cells(self, group: int, coverage: CoverageName, depth: int, tensor: str, layer: int) -> np.ndarray:
        """One layer of a tensor over the cells of a coverage: FP32 [problems, histories, ...].

        Args:
            group: 1 or 2.
            coverage: which cells.
            depth: completed turns, from 1.
            tensor: `block_outputs`, `masses`, `reads` or `next_mlp`; the last two at the full depth of the problem
                coverage only.
            layer: the index along the tensor's layers: all layers, the full-attention ones, or the measured ones.

        Raises:
            ValueError: a file is absent, or is not the one that was sealed.
        """
        return self._stacked(
            group, depth, self.problems(group, coverage), self.histories(group, coverage), tensor, layer
        )

    def references(self, group: int, coverage: CoverageName, tensor: str, layer: int | None) -> np.ndarray:
        """The same without history: FP32 [problems, ...]; `layer` None for `embedding`, the input of block 0."""
        return self._stacked(group, 0, self.problems(group, coverage), (None,), tensor, layer)[:, 0]

    def _stacked(
        self,
        group: int,
        depth: int,
        problems: Sequence[str],
        histories: Sequence[str | None],
        tensor: str,
        layer: int | None,
    ) -> np.ndarray:
        places = self._places[group, depth]
        wanted: dict[str, list[tuple[int, int, int]]] = defaultdict(list)
        for column, history in enumerate(histories):
            for line, problem in enumerate(problems):
                file, row = places[problem, history]
                wanted[file].append((row, line, column))
        stacked: np.ndarray | None = None
        for file, cells in wanted.items():
            part = self._read(file, f"{depth}/{tensor}", layer)
            if stacked is None:
                stacked = np.empty((len(problems), len(histories), *part.shape[1:]), part.dtype)
            rows, lines, columns = (list(numbers) for numbers in zip(*cells, strict=True))
            stacked[lines, columns] = part[rows]
        assert stacked is not None, "a coverage has cells"
        return stacked

    def _read(self, file: str, name: str, layer: int | None) -> Any:
        path = self._folder / file
        self._check(file, path)
        with safe_open(path, framework="np") as opened:
            part = opened.get_slice(name)
            return part[:] if layer is None else part[layer]

    def _check(self, file: str, path: Path) -> None:
        """Compares a file with the index, once."""
        if file in self._sound:
            return
        try:
            fault = "" if file_digest(path) == self._digests[file] else "does not match its sealed checksum"
        except OSError as error:
            fault = f"cannot be read ({error.strerror})"
        if fault:
            raise ValueError(
                f"{path} {fault}; delete {self._cells}; the next start of the run then measures this file again, and no other"
            )
        self._sound.add(file)
