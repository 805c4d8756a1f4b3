"""A folder as one compressed file, the same bytes for the same content."""

from __future__ import annotations

import gzip
import tarfile
from pathlib import Path

from stair.records.files import replacing

_LEVEL = 6


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
