"""Tensors on disk and their identity: safetensors written beside and renamed, SHA-256 over content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from stair.records.files import replacing
from stair.records.tensor_files import header_of, tensor_facts


def digest_tensors(header: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 (hex) over `header` and each tensor's name, dtype, shape and bytes, in the mapping's order."""
    state = hashlib.sha256(header.encode())
    for name, tensor in tensors.items():
        content = tensor.detach().cpu().contiguous()
        state.update(f"|{name}|{content.dtype}|{list(content.shape)}|".encode())
        state.update(content.view(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def write_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any], *, durable: bool = True
) -> None:
    """Write a safetensors file with `facts` (JSON values) in its header; `path` has its earlier content or the whole new one.

    `durable` waits for the disk; without it, a loss of power can lose the file, the end of the process cannot.
    Raises OSError when it cannot be written: a full disk, no permission.
    """
    content = save({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, header_of(facts))
    try:
        with replacing(Path(path), durable=durable) as partial:
            partial.write_bytes(content)
    except OSError as error:
        raise OSError(error.errno, f"{path} cannot be written: {error.strerror}") from None


def share(path: Path) -> None:
    """Let those read a file who may read its folder: safetensors writes it for its owner alone."""
    with suppress(OSError):
        path.chmod(0o600 | path.parent.stat().st_mode & 0o044)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return (tensors on the CPU, facts). Raises ValueError when the file is missing, cut or not safetensors."""
    try:
        with safe_open(str(path), framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, tensor_facts(Path(path))  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read as safetensors: {str(error).splitlines()[0]}") from error
