"""The files to download from the hub: their names and sizes, the access to them, and the disk space that they need."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from stair.models.hub.download import incomplete_path
from stair.models.hub.revisions import Source

_MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
_SPARE_BYTES = 1 << 30
"""Bytes that must stay free on the disk."""


@dataclass(frozen=True)
class HubFile:
    """A file of a repository at a commit."""

    name: str
    bytes: int
    sha256: str | None
    """Known for large files."""
    git_sha1: str | None
    """Git's digest of the content, known for small files."""

    @property
    def digest(self) -> str:
        """Names the content."""
        return self.sha256 or self.git_sha1 or hashlib.sha256(self.name.encode()).hexdigest()

    def bytes_present(self, folder: Path) -> int:
        """The bytes on this disk, of the complete file or of a partial download."""
        if self._has_size(folder / self.name):
            return self.bytes
        incomplete = incomplete_path(folder, self.digest)
        return min(incomplete.stat().st_size, self.bytes) if incomplete.is_file() else 0

    def checked_sha256(self, folder: Path) -> str | None:
        """The SHA-256 of the file in the cache; None if it is absent or differs from the hub's."""
        path = folder / self.name
        if not self._has_size(path):
            return None
        sha256, git = hashlib.sha256(), hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
        with open(path, "rb") as handle:
            while block := handle.read(1 << 22):
                sha256.update(block)
                if self.sha256 is None:
                    git.update(block)
        expected, actual = (self.sha256, sha256.hexdigest()) if self.sha256 else (self.git_sha1, git.hexdigest())
        return sha256.hexdigest() if expected in (None, actual) else None

    def _has_size(self, path: Path) -> bool:
        return path.is_file() and path.stat().st_size == self.bytes


@dataclass
class DownloadPlan:
    """The files to download from one source."""

    source: Source
    commit: str
    files: list[HubFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def missing_bytes(self) -> int:
        """The bytes that are not on this disk yet."""
        return sum(file.bytes - file.bytes_present(self.source.folder) for file in self.files)


def download_plans(
    sources: list[Source], lock: dict[str, dict[str, Any]], lock_path: Path
) -> tuple[list[DownloadPlan], list[str]]:
    """The files of each source at its locked or configured commit, and one line for every source without access."""
    from huggingface_hub import HfApi

    api, plans, faults = HfApi(), [], []
    for source in sources:
        entry = lock.get(source.locked_as)
        locked = entry["commit"] if entry else None
        revision = f"{locked}, which {lock_path} has recorded" if locked else str(source.revision or "main")
        try:
            plans.append(_one_line_errors(source, revision, lambda: _plan(api, source, locked)))  # noqa: B023
        except ValueError as error:
            faults.append(str(error))
    return plans, faults


def _plan(api: Any, source: Source, locked: str | None) -> DownloadPlan:
    kind = "dataset" if source.dataset else "model"
    api.auth_check(source.repository, repo_type=kind)
    info = api.repo_info(source.repository, repo_type=kind, revision=locked or source.revision, files_metadata=True)
    if locked and info.sha != locked:
        raise ValueError(f"{source.name}: the hub gives {info.sha} of {source.repository} where {locked} was recorded")
    files = [
        HubFile(entry.rfilename, entry.size or 0, entry.lfs.sha256 if entry.lfs else None, entry.blob_id)
        for entry in info.siblings
    ]
    if source.file is not None:
        chosen = [file for file in files if file.name == source.file]
        if not chosen:
            names = ", ".join(file.name for file in files)
            raise ValueError(
                f"{source.name}.file: {source.repository} has no {source.file} at {info.sha} (it has: {names})"
            )
    else:
        chosen = [file for file in files if any(fnmatch(file.name, pattern) for pattern in _MODEL_FILES)]
        chosen = [file for file in chosen if "/" not in file.name]
        if not any(file.name == "config.json" for file in chosen):
            raise ValueError(f"{source.name}: {source.repository} holds no model (there is no config.json)")
    return DownloadPlan(source, str(info.sha), chosen)


def _one_line_errors(source: Source, revision: str, request: Callable[[], DownloadPlan]) -> DownloadPlan:
    """Sends a request to the hub; turns each of its errors into one line with the remedy."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return request()
    except GatedRepoError:
        page = f"{constants.ENDPOINT}/{source.page}"
        raise ValueError(
            f"{source.name}: {source.repository} is gated and this account has no access: accept its conditions at {page}, "
            "then give a token (run 'hf auth login', or set HF_TOKEN) and fetch again"
        ) from None
    except RevisionNotFoundError:
        raise ValueError(f"{source.name}.revision: {source.repository} has no {revision}") from None
    except RepositoryNotFoundError:
        raise ValueError(
            f"{source.name}.repository: {constants.ENDPOINT}/{source.page} does not exist, or is private and needs a token"
        ) from None
    except HfHubHTTPError as error:
        raise ValueError(f"{source.name}: the hub refused {source.repository}: {first_line(error)}") from None
    except ValueError:
        raise
    except Exception as error:  # the HTTP client's own exceptions share no base with the library's
        raise ValueError(f"{source.name}: {constants.ENDPOINT} does not answer ({first_line(error)})") from error


def print_sizes(plans: list[DownloadPlan]) -> None:
    """Prints the size of each source, and of the part that is on this disk already."""
    print("To fetch:")
    for plan in plans:
        files = plan.source.file or f"{len(plan.files)} files"
        present = plan.bytes - plan.missing_bytes
        note = f", {bytes_text(present)} of it here" if present else ""
        print(f"  {bytes_text(plan.bytes):>9}  {plan.source.repository} at {plan.commit[:12]}: {files}{note}")
    print(f"  {bytes_text(sum(plan.bytes for plan in plans)):>9}  in all", flush=True)


def check_space(plans: list[DownloadPlan], cache: Path) -> None:
    """Refuses downloads that the cache's disk has too little space for.

    Raises:
        ValueError: the missing bytes, and the bytes that stay free, exceed the free space.
    """
    needed = sum(plan.missing_bytes for plan in plans)
    existing = next(folder for folder in (cache.absolute(), *cache.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(existing).free
    if needed + _SPARE_BYTES > free:
        raise ValueError(
            f"hub.cache: {cache} needs {bytes_text(needed)} more, beside {bytes_text(_SPARE_BYTES)} that stay free, and "
            f"{existing} has {bytes_text(free)} free; make room, or set hub.cache to a larger disk"
        )


def first_line(error: BaseException) -> str:
    """An error's first line; its type without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def bytes_text(count: int) -> str:
    """A size for people, such as 24.1 MB."""
    size, units = float(count), iter(("B", "KB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
