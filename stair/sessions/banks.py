"""Captured states on disk until their trajectory has ended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stair.method import Segment


class BankStore:
    """A folder of segments, each named by its response."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.safetensors"

    def keep(self, name: str, segment: Segment) -> None:
        """Saves a segment."""
        # Nothing is lost with a segment that a power failure takes: it is reconstructed.
        segment.save(self._path(name), durable=False)

    def load(self, name: str) -> Segment | None:
        """A saved segment; None if it is lost or damaged."""
        from stair.method import Segment

        try:
            return Segment.load(self._path(name))
        except (ValueError, OSError):
            return None

    def forget(self, names: Iterable[str]) -> None:
        """Removes segments."""
        for name in names:
            self._path(name).unlink(missing_ok=True)
