"""Captured states on disk until their chain has ended."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stair.method import Segment


class BankStore:
    """A folder of segments, named by the chain that owns them and by their content.

    Two chains can own segments of one content (equal answers to one problem), and each removes its own. Segments of running
    chains are also in memory.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held: dict[str, dict[str, Segment]] = defaultdict(dict)
        self._files: dict[str, set[Path]] | None = None

    def _owned(self) -> dict[str, set[Path]]:
        """The files of each owner; the folder is listed once."""
        if self._files is None:
            self._files = defaultdict(set)
            for path in self._folder.glob("*.safetensors"):
                self._files[path.name.rsplit(".", 2)[0]].add(path)
            for path in self._folder.glob(".*.safetensors.*.partial"):  # what a killed process had begun to write
                self._files[path.name[1:].rsplit(".", 5)[0]].add(path)
        return self._files

    def _path(self, owner: str, digest: str) -> Path:
        return self._folder / f"{owner}.{digest}.safetensors"

    def keep(self, owner: str, segment: Segment) -> str:
        """Makes a segment durable; returns its digest."""
        path = self._path(owner, segment.digest)
        if not path.is_file():
            # Nothing is lost with a segment that a power failure takes: it is reconstructed.
            segment.save(path, durable=False)
            self._owned()[owner].add(path)
        self._held[owner][segment.digest] = segment
        return segment.digest

    def load(self, owner: str, digest: str) -> Segment | None:
        """A kept segment; None if it is lost or damaged."""
        from stair.method import Segment

        held = self._held[owner].get(digest)
        if held is not None:
            return held
        path = self._path(owner, digest)
        try:
            segment = Segment.load(path)
        except (ValueError, OSError):
            return None
        if segment.digest != digest:
            return None
        self._held[owner][digest] = segment
        return segment

    def forget(self, owner: str) -> None:
        """Removes the segments of a chain."""
        self._held.pop(owner, None)
        for path in self._owned().pop(owner, ()):
            path.unlink(missing_ok=True)
