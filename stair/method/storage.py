"""Tensors on disk and their identity: safetensors written beside and renamed, SHA-256 over content."""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor


def digest_tensors(header: str, tensors: Mapping[str, Tensor]) -> str:
    """Return the SHA-256 (hex) over `header` and each tensor's name, dtype, shape and bytes, in the mapping's order."""
    state = hashlib.sha256(header.encode())
    for name, tensor in tensors.items():
        content = tensor.detach().cpu().contiguous()
        state.update(f"|{name}|{content.dtype}|{list(content.shape)}|".encode())
        state.update(content.view(-1).view(torch.uint8).numpy().data)
    return state.hexdigest()


def write_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], *, durable: bool = True
) -> None:
    """Write a safetensors file so that `path` has either its earlier content or the whole new content.

    `durable` waits for the disk; without it, a loss of power can lose the file, the end of the process cannot.
    Raises OSError when it cannot be written: a full disk, no permission.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Whose file it is tells whoever finds it whether it is still being written.
    beside = target.with_name(f".{target.name}.{socket.gethostname().replace('.', '-')}.{os.getpid()}.partial")
    try:
        save_file(
            {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, beside, dict(metadata)
        )
        with open(beside, "r+b") as written:
            _order_header(written)
            written.flush()
            share(beside)
            if durable:
                os.fsync(written.fileno())
        os.replace(beside, target)
    except BaseException as error:
        beside.unlink(missing_ok=True)
        if isinstance(error, SafetensorError):
            line = str(error).splitlines()[0]
            number = re.search(r"os error (\d+)", line)
            said = f"{target} cannot be written: {line}"
            raise (OSError(int(number[1]), said) if number else OSError(said)) from None
        raise


def share(path: Path) -> None:
    """Let those read a file who may read its folder: safetensors writes it for its owner alone."""
    with suppress(OSError):
        path.chmod(0o600 | path.parent.stat().st_mode & 0o044)


def _order_header(file: BinaryIO) -> None:
    """Bring the header's metadata, which safetensors writes in an order of chance, into one order: equal content, equal bytes."""
    (length,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(length))
    if "__metadata__" in header:
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    ordered = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode().ljust(length)
    assert len(ordered) == length, "the same entries in another order are as long"
    file.seek(8)
    file.write(ordered)


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return (tensors on the CPU, metadata). Raises ValueError when the file is missing, cut or not safetensors."""
    try:
        with safe_open(str(path), framework="pt") as opened:
            return {name: opened.get_tensor(name) for name in opened.keys()}, dict(opened.metadata() or {})  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise ValueError(f"{path} cannot be read as safetensors: {str(error).splitlines()[0]}") from error
