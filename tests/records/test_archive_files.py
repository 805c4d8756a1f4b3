"""An archive that cannot be read is one line that names it, and nothing of it stays on the disk."""

from __future__ import annotations

import gzip
import lzma
import random
import struct
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from stair.records.archive_files import opened, pack


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    content = tmp_path / "run"
    (content / "tables").mkdir(parents=True)
    (content / "tables/a.csv").write_bytes(random.Random(1).randbytes(3000))
    (content / "config.resolved.yaml").write_text("run: smoke\n" * 50)
    return content


def zipped(folder: Path, archive: Path, method: int = zipfile.ZIP_DEFLATED) -> bytearray:
    with zipfile.ZipFile(archive, "w", method) as packed:
        for path in folder.rglob("*.*"):
            packed.write(path, path.relative_to(folder))
    return bytearray(archive.read_bytes())


def in_headers(content: bytearray, local: int, value: int) -> bytearray:
    """Sets a field of every file, by its place in a local header; in the central directory it is two bytes on."""
    for mark, place in ((b"PK\3\4", local), (b"PK\1\2", local + 2)):
        start = content.find(mark)
        while start >= 0:
            struct.pack_into("<H", content, start + place, value)
            start = content.find(mark, start + 4)
    return content


def xz(folder: Path, archive: Path) -> bytearray:
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(folder, "smoke")
    return bytearray(archive.read_bytes())


def gz(folder: Path, archive: Path, *members: tuple[str, bytes]) -> bytearray:
    """The folder, with empty members of these names and types."""
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, "smoke")
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            packed.addfile(member)
    return bytearray(archive.read_bytes())


def evil_zip(folder: Path, archive: Path) -> bytes:
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("../../outside.txt", "?")
    return archive.read_bytes()


def too_large(folder: Path, archive: Path) -> bytes:
    """A .zip whose directory names a size that no disk has."""
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("tables/a.csv", "a")
        packed.filelist[0].file_size = 10**18
    return archive.read_bytes()


_DAMAGED = r" is damaged or no archive \(.*\); copy it again"
_OUTSIDE = r" cannot be unpacked: it contains a path outside of itself, .*outside.txt"

FAULTS: dict[str, tuple[Callable[[Path, Path], bytes], str]] = {
    "encrypted.zip": (
        lambda folder, archive: in_headers(zipped(folder, archive), 6, 1),
        r" cannot be unpacked: .* is encrypted; unpack it yourself and name the folder",
    ),
    "unknown.zip": (
        lambda folder, archive: in_headers(zipped(folder, archive), 8, 98),
        r" cannot be unpacked: That compression method is not supported",
    ),
    "large.zip": (too_large, r" cannot be unpacked: its files take 1000000000.0 GB, and .* has .* GB free"),
    "cut.zip": (lambda folder, archive: zipped(folder, archive)[:-300], _DAMAGED),
    "damaged.tar.xz": (lambda folder, archive: bytes(flipped(xz(folder, archive), 900)), _DAMAGED),
    "twice.tar.gz": (lambda folder, archive: gzip.compress(lzma.compress(b"no archive")), _DAMAGED),
    "damaged.tar.gz": (lambda folder, archive: bytes(flipped(gz(folder, archive), 1500)), _DAMAGED),
    "outside.zip": (evil_zip, _OUTSIDE),
    "outside.tar.gz": (
        lambda folder, archive: gz(folder, archive, ("smoke/../../outside.txt", tarfile.REGTYPE)),
        _OUTSIDE,
    ),
    "absolute.tar.gz": (lambda folder, archive: gz(folder, archive, ("/outside.txt", tarfile.REGTYPE)), _OUTSIDE),
    "link.tar.gz": (
        lambda folder, archive: gz(folder, archive, ("smoke/weights", tarfile.SYMTYPE)),
        r" cannot be unpacked: it contains smoke/weights, which is no plain file",
    ),
}


def flipped(content: bytearray, place: int) -> bytearray:
    content[place] ^= 4
    return content


@pytest.mark.parametrize("name", FAULTS)
def test_an_archive_that_cannot_be_read_is_one_line(folder: Path, tmp_path: Path, name: str) -> None:
    archive = tmp_path / name
    damage, message = FAULTS[name]
    archive.write_bytes(damage(folder, archive))
    with (
        pytest.raises(ValueError, match=rf"{name}{message}$") as caught,
        opened(archive, tmp_path / "here"),
    ):
        pass
    assert "\n" not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.is_relative_to(folder)] == [archive]


@pytest.mark.parametrize("kind", ["zip", "lzma.zip", "tar.gz"])
def test_no_changed_bit_of_an_archive_is_another_error(folder: Path, tmp_path: Path, kind: str) -> None:
    archive = tmp_path / f"a.{kind}"
    if kind == "tar.gz":
        pack(folder, archive, "smoke")
        sound = archive.read_bytes()
    else:
        sound = bytes(zipped(folder, archive, zipfile.ZIP_LZMA if "lzma" in kind else zipfile.ZIP_DEFLATED))
    for place in range(0, len(sound), 7):
        archive.write_bytes(flipped(bytearray(sound), place))
        with suppress(ValueError), opened(archive, tmp_path / "here") as unpacked:
            assert unpacked.is_dir()
