"""Fetching models and data sets from the hub into the cache. huggingface_hub downloads; this module checks what comes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths, anchored
from stair.models.hub.sources import (
    Source,
    check_agreement,
    faults,
    hub_sources,
    read_lock,
    read_mark,
    record_commits,
)
from stair.records.files import bytes_text, existing_folder, write_json_if_changed
from stair.records.progress import Progress

_MODEL_FILES = ("*.json", "*.safetensors", "*.jinja", "*.txt", "*.model")
_SPARE_BYTES = 1 << 30
"""Bytes that must stay free on the disk."""


@dataclass(frozen=True)
class Download:
    """The files of one source to download."""

    source: Source
    commit: str
    files: list[Any]
    """huggingface_hub's `RepoSibling`: name, size and digest."""

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(file.size for file in self.files)

    @property
    def missing_bytes(self) -> int:
        """The size of the files that are not complete on this disk."""
        return sum(file.size for file in self.files if not self._is_here(file))

    def _is_here(self, file: Any) -> bool:
        path = self.source.folder / file.rfilename
        return path.is_file() and path.stat().st_size == file.size


def fetch(config: Config, paths: RunPaths, names: Iterable[str] = ()) -> None:
    """Downloads the models and data sets of a run into the cache, and records their commits in the lock file.

    Access, sizes and free space are checked before the first download. Complete files are not downloaded again, and complete
    sources need no request.

    Args:
        config: the run.
        paths: its files.
        names: keys of the configuration (`models.qwen3.5-4b`, `training_pool`); all when empty.

    Raises:
        ValueError: a repository is gated, missing or at another commit than recorded; the disk has too little space; the
            hub does not answer; or a file differs from the hub's.
    """
    lock_path = anchored(config.hub.lock)
    lock, missing = read_lock(lock_path), dict[Path, Source]()
    for source in _chosen(config, paths, set(names)):
        check_agreement(source, lock, lock_path)
        if (commit := _complete_commit(source)) is None:
            missing.setdefault(source.mark, source)  # two entries can name the same files
            continue
        if source.locked_as not in lock:
            record_commits(lock_path, {source.locked_as: commit})
        print(f"{source.name}: {source.repository} at {commit[:12]} is here ({source.folder})", flush=True)
    if not missing:
        print("Everything is here.")
        return
    if not online():
        text = "hub access is off in this process (TRANSFORMERS_OFFLINE?); fetch from a shell where it is not set"
        raise ValueError(text)
    downloads, refusals = plan_downloads(missing.values(), lock, lock_path)
    if refusals:
        raise ValueError("; ".join(refusals))
    _print_sizes(downloads)
    _check_space(downloads, anchored(config.hub.cache))
    # Recorded before the first byte, so that a fetch that is interrupted goes on with the same commit.
    record_commits(lock_path, {each.source.locked_as: each.commit for each in downloads})
    total = sum(each.missing_bytes for each in downloads)
    progress = Progress(paths.progress, "fetch", -(-total // 1_000_000), "MB")
    for each in downloads:
        _download(each, progress)


def _chosen(config: Config, paths: RunPaths, names: set[str]) -> list[Source]:
    sources = list(hub_sources(config, paths))
    known = [source.name for source in sources]
    for name in sorted(names.difference(known)):
        listed = ", ".join(known) or "none"
        raise ValueError(f"{name} is not fetched from the hub in this run (fetched are: {listed})")
    return [source for source in sources if not names or source.name in names]


def _complete_commit(source: Source) -> str | None:
    """The commit of a source that is complete in the cache; None for one that needs a download. Removes wrong files."""
    mark = read_mark(source)
    if mark is None:
        return None
    wrong = faults(source, mark)
    for path, fault in wrong.items():
        print(f"{source.name}: {path} {fault}; it is removed and fetched again")
        path.unlink(missing_ok=True)
    return None if wrong else mark.commit


def online() -> bool:
    """Turns hub access on in this process, if it can be: the library reads the environment at its first import."""
    os.environ["HF_HUB_OFFLINE"] = "0"
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE


def plan_downloads(
    sources: Iterable[Source], lock: Mapping[str, str], lock_path: Path
) -> tuple[list[Download], list[str]]:
    """The files of each source at its locked or configured commit, and one line for every source that the hub refuses."""
    downloads, refusals = [], []
    for source in sources:
        try:
            downloads.append(_plan(source, lock.get(source.locked_as), lock_path))
        except ValueError as error:
            refusals.append(f"{source.name}{error}")
    return downloads, refusals


def _plan(source: Source, locked: str | None, lock_path: Path) -> Download:
    """What the hub has of a source. The message of a ValueError follows the source's name."""
    from huggingface_hub import HfApi, constants, errors

    api, repository = HfApi(), source.repository
    try:
        api.auth_check(repository, repo_type=source.kind)
        revision = locked or source.revision
        info: Any = api.repo_info(repository, repo_type=source.kind, revision=revision, files_metadata=True)
    except errors.GatedRepoError:
        raise ValueError(
            f": {repository} is gated and this account has no access: accept its conditions at "
            f"{constants.ENDPOINT}/{source.page}, then give a token (run 'hf auth login', or set HF_TOKEN) and fetch again"
        ) from None
    except errors.RevisionNotFoundError:
        asked = f"{locked}, which {lock_path} has recorded" if locked else source.revision or "main"
        raise ValueError(f".revision: {repository} has no {asked}") from None
    except errors.RepositoryNotFoundError:
        page = f"{constants.ENDPOINT}/{source.page}"
        raise ValueError(f".repository: {page} does not exist, or is private and needs a token") from None
    except errors.HfHubHTTPError as error:
        raise ValueError(f": the hub refused {repository}: {_first_line(error)}") from None
    except Exception as error:  # the HTTP client's own exceptions share no base with the library's
        raise ValueError(f": {constants.ENDPOINT} does not answer ({_first_line(error)})") from error
    files = {file.rfilename: file for file in info.siblings}
    if source.file is not None:
        names = [source.file]
        if source.file not in files:
            raise ValueError(f".file: {repository} has no {source.file} at {info.sha} (it has: {', '.join(files)})")
    else:
        names = [name for name in files if "/" not in name and any(fnmatch(name, each) for each in _MODEL_FILES)]
        if "config.json" not in names:
            raise ValueError(f": {repository} holds no model (there is no config.json)")
    return Download(source, str(info.sha), [files[name] for name in names])


def _download(download: Download, progress: Progress) -> None:
    """Downloads the files of one source, compares them with the hub's digests, and writes the mark."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.utils.sha import git_hash

    source, names, fetched = download.source, [file.rfilename for file in download.files], progress.done
    source.folder.mkdir(parents=True, exist_ok=True)
    missing = download.missing_bytes
    for name in names:
        try:
            hf_hub_download(
                source.repository, name, repo_type=source.kind, revision=download.commit, local_dir=source.folder
            )
        except Exception as error:  # the HTTP client's own exceptions share no base with the library's
            raise ValueError(
                f"{source.name}: {name} of {source.repository} broke off ({_first_line(error)}); complete files are kept, "
                "fetch again to resume"
            ) from error
        progress.set(fetched + (missing - download.missing_bytes) // 1_000_000)
    digests = source.digests()
    for file in download.files:
        path = source.folder / file.rfilename
        # The hub gives a SHA-256 for large files (LFS), and Git's digest for small ones.
        expected = file.lfs.sha256 if file.lfs else file.blob_id
        if (digests.get(file.rfilename) if file.lfs else git_hash(path.read_bytes())) != expected:
            path.unlink(missing_ok=True)
            raise ValueError(
                f"{source.name}: {path} is not what {source.repository} holds; it was removed, fetch again"
            )
    facts = {file.rfilename: {"bytes": file.size, "sha256": digests[file.rfilename]} for file in download.files}
    # An equal mark keeps its time, so that outputs made from it stay fresh.
    write_json_if_changed(source.mark, {"repository": source.repository, "commit": download.commit, "files": facts})
    progress.set(fetched + -(-missing // 1_000_000))
    print(f"{source.name}: complete", flush=True)


def _print_sizes(downloads: list[Download]) -> None:
    """Prints the size of each source, and of the part that is on this disk already."""
    print("To fetch:")
    for each in downloads:
        files = each.source.file or f"{len(each.files)} files"
        present = each.bytes - each.missing_bytes
        note = f", {bytes_text(present)} of it here" if present else ""
        print(f"  {bytes_text(each.bytes):>9}  {each.source.repository} at {each.commit[:12]}: {files}{note}")
    print(f"  {bytes_text(sum(each.bytes for each in downloads)):>9}  in all", flush=True)


def _check_space(downloads: list[Download], cache: Path) -> None:
    """Refuses downloads for which the cache's disk has too little space."""
    needed = sum(each.missing_bytes for each in downloads)
    existing = existing_folder(cache.absolute())
    free = shutil.disk_usage(existing).free
    if needed + _SPARE_BYTES > free:
        raise ValueError(
            f"hub.cache: {cache} needs {bytes_text(needed)} more, beside {bytes_text(_SPARE_BYTES)} that stay free, and "
            f"{existing} has {bytes_text(free)} free; make room, or set hub.cache to a larger disk"
        )


def _first_line(error: BaseException) -> str:
    """An error's first line; its type without one."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
