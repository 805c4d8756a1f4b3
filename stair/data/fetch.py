"""Fetching models and data sets from the hub: the only code that uses the network."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.data.revisions import Source, check_agreement, hub_sources, marked_commit, read_lock
from stair.records.files import write_json
from stair.records.progress import duration

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
        return sum(file.bytes for file in self.files if not _has_size(self.source.folder / file.name, file))


def fetch(config: Config, paths: RunPaths, names: Iterable[str] = ()) -> None:
    """Fetches what a run needs from the hub into the cache, and records the commits that came.

    Access, sizes and free space are looked at before anything is downloaded. What an earlier attempt left is gone on with;
    what is complete is not asked for again.

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
        raise ValueError(f"{sorted(unknown)[0]} is not fetched from the hub in this run")
    lock = read_lock(where)
    waiting: list[Source] = []
    for source in sources:
        if chosen and source.name not in chosen:
            continue
        check_agreement(source, lock, where)
        if (held := marked_commit(source)) is None:
            if source.mark not in [other.mark for other in waiting]:  # two entries can take the same files
                waiting.append(source)
            continue
        if source.locked_as not in lock:
            _record(where, source, held, [], {})
        print(f"{source.name}: {source.repository} at {held[:12]} is here ({source.folder})")
    if not waiting:
        print("Everything is here.")
        return
    # The library looks at this when it is imported; a process that has imported it offline cannot fetch.
    os.environ["HF_HUB_OFFLINE"] = "0"
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise ValueError(
            "hub access is off in this process (TRANSFORMERS_OFFLINE?); fetch from a shell where it is not set"
        )
    plans = _plans(waiting, lock)
    _tell_sizes(plans)
    _check_space(plans, Path(config.hub.cache))
    total, done, started = sum(plan.missing for plan in plans), 0, time.monotonic()
    for plan in plans:
        missing = plan.missing
        digests = _download(plan)
        _record(where, plan.source, plan.commit, plan.files, digests)
        mark = {"repository": plan.source.repository, "commit": plan.commit, "files": digests}
        write_json(plan.source.mark, mark)
        done += missing
        rate = done / max(time.monotonic() - started, 1e-9)
        left = f", about {duration((total - done) / rate)} left" if done and done < total else ""
        print(f"{plan.source.name}: complete, {shown(done)} of {shown(total)} fetched{left}", flush=True)


def shown(count: int) -> str:
    """Bytes as a person says them."""
    size, units = float(count), iter(("B", "KB", "MB", "GB", "TB"))
    unit = next(units)
    while size >= 1000 and unit != "TB":
        size, unit = size / 1000, next(units)
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def _plans(sources: list[Source], lock: dict[str, dict[str, Any]]) -> list[Wanted]:
    """What each source has at the commit that is wanted; every fault of access is told at once."""
    from huggingface_hub import HfApi

    api, plans, faults = HfApi(), [], []
    for source in sources:
        entry = lock.get(source.locked_as)
        try:
            plans.append(_asking(source, lambda: _plan(api, source, entry["commit"] if entry else None)))  # noqa: B023
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


def _asking(source: Source, question: Callable[[], Wanted]) -> Wanted:
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
        raise ValueError(f"{source.name}.revision: {source.repository} has no {source.revision}") from None
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
        raise ValueError(f"hub.cache: {cache} needs {shown(needed)} more, and {there} has {shown(free)} free")


def _download(plan: Wanted) -> dict[str, str]:
    """Downloads the files of one source, goes on with what is there, and gives their SHA-256."""
    from huggingface_hub import hf_hub_download

    source, digests = plan.source, {}
    for file in plan.files:
        path = source.folder / file.name
        try:  # the library goes on where a connection broke, some times, by itself
            hf_hub_download(
                source.repository,
                file.name,
                repo_type="dataset" if source.dataset else "model",
                revision=plan.commit,
                local_dir=source.folder,
            )
        except Exception as error:  # the HTTP client's own exceptions share no base with the library's
            raise ValueError(
                f"{source.name}: {file.name} of {source.repository} broke off ({_line(error)}); what came is kept, "
                "fetch again to go on"
            ) from error
        digests[file.name] = _checked(path, file, source)
    return digests


def _checked(path: Path, file: HubFile, source: Source) -> str:
    """The SHA-256 of a file that came, held to what the hub says of it; a wrong one is removed."""
    sha256, git = hashlib.sha256(), hashlib.sha1(f"blob {path.stat().st_size}\0".encode())
    with open(path, "rb") as handle:
        while block := handle.read(1 << 22):
            sha256.update(block)
            if file.sha256 is None:
                git.update(block)
    known, found = (file.sha256, sha256.hexdigest()) if file.sha256 else (file.git_sha1, git.hexdigest())
    if not _has_size(path, file) or (known is not None and known != found):
        path.unlink()
        raise ValueError(f"{source.name}: {path} is not what {source.repository} holds; it was removed, fetch again")
    return sha256.hexdigest()


def _has_size(path: Path, file: HubFile) -> bool:
    return path.is_file() and path.stat().st_size == file.bytes


def _record(where: Path, source: Source, commit: str, files: list[HubFile], digests: dict[str, str]) -> None:
    """Writes what came into the lock file; what it knew already must be the same."""
    lock = read_lock(where)  # another fetch may have written meanwhile
    entry = lock.setdefault(source.locked_as, {"commit": commit, "files": {}})
    known = entry["files"]
    for file in files:
        before = known.setdefault(file.name, {"bytes": file.bytes, "sha256": digests[file.name]})
        if before["sha256"] != digests[file.name]:
            raise ValueError(
                f"{source.name}: {file.name} of {source.repository} is not the file that {where} has recorded"
            )
    write_json(where, dict(sorted(lock.items())))


def _line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
