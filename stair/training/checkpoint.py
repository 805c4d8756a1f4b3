"""Checkpoints of a training at update boundaries: whole or absent, the newest valid one is taken."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from stair.method.storage import digest_tensors, read_tensors, write_tensors

_KEPT = 2
"""The newest, and one before it should the newest be damaged."""


@dataclass(frozen=True)
class Checkpoint:
    """A training after `update` updates."""

    update: int
    tensors: dict[str, Tensor]
    """Parameters and moments."""
    facts: dict[str, Any]
    """What else goes on from here: the curve so far, what was measured before."""


class Checkpoints:
    """The checkpoints of one training in a folder.

    Args:
        folder: where they lie.
        identity: digest of all that the training depends on; those of another are never taken.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes one, and removes all but the newest."""
        facts = json.dumps(checkpoint.facts)
        header = {
            "kind": "checkpoint",
            "identity": self.identity,
            "update": str(checkpoint.update),
            "facts": facts,
            "digest": digest_tensors(facts, dict(sorted(checkpoint.tensors.items()))),
        }
        write_tensors(self._path(checkpoint.update), checkpoint.tensors, header)
        for path in self._found()[_KEPT:]:
            path.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """The newest that is whole and of this training; None where there is none."""
        for path in self._found():
            try:
                tensors, header = read_tensors(path)
                ours = header["kind"] == "checkpoint" and header["identity"] == self.identity
                if ours and header["digest"] == digest_tensors(header["facts"], dict(sorted(tensors.items()))):
                    return Checkpoint(int(header["update"]), tensors, json.loads(header["facts"]))
            except (ValueError, KeyError):
                continue
        return None

    def clear(self) -> None:
        """Removes them all: the training has ended."""
        for path in self._found():
            path.unlink(missing_ok=True)

    def _path(self, update: int) -> Path:
        return self.folder / f"update-{update:06d}.safetensors"

    def _found(self) -> list[Path]:
        """Newest first."""
        return sorted(self.folder.glob("update-*.safetensors"), reverse=True)
