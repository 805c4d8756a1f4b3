"""Durable tensors: one safetensors file for each piece of work, written atomically.

The header of a file contains its key and a digest of its tensors. A piece is complete if its file has the current key; a file
with another key is replaced. Equal tensors give equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from stair.records.files import bytes_text, existing_folder, link_or_copy, replacing
from stair.records.keys import file_digest

_HEADER = "stair"

_SPARE_BYTES = 1 << 28
"""Free space for the other files of a run."""


class TensorFiles:
    """The files of one stage.

    Args:
        others: folders of other runs, by the run's name; their files with equal keys are imported.
    """

    def __init__(self, folder: Path, others: Mapping[str, Path] | None = None) -> None:
        self.folder = folder
        self._others = dict(others or {})

    def path(self, name: str) -> Path:
        return self.folder / f"{name}.safetensors"

    def has(self, name: str, key: str) -> bool:
        """Whether a piece is complete under a key; imports it from another run that has it."""
        if _key_of(self.path(name)) == key:
            return True
        for folder in self._others.values():
            other = TensorFiles(folder).path(name)
            if _key_of(other) == key:
                link_or_copy(other, self.path(name))
                return True
        return False

    def keep(self, name: str, key: str, tensors: Mapping[str, np.ndarray]) -> None:
        """Writes a piece durably. Raises OSError if it cannot be written; an earlier file stays."""
        header = header_of({"key": key, "sha256": _content_digest(tensors)})
        with replacing(self.path(name)) as partial:
            # safetensors' own writer reports a full disk as another error, and its files are for their owner alone.
            partial.write_bytes(save(dict(tensors), metadata=header))

    def verified_digest(self, name: str, key: str) -> str | None:
        """The SHA-256 of a piece's file after a check of its tensors against their digest; None if the piece is not complete.

        Raises:
            ValueError: the tensors differ from the written ones. The file is renamed, so that the piece is computed again.
        """
        path = self.path(name)
        if _key_of(path) != key:
            return None
        with safe_open(path, framework="np") as opened:
            tensors = {tensor: opened.get_tensor(tensor) for tensor in opened.keys()}  # noqa: SIM118
        if _content_digest(tensors) != tensor_facts(path)["sha256"]:
            damaged = path.with_name(f"{path.name}.damaged")
            path.rename(damaged)
            raise ValueError(f"the tensors of {path} are not those that were written; it was renamed to {damaged.name}")
        return file_digest(path)

    def require_space(self, nbytes: int, what: str) -> None:
        """Raises ValueError without `nbytes` of free disk space."""
        free = shutil.disk_usage(existing_folder(self.folder)).free
        if nbytes + _SPARE_BYTES > free:
            raise ValueError(
                f"{what} needs {bytes_text(nbytes)} in {self.folder}, where {bytes_text(free)} are free and "
                f"{bytes_text(_SPARE_BYTES)} must stay free: make room, or set `results` to a larger disk"
            )


def _content_digest(tensors: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(tensors):
        array = np.ascontiguousarray(tensors[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\0".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def header_of(facts: Mapping[str, Any]) -> dict[str, str]:
    """The metadata of a file with these facts: one entry, because safetensors writes several in any order."""
    return {_HEADER: json.dumps(facts, sort_keys=True)}


def tensor_facts(path: Path) -> dict[str, Any]:
    """The facts in a file's header; none if there are none, or the file cannot be read."""
    try:
        with safe_open(path, framework="np") as opened:
            facts: dict[str, Any] = json.loads((opened.metadata() or {})[_HEADER])
    except (OSError, SafetensorError, KeyError, ValueError):
        return {}
    return facts


def _key_of(path: Path) -> str | None:
    key = tensor_facts(path).get("key")
    return key if isinstance(key, str) else None
