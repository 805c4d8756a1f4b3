"""The archive of a run: a folder laid out as the run's, with the outputs that tables and figures are made from."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED
from stair.paper.withheld_text import write_publishable
from stair.pipeline.job_inputs import has_job
from stair.pipeline.jobs import STAGES
from stair.pipeline.verify import Receipts, faults, remedy
from stair.records.files import replacing, scratch_folder, write_json
from stair.records.keys import file_digest
from stair.records.manifest import Manifest, name_in_run, with_checksum

SHOWN = ("tables", "figures", "comparison", "claims")
"""The stages whose outputs `stair from-archive` makes again and compares."""

ARCHIVED = (
    "data/*.csv", "data/report.*", "data/training/*.cleaning.json", "sessions/evaluation/*", "controllers/*", "evaluation/*",
    "shared_t1/*", "replay/*.parquet", "runtime/*", "checks.csv", "tables/*", "figures/*", "comparison.*", "claims.*",
    "provenance.json", "report.html",
)  # fmt: skip
"""Patterns of the outputs that an archive contains, by their names in the run; `*` matches folders, too."""


def export(config: Config, paths: RunPaths, out: Path) -> int:
    """Writes a run's archive as a folder, whole or not at all; returns the number of scored rows.

    Raises:
        ValueError: the folder is not empty, nothing has been scored, or `stair from-archive` would reject a file or miss it.
    """
    if out.exists() and any(out.iterdir()):
        raise ValueError(f"{out} is not empty; name a new folder")
    receipts = Receipts(paths.folder)
    _check(config, paths, receipts)
    manifests = list(_archived(config, receipts))
    if not any(manifest.rule in STAGES["scores"] for manifest in manifests):
        raise ValueError(f"{paths.folder} has no scored rows; first run: {paths.start_command('--target', 'scores')}")
    withheld = {key for key, benchmark in config.benchmarks.items() if not benchmark.publish_text}
    count, rewritten = 0, dict[str, str]()
    with scratch_folder(out) as folder:
        for name in (RESOLVED, *(name for each in manifests for name in each.files)):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(paths.folder / name, folder / name)
        for manifest in manifests:
            for name in manifest.files if manifest.rule in STAGES["scores"] else ():
                if manifest.wildcards["benchmark"] in withheld:
                    write_publishable(paths.folder / name, folder / name, withheld)
                    rewritten[name] = file_digest(folder / name)
                count += pq.read_metadata(folder / name).num_rows
        for manifest in manifests:
            target = folder / name_in_run(manifest.path, paths.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            write_json(target, _rewritten(manifest, rewritten))
        folder.rename(out)
    return count


def _check(config: Config, paths: RunPaths, receipts: Receipts) -> None:
    """Raises ValueError if an output that an archive contains is missing, damaged or stale."""
    found = [fault for fault in faults(config, receipts, measured=False) if _is_archived(fault.remove or fault.file)]
    if found:
        more = f", and {len(found) - 1} more faults" if len(found) > 1 else ""
        raise ValueError(
            f"{paths.folder}: {found[0].file} is {found[0].state}: {found[0].reason}{more}; first run: "
            f"{remedy(config, paths, found)}"
        )


def _archived(config: Config, receipts: Receipts) -> Iterator[Manifest]:
    """The manifests of the run's outputs, each with the files that an archive contains."""
    for manifest in receipts.manifests:
        files = {name: digest for name, digest in manifest.files.items() if _is_archived(name)}
        if files and has_job(config, manifest.rule, manifest.wildcards):
            yield replace(manifest, files=files)


def _is_archived(name: str) -> bool:
    return any(fnmatchcase(name, each) for each in ARCHIVED)


def _rewritten(manifest: Manifest, rewritten: Mapping[str, str]) -> dict[str, Any]:
    """The content of a manifest with the digests of rows without text."""
    parts = {
        part: {name: rewritten.get(name, digest) for name, digest in digests.items()}
        for part, digests in (("files", manifest.files), ("inputs", manifest.inputs))
    }
    withheld = {"text_withheld": True} if rewritten.keys() & manifest.files.keys() else {}
    return with_checksum(manifest.content | parts | withheld)


# ---------------------------------------------------------------- one file


def pack(folder: Path, archive: Path, top: str) -> None:
    """Writes a .tar.gz of a folder's files below `top`: sorted, without times, owners and permissions of this machine."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # The header of gzip has a time and a name of its own.
    with (
        replacing(archive) as partial,
        open(partial, "wb") as sink,
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for path in files:
            member = tarfile.TarInfo(f"{top}/{path.relative_to(folder).as_posix()}")
            member.size, member.mode = path.stat().st_size, 0o644
            with open(path, "rb") as source:
                packed.addfile(member, source)


@contextmanager
def unpacked(archive: Path, beside: Path) -> Iterator[Path]:
    """A copy of an archive in a folder of its own beside a path, which the caller may rename.

    Raises:
        ValueError: the archive does not exist, is damaged, contains a link or path outside itself, or is no run's.
    """
    with scratch_folder(beside / "archive") as folder:
        try:
            if archive.is_dir():
                shutil.copytree(archive, folder / archive.name)
            else:
                with tarfile.open(archive, "r:gz") as packed:
                    packed.extractall(folder, filter="data")
        except (tarfile.TarError, EOFError, OSError, ValueError, zlib.error) as error:
            raise ValueError(f"{archive} cannot be unpacked ({' '.join(str(error).split())}); copy it again") from error
        for candidate in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
            if (candidate / RESOLVED).is_file():
                yield candidate
                return
        raise ValueError(
            f"{archive} is not laid out as a run's folder: it has no {RESOLVED}; make it with: make archive"
        )
