"""Resumable download of one file from the hub.

The library's `hf_hub_download` starts a file anew in every process. This module uses two of its parts instead:
`get_hf_file_metadata` gives the address of the bytes, and `http_get` downloads them from an offset and reconnects after a
lost connection.
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
"""The folder of incomplete files, beside the complete ones; each is named after its digest."""


def incomplete_path(folder: Path, digest: str) -> Path:
    """The path of a file with this digest until it is complete."""
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
    progress: Callable[[int], None],
) -> None:
    """Downloads a file to `folder / name` and resumes a partial download.

    Args:
        repository: on the hub.
        name: the file's path within it.
        commit: the full commit.
        dataset: whether the repository holds a data set.
        folder: the repository's folder in the cache.
        size: of the file, in bytes.
        digest: names the content.
        progress: called with the number of bytes on this disk.

    Raises:
        ValueError: another process is downloading the file.
        OSError, or an exception of the HTTP client: the download failed.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url
    from huggingface_hub.file_download import http_get
    from huggingface_hub.utils import build_hf_headers

    incomplete = incomplete_path(folder, digest)
    incomplete.parent.mkdir(parents=True, exist_ok=True)
    with _CountedFile(incomplete, progress) as handle:
        _lock(handle)
        # Another process may have completed the file between the opening and the lock.
        if not incomplete.is_file() or not os.path.samestat(os.fstat(handle.fileno()), incomplete.stat()):
            raise ValueError("another process has just downloaded it; fetch again")
        handle.seek(0, os.SEEK_END)
        if handle.tell() > size:
            handle.truncate(0)
            handle.seek(0)
        if handle.tell() < size:
            address = hf_hub_url(repository, name, repo_type="dataset" if dataset else "model", revision=commit)
            headers = build_hf_headers()
            location = get_hf_file_metadata(address, headers=headers).location
            if urlparse(location).netloc != urlparse(address).netloc:
                headers.pop("authorization", None)  # the token is for the hub, not for its file storage
            writable: Any = handle
            http_get(location, writable, resume_size=handle.tell(), headers=headers, expected_size=size)
        os.fsync(handle.fileno())
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        os.replace(incomplete, target)
    with suppress(OSError):
        incomplete.parent.rmdir()


class _CountedFile(FileIO):
    """A file opened for appending that reports its length after every write."""

    def __init__(self, path: Path, progress: Callable[[int], None]) -> None:
        super().__init__(path, "a+")
        self.seek(0, os.SEEK_END)
        self._progress = progress

    def write(self, block: Any) -> int:
        view, written = memoryview(block), 0
        while written < len(view):
            written += super().write(view[written:]) or 0
        self._progress(self.tell())
        return written


def _lock(handle: FileIO) -> None:
    """Refuses a second writer. Where the file system has no locks, the digest detects a file that two processes wrote."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise ValueError("another process is downloading it; wait for it") from None
    except OSError:
        pass
