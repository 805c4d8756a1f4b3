"""Packs a folder reproducibly as a .tar.gz, and opens one without writing outside of its folder."""

from __future__ import annotations

import gzip
import shutil
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stair.config.resolve import RESOLVED
from stair.records.files import bytes_text, replacing, scratch_folder

_LEVEL = 6
_GZIP = b"\x1f\x8b"
"""The first bytes of every .gz file."""


class _Refused(Exception):
    """A file that is not unpacked, for another reason than damage."""


@contextmanager
def opened(archive: Path, beside: Path) -> Iterator[Path]:
    """The folder of an archive; an archive that is one file is unpacked beside a path."""
    if archive.is_dir():
        yield _root(archive, archive)
        return
    if not archive.is_file():
        raise ValueError(f"{archive} does not exist; name a folder laid out as a run's, or a .tar.gz of one")
    with scratch_folder(beside / "archive") as unpacked:
        try:
            _unpack(archive, unpacked)
        except _Refused as error:
            raise ValueError(f"{archive} cannot be unpacked: {error}") from error
        except (tarfile.TarError, EOFError, gzip.BadGzipFile, ValueError, zlib.error) as error:
            reason = " ".join(str(error).split())
            raise ValueError(f"{archive} is damaged ({reason}); copy it again") from error
        yield _root(unpacked, archive)


def _unpack(archive: Path, target: Path) -> None:
    with open(archive, "rb") as file:
        if file.read(2) != _GZIP:
            raise _Refused("it is no .tar.gz, or damaged; unpack it yourself and name the folder, or copy it again")
    # Python's own filter against files outside came with 3.11.4.
    with tarfile.open(archive, "r:gz") as opened:
        needed, free = sum(item.size for item in opened.getmembers()), shutil.disk_usage(target).free
        if needed > free:
            raise _Refused(f"its files take {bytes_text(needed)}, and {target.parent} has {bytes_text(free)} free")
        for item in opened:
            path = (target / item.name).resolve()
            if not path.is_relative_to(target.resolve()):
                raise _Refused(f"it contains a path outside of itself, {item.name}")
            if item.isdir() or path.name.startswith("._"):  # macOS packs these beside others
                continue
            if not item.isreg():
                raise _Refused(f"it contains {item.name}, which is no plain file")
            source = opened.extractfile(item)
            assert source is not None, "a plain file has content"
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as sink:
                shutil.copyfileobj(source, sink)
        # Damage may look like the end of the archive, and its checksum comes last.
        assert opened.fileobj is not None, "it is open"
        while opened.fileobj.read(1 << 20):
            pass


def _root(folder: Path, archive: Path) -> Path:
    """The folder laid out as a run's: the archive's top, or the one folder in it."""
    for candidate in (folder, *sorted(path for path in folder.iterdir() if path.is_dir())):
        if (candidate / RESOLVED).is_file():
            return candidate
    raise ValueError(
        f"{archive} is not laid out as a run's folder: it has no {RESOLVED}; make it with: make archive RUN=name"
    )


def pack(folder: Path, archive: Path, top: str) -> None:
    """Writes a .tar.gz of a folder's files below `top`: sorted, without times, owners and permissions of this machine."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    # The header of gzip has a time and a name of its own.
    with (
        replacing(archive) as partial,
        open(partial, "wb") as sink,
        gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=sink, mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as packed,
    ):
        for path in files:
            member = tarfile.TarInfo(f"{top}/{path.relative_to(folder).as_posix()}")
            member.size, member.mode = path.stat().st_size, 0o644
            with open(path, "rb") as source:
                packed.addfile(member, source)
