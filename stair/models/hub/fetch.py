"""Fetching models and data sets from the hub: downloads, completion marks, and the lock file of commits."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.models.hub.download import download
from stair.models.hub.download_plan import (
    DownloadPlan,
    bytes_text,
    check_space,
    download_plans,
    first_line,
    print_sizes,
)
from stair.models.hub.revisions import Files, Source, check_agreement, damage, hub_sources, read_lock, read_mark, strays
from stair.records.files import write_json, write_json_if_changed
from stair.records.progress import Progress


def fetch(config: Config, paths: RunPaths, names: Iterable[str] = ()) -> None:
    """Downloads the models and data sets of a run from the hub into the cache, and records their commits in the lock file.

    Access, sizes and free space are checked before the first download. Partial downloads are resumed, and complete sources
    need no request.

    Args:
        names: keys of the configuration (`models.qwen3.5-4b`, `training_pool`); all when empty.

    Raises:
        ValueError: a repository is gated, missing or at another commit than recorded; the disk has too little space; the
            hub does not answer; or a file differs from the hub's.
    """
    chosen, lock_path = set(names), anchored(config.hub.lock)
    sources = list(hub_sources(config, paths))
    unknown = chosen - {source.name for source in sources}
    if unknown:
        known = ", ".join(source.name for source in sources) or "none"
        raise ValueError(f"{sorted(unknown)[0]} is not fetched from the hub in this run (fetched are: {known})")
    if lock_path.exists() and not lock_path.is_file():
        raise ValueError(f"hub.lock: {lock_path} is not a file")
    lock = read_lock(lock_path)
    incomplete: list[Source] = []
    for source in sources:
        if chosen and source.name not in chosen:
            continue
        check_agreement(source, lock, lock_path)
        if (commit := _complete_commit(source, lock, lock_path)) is None:
            if source.mark not in [other.mark for other in incomplete]:  # two entries can name the same files
                incomplete.append(source)
            continue
        print(f"{source.name}: {source.repository} at {commit[:12]} is here ({source.folder})")
    if not incomplete:
        print("Everything is here.")
        return
    # The library reads this at its import; a process that imported it offline cannot fetch.
    os.environ["HF_HUB_OFFLINE"] = "0"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = (
        "1"  # `Progress` prints lines for all files together, which logs keep too
    )
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise ValueError(
            "hub access is off in this process (TRANSFORMERS_OFFLINE?); fetch from a shell where it is not set"
        )
    plans, faults = download_plans(incomplete, lock, lock_path)
    if faults:
        raise ValueError("; ".join(faults))
    print_sizes(plans)
    check_space(plans, anchored(config.hub.cache))
    total, fetched = sum(plan.missing_bytes for plan in plans), 0
    progress = Progress(paths.progress, "fetch", _megabytes(total), "MB")
    for plan in plans:
        missing = plan.missing_bytes
        files = _download(plan, lambda received: progress.set(_megabytes(fetched + received)))  # noqa: B023
        _remove_strays(plan.source, files)  # of another commit, from an attempt without a lock file
        _record(lock_path, plan.source, plan.commit, files)
        _write_mark(plan.source, plan.commit, files)
        fetched += missing
        print(f"{plan.source.name}: complete, {bytes_text(fetched)} of {bytes_text(total)} fetched", flush=True)


def _megabytes(count: int) -> int:
    return -(-count // 1_000_000)


def _complete_commit(source: Source, lock: dict[str, dict[str, Any]], lock_path: Path) -> str | None:
    """The commit of a source that is complete in the cache; None for one that needs a download.

    The workflow removes the mark of a failed attempt, so the files can be complete without a mark.
    """
    entry, mark = lock.get(source.locked_as), read_mark(source)
    if mark is not None:
        _remove_strays(source, mark.files)
        # Reading all weights takes minutes: their sizes suffice, unless a file was written after the mark.
        if fault := damage(source, mark.files, contents=source.dataset or _newer_than_mark(source, mark.files)):
            print(f"{source.name}: {fault}; it is fetched again")
            _remove_damaged(source, mark.files)
            return None
        _set_times(source, mark.files)
        if entry is None:
            _record(lock_path, source, mark.commit, mark.files)
        return mark.commit
    if entry is None:
        return None
    files: Files = entry["files"]
    if source.file is not None:
        files = {name: facts for name, facts in files.items() if name == source.file}
    if not files or (source.file is None and "config.json" not in files) or damage(source, files):
        return None
    size = sum(facts["bytes"] for facts in files.values())
    print(f"{source.name}: reading the files in the cache, {bytes_text(size)}", flush=True)
    if damage(source, files, contents=True):
        _remove_damaged(source, files)
        return None
    commit: str = entry["commit"]
    _write_mark(source, commit, files)
    return commit


def _remove_damaged(source: Source, files: Files) -> None:
    for name, facts in files.items():
        if damage(source, {name: facts}, contents=True):
            (source.folder / name).unlink(missing_ok=True)


def _newer_than_mark(source: Source, files: Files) -> bool:
    """Whether a file was written after the source's mark."""
    marked = source.mark.stat().st_mtime_ns
    paths = [source.folder / name for name in files]
    return any(path.stat().st_mtime_ns > marked for path in paths if path.is_file())


def _remove_strays(source: Source, files: Files) -> None:
    for path in strays(source, files):
        print(f"{source.name}: {path} is no file of this commit; it is removed")
        path.unlink()


def _write_mark(source: Source, commit: str, files: Files) -> None:
    """Marks the source as complete. An equal mark keeps its time, so that outputs made from it stay fresh."""
    write_json_if_changed(source.mark, {"repository": source.repository, "commit": commit, "files": files})
    _set_times(source, files)


def _set_times(source: Source, files: Files) -> None:
    """Gives files whose digests were just checked the time of the mark, so that they are not `_newer_than_mark`."""
    if _newer_than_mark(source, files):
        marked = source.mark.stat().st_mtime_ns
        for name in files:
            os.utime(source.folder / name, ns=(marked, marked))


def _download(plan: DownloadPlan, progress: Callable[[int], None]) -> Files:
    """Downloads the files of one source; returns their sizes and SHA-256. `progress` is called with the bytes received."""
    source, fetched, received = plan.source, {}, 0
    for file in plan.files:
        path = source.folder / file.name
        missing = file.bytes - file.bytes_present(source.folder)
        offset = received - (file.bytes - missing)
        if (sha256 := file.checked_sha256(source.folder)) is not None:
            fetched[file.name] = {"bytes": file.bytes, "sha256": sha256}
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
                progress=lambda present: progress(offset + present),  # noqa: B023
            )
        except Exception as error:  # the HTTP client's own exceptions share no base with the library's
            raise ValueError(
                f"{source.name}: {file.name} of {source.repository} broke off ({first_line(error)}); the partial download is "
                "kept, fetch again to resume it"
            ) from error
        if (sha256 := file.checked_sha256(source.folder)) is None:
            path.unlink()
            raise ValueError(
                f"{source.name}: {path} is not what {source.repository} holds; it was removed, fetch again"
            )
        fetched[file.name] = {"bytes": file.bytes, "sha256": sha256}
        received += missing
    return fetched


def _record(lock_path: Path, source: Source, commit: str, files: Files) -> None:
    """Adds a source to the lock file; an entry that exists must be the same."""
    with _locked_folder(lock_path.absolute().parent):
        lock = read_lock(lock_path)  # another fetch may have written meanwhile
        entry = lock.setdefault(source.locked_as, {"commit": commit, "files": {}})
        if entry["commit"] != commit:
            raise ValueError(
                f"{source.name}: {lock_path} has recorded {entry['commit']} of {source.repository} while {commit} was fetched; "
                "fetch again to get the recorded commit"
            )
        known = entry["files"]
        for name, facts in files.items():
            if known.setdefault(name, facts)["sha256"] != facts["sha256"]:
                raise ValueError(
                    f"{source.name}: {name} of {source.repository} is not the file that {lock_path} has recorded"
                )
        write_json(lock_path, dict(sorted(lock.items())))


@contextmanager
def _locked_folder(folder: Path) -> Iterator[None]:
    """Keeps other fetches from the lock file in a folder, where the file system has locks."""
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
