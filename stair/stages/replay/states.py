"""Reading what a replay measured: one layer of a group's cells at a time, from the files of its batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from safetensors import SafetensorError, safe_open

from stair.records.keys import file_digest
from stair.records.rows import ReplayCell
from stair.records.schemas import REPLAY_CELLS
from stair.records.tables import rows_as

CoverageName = Literal["history_coverage", "problem_coverage"]
_COVERAGES: tuple[CoverageName, ...] = ("history_coverage", "problem_coverage")


class ReplayStates:
    """The measurements of one model's replay, by its index of cells: `cells.parquet`, and the folder of the batches' files.

    Arrays have the current problems first, then the histories, both in the order of the design.
    Raises ValueError if the index is absent or has other columns.
    """

    def __init__(self, cells: Path, folder: Path) -> None:
        self._index, self._folder = cells, folder
        self._sound: set[str] = set()
        self._cells: dict[tuple[int, int, str, str | None], ReplayCell] = {}
        # Dictionaries in place of sets, which have no order.
        self._covered: dict[tuple[int, CoverageName], tuple[dict[str, None], dict[str, None]]] = {}
        self._sealed = cells.stat().st_mtime_ns if cells.is_file() else 0
        self.depth = 0
        """Completed turns of the longest histories."""
        for cell in rows_as(cells, REPLAY_CELLS, ReplayCell):
            self.depth = max(self.depth, cell.depth)
            self._cells[cell.group, cell.depth, cell.problem_id, cell.history] = cell
            for coverage in _COVERAGES:
                if getattr(cell, coverage) and cell.history is not None:
                    problems, histories = self._covered.setdefault((cell.group, coverage), ({}, {}))
                    problems[cell.problem_id] = histories[cell.history] = None

    def problems(self, group: int, coverage: CoverageName) -> tuple[str, ...]:
        """A coverage's current problems, in the order of arrays."""
        return tuple(self._covered[group, coverage][0])

    def histories(self, group: int, coverage: CoverageName) -> tuple[str, ...]:
        """The names of a coverage's histories, in the order of arrays."""
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
            ValueError: a file is absent or cut, or was changed after the seal.
        """
        return self._stacked(group, coverage, depth, self.histories(group, coverage), tensor, layer)

    def references(self, group: int, coverage: CoverageName, tensor: str, layer: int | None) -> np.ndarray:
        """The same without history: FP32 [problems, ...]; `layer` None for `embedding`, the input of block 0."""
        return self._stacked(group, coverage, 0, (None,), tensor, layer)[:, 0]

    def _stacked(
        self,
        group: int,
        coverage: CoverageName,
        depth: int,
        histories: Sequence[str | None],
        tensor: str,
        layer: int | None,
    ) -> np.ndarray:
        problems = self.problems(group, coverage)
        wanted: dict[str, list[tuple[ReplayCell, int, int]]] = defaultdict(list)
        for column, history in enumerate(histories):
            for line, problem in enumerate(problems):
                cell = self._cells[group, depth, problem, history]
                wanted[cell.file].append((cell, line, column))
        stacked: np.ndarray | None = None
        for of_file in wanted.values():
            cells, lines, columns = (list(each) for each in zip(*of_file, strict=True))
            part = self._read(cells[0], f"{depth}/{tensor}", layer)
            if stacked is None:
                stacked = np.empty((len(problems), len(histories), *part.shape[1:]), part.dtype)
            stacked[lines, columns] = part[[cell.row for cell in cells]]
        assert stacked is not None, "a coverage has cells"
        return stacked

    def _read(self, cell: ReplayCell, name: str, layer: int | None) -> Any:
        """A tensor of a cell's file. The seal has compared the file with its digest; one that is newer is compared again."""
        path = self._folder / cell.file
        try:
            if cell.file not in self._sound:
                if path.stat().st_mtime_ns >= self._sealed and file_digest(path) != cell.sha256:
                    raise self._damaged(path, "does not match its sealed checksum")
                self._sound.add(cell.file)
            with safe_open(path, framework="np") as opened:
                part = opened.get_slice(name)
                return part[:] if layer is None else part[layer]
        except OSError as error:
            raise self._damaged(path, f"cannot be read ({error.strerror})") from None
        except SafetensorError as error:
            raise self._damaged(path, f"is damaged ({error})") from None

    def _damaged(self, path: Path, fault: str) -> ValueError:
        return ValueError(
            f"{path} {fault}; delete {self._index}; the next start of the run then measures this file again, and no other"
        )
