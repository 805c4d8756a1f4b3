"""Checkpoints of a training at update boundaries, written atomically; a training resumes from the newest valid one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from stair.method.storage import digest_tensors, read_tensors, write_tensors

_KEPT = 2
"""The newest checkpoint, and an earlier one in case the newest is damaged."""


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training after `update` updates."""

    update: int
    tensors: dict[str, Tensor]
    """Parameters and moments."""
    facts: dict[str, Any]
    """The curve so far, and the measurements before the first update."""


class Checkpoints:
    """The checkpoints of one training in a folder. `identity` is the digest of its inputs; those of another are ignored."""

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder, self.identity = folder, identity

    def save(self, checkpoint: Checkpoint) -> None:
        """Writes a checkpoint, and removes all but the newest two."""
        header = {
            "kind": "checkpoint",
            "identity": self.identity,
            "update": checkpoint.update,
            "facts": checkpoint.facts,
            "digest": _digest(checkpoint.facts, checkpoint.tensors),
        }
        write_tensors(self._path(checkpoint.update), checkpoint.tensors, header)
        for path in self._paths()[_KEPT:]:
            path.unlink(missing_ok=True)

    def newest(self) -> Checkpoint | None:
        """The newest valid checkpoint of this training; None if there is none."""
        for path in self._paths():
            try:
                tensors, header = read_tensors(path)
                same = header["kind"] == "checkpoint" and header["identity"] == self.identity
                if same and header["digest"] == _digest(header["facts"], tensors):
                    return Checkpoint(header["update"], tensors, header["facts"])
            except (ValueError, KeyError):
                continue
        return None

    def _path(self, update: int) -> Path:
        return self.folder / f"update-{update:06d}.safetensors"

    def _paths(self) -> list[Path]:
        """The checkpoint files, newest first."""
        return sorted(self.folder.glob("update-*.safetensors"), reverse=True)


def _digest(facts: dict[str, Any], tensors: dict[str, Tensor]) -> str:
    return digest_tensors(json.dumps(facts, sort_keys=True), dict(sorted(tensors.items())))
