"""Reading what a replay measured: one layer of a group's cells at a time, from the files of its histories."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from stair.records.keys import file_digest
from stair.stages.replay.design.crossed import Coverage


class ReplayStates:
    """The measurements of one model's replay, by the checksums that its seal wrote.

    Arrays have the current problems first, then the histories, both in the order of the design.
    Raises ValueError if the checksums are absent.
    """

    def __init__(self, checksums: Path) -> None:
        self._checksums = checksums
        if not checksums.is_file():
            raise ValueError(f"{checksums} is missing: measure and seal the replay first")
        lines = checksums.read_text(encoding="utf-8").splitlines()
        self._digests = {
            checksums.parent / name: digest for digest, _, name in (line.partition("  ") for line in lines)
        }
        self._sealed = checksums.stat().st_mtime_ns
        self._sound: set[Path] = set()

    def cells(self, group: int, coverage: Coverage, depth: int, tensor: str, layer: int) -> np.ndarray:
        """One layer of a tensor over the cells of a coverage: FP32 [problems, histories, ...].

        Args:
            group: 1 or 2.
            coverage: one of the group's.
            depth: completed turns, from 1.
            tensor: `block_outputs`, `masses`, `reads` or `next_mlp`; the last two at the full depth of the problem
                coverage only.
            layer: the index along the tensor's layers: all layers, the full-attention ones, or the measured ones.

        Raises:
            ValueError: a file is absent or cut, or was changed after the seal.
        """
        parts = [self._read(group, history.name, f"{depth}/{tensor}", layer) for history in coverage.histories]
        # A history of both coverages has the problems of the larger one, which begin with those of the smaller.
        return np.stack([part[: len(coverage.problems)] for part in parts], axis=1)

    def references(self, group: int, coverage: Coverage, tensor: str, layer: int | None) -> np.ndarray:
        """The same without history: FP32 [problems, ...]; `layer` None for `embedding`, the input of block 0."""
        return self._read(group, "empty", f"0/{tensor}", layer)[: len(coverage.problems)]

    def _read(self, group: int, history: str, name: str, layer: int | None) -> np.ndarray:
        """A tensor of a file. The seal has compared the file with its digest; one that is newer is compared again."""
        path = self._checksums.parent / "states" / f"group-{group}" / f"{history}.safetensors"
        try:
            if path not in self._sound:
                if path.stat().st_mtime_ns >= self._sealed and file_digest(path) != self._digests.get(path):
                    raise self._damaged(path, "does not match its sealed checksum")
                self._sound.add(path)
            with safe_open(path, framework="np") as opened:
                part = opened.get_slice(name)
                read: np.ndarray = part[:] if layer is None else part[layer]
                return read
        except OSError as error:
            raise self._damaged(path, f"cannot be read ({error.strerror})") from None
        except SafetensorError as error:
            raise self._damaged(path, f"is damaged ({error})") from None

    def _damaged(self, path: Path, fault: str) -> ValueError:
        return ValueError(
            f"{path} {fault}; delete {self._checksums}; the next start of the run then measures this file again, and no other"
        )
