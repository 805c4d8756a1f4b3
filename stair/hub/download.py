"""One file from the hub, resumed where an earlier attempt broke off, whatever ended it.

The library's own `hf_hub_download` begins a file anew in every process. Its parts are used here instead: `get_hf_file_metadata`
says where the bytes are, `http_get` brings them from a given place on and goes on by itself after a lost connection.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

PARTIAL = ".partial"
"""The folder, beside what is complete, with files that are not; each is named after its digest."""


def partial_path(folder: Path, digest: str) -> Path:
    """Where a file of this digest grows until it is complete."""
    return folder / PARTIAL / digest


def download(
    repository: str,
    name: str,
    commit: str,
    *,
    dataset: bool,
    folder: Path,
    size: int,
    digest: str,
    told: Callable[[int], None],
) -> None:
    """Brings `folder / name`; what an earlier attempt left of it is kept and gone on with.

    Args:
        repository: on the hub.
        name: the file's path within it.
        commit: the full commit.
        dataset: whether it is a repository of data.
        folder: the repository's folder in the cache.
        size: the file's bytes.
        digest: names the content.
        told: told how many bytes of it are here.

    Raises:
        OSError, ValueError, or an exception of the HTTP client: it broke off; another process is downloading it.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    growing = partial_path(folder, digest)
    growing.parent.mkdir(parents=True, exist_ok=True)
    with _Told(growing, told) as handle:
        _own(handle)
        # Another process may have written, or ended, between the opening and the lock.
        if not growing.is_file() or not os.path.samestat(os.fstat(handle.fileno()), growing.stat()):
            raise ValueError("another process has just brought it; fetch again")
        handle.seek(0, os.SEEK_END)
        if handle.tell() > size:
            handle.truncate(0)
            handle.seek(0)
        if handle.tell() < size:
            address = hf_hub_url(repository, name, repo_type="dataset" if dataset else "model", revision=commit)
            headers = build_hf_headers()
            place = get_hf_file_metadata(address, headers=headers).location
            if urlparse(place).netloc != urlparse(address).netloc:
                headers.pop("authorization", None)  # the token is the hub's, not that of where it keeps its files
            writable: Any = handle
            http_get(place, writable, resume_size=handle.tell(), headers=headers, expected_size=size)
        os.fsync(handle.fileno())
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(growing, target)
    with suppress(OSError):
        growing.parent.rmdir()


class _Told(FileIO):
    """A file that is written from its end on, and says how long it is."""

    def __init__(self, path: Path, told: Callable[[int], None]) -> None:
        super().__init__(path, "a+")
        self.seek(0, os.SEEK_END)
        self._told = told

    def write(self, block: Any) -> int:
        view, written = memoryview(block), 0
        while written < len(view):
            written += super().write(view[written:]) or 0
        self._told(self.tell())
        return written


def _own(handle: FileIO) -> None:
    """Two processes that wrote into one file would spoil it. Where the file system knows no locks, the digest finds it out."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError("another process is downloading it; wait for it") from None
    except OSError:
        pass
