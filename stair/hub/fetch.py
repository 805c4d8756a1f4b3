"""Fetching models and data sets from the hub: the only code that uses the network."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.hub.download import download, partial_path
from stair.hub.revisions import Files, Source, check_agreement, damage, hub_sources, read_lock, read_mark, strays
from stair.jobs.progress import Progress
from stair.records.files import write_json, write_json_if_changed

_MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
_SPARE = 1 << 30
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

    def here(self, folder: Path) -> int:
        """Bytes of it that are on this disk, of a complete file or of one that broke off."""
        if _has_size(folder / self.name, self):
            return self.bytes
        growing = partial_path(folder, self.digest)
        return min(growing.stat().st_size, self.bytes) if growing.is_file() else 0


@dataclass
class Wanted:
    """What is to be fetched of one source."""

    source: Source
    commit: str
    files: list[HubFile] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Of all files."""
        return sum(file.bytes for file in self.files)

    @property
    def missing(self) -> int:
        """Bytes that are not on this disk yet."""
        return sum(file.bytes - file.here(self.source.folder) for file in self.files)


def fetch(config: Config, paths: RunPaths, names: Iterable[str] = ()) -> None:
    """Fetches what a run needs from the hub into the cache, and records the commits that came.

    Access, sizes and free space are looked at before anything is downloaded. What an earlier attempt left is gone on with,
    within a file too; what is complete is not asked for again.

    Args:
        names: places in the configuration (`models.qwen3.5-4b`, `training_pool`); all when empty.

    Raises:
        ValueError: a repository that is gated, missing or at another commit than recorded, too little space, a hub that
            does not answer, or a file that is not what the hub says.
    """
    chosen, where = set(names), Path(config.hub.lock)
    sources = list(hub_sources(config, paths))
    unknown = chosen - {source.name for source in sources}
    if unknown:
        known = ", ".join(source.name for source in sources) or "none"
        raise ValueError(f"{sorted(unknown)[0]} is not fetched from the hub in this run (what is: {known})")
    if where.exists() and not where.is_file():
        raise ValueError(f"hub.lock: {where} is not a file")
    lock = read_lock(where)
    waiting: list[Source] = []
    for source in sources:
        if chosen and source.name not in chosen:
            continue
        check_agreement(source, lock, where)
        if (commit := _complete(source, lock, where)) is None:
            if source.mark not in [other.mark for other in waiting]:  # two entries can take the same files
                waiting.append(source)
            continue
        print(f"{source.name}: {source.repository} at {commit[:12]} is here ({source.folder})")
    if not waiting:
        print("Everything is here.")
        return
    # The library looks at this when it is imported; a process that has imported it offline cannot fetch.
    os.environ["HF_HUB_OFFLINE"] = "0"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # the lines of `Progress` are for all files, and for logs too
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise ValueError(
            "hub access is off in this process (TRANSFORMERS_OFFLINE?); fetch from a shell where it is not set"
        )
    plans = _plans(waiting, lock, where)
    _tell_sizes(plans)
    _check_space(plans, Path(config.hub.cache))
    total, before = sum(plan.missing for plan in plans), 0
    progress = Progress(paths.progress, "fetch", _megabytes(total), "MB")
    for plan in plans:
        missing = plan.missing
        files = _download(plan, lambda done: progress.set(_megabytes(before + done)))  # noqa: B023
        _remove_strays(plan.source, files)  # of another commit, which an attempt without a lock began with
        _record(where, plan.source, plan.commit, files)
        _mark(plan.source, plan.commit, files)
        before += missing
        print(f"{plan.source.name}: complete, {shown(before)} of {shown(total)} fetched", flush=True)


def shown(count: int) -> str:
    """Bytes as a person says them."""
    size, units = float(count), iter(("B", "KB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _megabytes(count: int) -> int:
    return -(-count // 1_000_000)


def _complete(source: Source, lock: dict[str, dict[str, Any]], where: Path) -> str | None:
    """The commit of a source that is here, whole; None where something is to be fetched.

    A mark can be lost though its files are here: the workflow removes those of an attempt that failed.
    """
    entry, mark = lock.get(source.locked_as), read_mark(source)
    if mark is not None:
        _remove_strays(source, mark.files)
        # Reading all weights takes minutes: they are held to their sizes, unless one was written after it came.
        if fault := damage(source, mark.files, contents=source.dataset or _touched(source, mark.files)):
            print(f"{source.name}: {fault}; it is fetched again")
            _remove_damaged(source, mark.files)
            return None
        _date(source, mark.files)
        if entry is None:
            _record(where, source, mark.commit, mark.files)
        return mark.commit
    if entry is None:
        return None
    files: Files = entry["files"]
    if source.file is not None:
        files = {name: facts for name, facts in files.items() if name == source.file}
    if not files or (source.file is None and "config.json" not in files) or damage(source, files):
        return None
    print(
        f"{source.name}: looking at what is here, {shown(sum(facts['bytes'] for facts in files.values()))}", flush=True
    )
    if damage(source, files, contents=True):
        _remove_damaged(source, files)
        return None
    commit: str = entry["commit"]
    _mark(source, commit, files)
    return commit


def _remove_damaged(source: Source, files: Files) -> None:
    for name, facts in files.items():
        if damage(source, {name: facts}, contents=True):
            (source.folder / name).unlink(missing_ok=True)


def _touched(source: Source, files: Files) -> bool:
    """Whether a file was written after the mark that says that it came."""
    marked = source.mark.stat().st_mtime_ns
    paths = [source.folder / name for name in files]
    return any(path.stat().st_mtime_ns > marked for path in paths if path.is_file())


def _remove_strays(source: Source, files: Files) -> None:
    for path in strays(source, files):
        print(f"{source.name}: {path} is no file of this commit; it is removed")
        path.unlink()


def _mark(source: Source, commit: str, files: Files) -> None:
    """Says that the source is complete. A mark that says so already stays as it is: what is made from it does, too."""
    write_json_if_changed(source.mark, {"repository": source.repository, "commit": commit, "files": files})
    _date(source, files)


def _date(source: Source, files: Files) -> None:
    """Gives files that were just held to their digests the mark's time, so that they are not `_touched`."""
    if _touched(source, files):
        marked = source.mark.stat().st_mtime_ns
        for name in files:
            os.utime(source.folder / name, ns=(marked, marked))


def _plans(sources: list[Source], lock: dict[str, dict[str, Any]], where: Path) -> list[Wanted]:
    """What each source has at the commit that is wanted; every fault of access is told at once."""
    from huggingface_hub import HfApi

    api, plans, faults = HfApi(), [], []
    for source in sources:
        entry = lock.get(source.locked_as)
        locked = entry["commit"] if entry else None
        asked = f"{locked}, which {where} has recorded" if locked else str(source.revision or "main")
        try:
            plans.append(_asking(source, asked, lambda: _plan(api, source, locked)))  # noqa: B023
        except ValueError as error:
            faults.append(str(error))
    if faults:
        raise ValueError("; ".join(faults))
    return plans


def _plan(api: Any, source: Source, locked: str | None) -> Wanted:
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
        found = [file for file in files if file.name == source.file]
        if not found:
            names = ", ".join(file.name for file in files)
            raise ValueError(
                f"{source.name}.file: {source.repository} has no {source.file} at {info.sha} (it has: {names})"
            )
    else:
        found = [file for file in files if any(fnmatch(file.name, pattern) for pattern in _MODEL_FILES)]
        found = [file for file in found if "/" not in file.name]
        if not any(file.name == "config.json" for file in found):
            raise ValueError(f"{source.name}: {source.repository} holds no model (there is no config.json)")
    return Wanted(source, str(info.sha), found)


def _asking(source: Source, revision: str, question: Callable[[], Wanted]) -> Wanted:
    """Asks the hub; a refusal is one sentence with what to do."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        GatedRepoError,
        HfHubHTTPError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        return question()
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
        raise ValueError(f"{source.name}: the hub refused {source.repository}: {_line(error)}") from None
    except ValueError:
        raise
    except Exception as error:  # the HTTP client's own exceptions share no base with the library's
        raise ValueError(f"{source.name}: {constants.ENDPOINT} does not answer ({_line(error)})") from error


def _tell_sizes(plans: list[Wanted]) -> None:
    print("To fetch:")
    for plan in plans:
        what = plan.source.file or f"{len(plan.files)} files"
        here = plan.bytes - plan.missing
        note = f", {shown(here)} of it here" if here else ""
        print(f"  {shown(plan.bytes):>9}  {plan.source.repository} at {plan.commit[:12]}: {what}{note}")
    print(f"  {shown(sum(plan.bytes for plan in plans)):>9}  in all", flush=True)


def _check_space(plans: list[Wanted], cache: Path) -> None:
    needed = sum(plan.missing for plan in plans)
    there = next(folder for folder in (cache.absolute(), *cache.absolute().parents) if folder.is_dir())
    free = shutil.disk_usage(there).free
    if needed + _SPARE > free:
        raise ValueError(
            f"hub.cache: {cache} needs {shown(needed)} more, beside {shown(_SPARE)} that stay free, and {there} has "
            f"{shown(free)} free"
        )


def _download(plan: Wanted, told: Callable[[int], None]) -> Files:
    """Downloads the files of one source and gives their sizes and SHA-256; `told` how many bytes have come."""
    source, found, before = plan.source, {}, 0
    for file in plan.files:
        path = source.folder / file.name
        missing = file.bytes - file.here(source.folder)
        come = before - (file.bytes - missing)
        if (sha256 := _digest(path, file)) is not None:
            found[file.name] = {"bytes": file.bytes, "sha256": sha256}
            continue
        path.unlink(missing_ok=True)
        try:
            download(
                source.repository,
                file.name,
                plan.commit,
                dataset=source.dataset,
                folder=source.folder,
                size=file.bytes,
                digest=file.digest,
                told=lambda here: told(come + here),  # noqa: B023
            )
        except Exception as error:  # the HTTP client's own exceptions share no base with the library's
            raise ValueError(
                f"{source.name}: {file.name} of {source.repository} broke off ({_line(error)}); what came is kept, "
                "fetch again to go on"
            ) from error
        if (sha256 := _digest(path, file)) is None:
            path.unlink()
            raise ValueError(
                f"{source.name}: {path} is not what {source.repository} holds; it was removed, fetch again"
            )
        found[file.name] = {"bytes": file.bytes, "sha256": sha256}
        before += missing
    return found


def _digest(path: Path, file: HubFile) -> str | None:
    """The SHA-256 of a file that is here; None where it is not, or is not what the hub says of it."""
    if not _has_size(path, file):
        return None
    sha256, git = hashlib.sha256(), hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with open(path, "rb") as handle:
        while block := handle.read(1 << 22):
            sha256.update(block)
            if file.sha256 is None:
                git.update(block)
    known, found = (file.sha256, sha256.hexdigest()) if file.sha256 else (file.git_sha1, git.hexdigest())
    return sha256.hexdigest() if known in (None, found) else None


def _has_size(path: Path, file: HubFile) -> bool:
    return path.is_file() and path.stat().st_size == file.bytes


def _record(where: Path, source: Source, commit: str, files: Files) -> None:
    """Writes what came into the lock file; what it knew already must be the same."""
    with _alone(where.absolute().parent):
        lock = read_lock(where)  # another fetch may have written meanwhile
        entry = lock.setdefault(source.locked_as, {"commit": commit, "files": {}})
        if entry["commit"] != commit:
            raise ValueError(
                f"{source.name}: {where} has recorded {entry['commit']} of {source.repository} while {commit} was fetched; "
                "fetch again to take that one"
            )
        known = entry["files"]
        for name, facts in files.items():
            if known.setdefault(name, facts)["sha256"] != facts["sha256"]:
                raise ValueError(
                    f"{source.name}: {name} of {source.repository} is not the file that {where} has recorded"
                )
        write_json(where, dict(sorted(lock.items())))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Holds other fetches off the lock file in a folder. Where the file system knows no locks, they are not."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
