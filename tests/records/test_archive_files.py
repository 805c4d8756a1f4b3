"""An archive that cannot be read is one line that names it, and nothing of it stays on the disk."""

from __future__ import annotations

import gzip
import io
import random
import tarfile
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


def gz(folder: Path, archive: Path, *members: tuple[str, bytes]) -> bytearray:
    """The folder, with empty members of these names and types."""
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(folder, "smoke")
        for name, kind in members:
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            packed.addfile(member)
    return bytearray(archive.read_bytes())


def too_large(folder: Path, archive: Path) -> bytes:
    """A sparse file of a size that no disk has."""
    with tarfile.open(archive, "w:gz") as packed:
        member = tarfile.TarInfo("tables/a.csv")
        sparse = {"major": "1", "minor": "0", "realsize": str(10**18), "name": member.name}
        member.size, member.pax_headers = 512, {f"GNU.sparse.{key}": value for key, value in sparse.items()}
        packed.addfile(member, io.BytesIO(b"1\n0\n0\n".ljust(512, b"\0")))
    return archive.read_bytes()


_DAMAGED = r" is damaged \(.*\); copy it again"
_OUTSIDE = r" cannot be unpacked: it contains a path outside of itself, .*outside.txt"

FAULTS: dict[str, tuple[Callable[[Path, Path], bytes], str]] = {
    "large.tar.gz": (too_large, r" cannot be unpacked: its files take 1000000.0 TB, and .* has .* GB free"),
    "other.zip": (
        lambda folder, archive: b"PK\3\4" + bytes(1000),
        " cannot be unpacked: it is no .tar.gz, or damaged; unpack it yourself and name the folder, or copy it again",
    ),
    "cut.tar.gz": (lambda folder, archive: bytes(gz(folder, archive)[:-300]), _DAMAGED),
    "twice.tar.gz": (lambda folder, archive: gzip.compress(gzip.compress(b"no archive")), _DAMAGED),
    "damaged.tar.gz": (lambda folder, archive: bytes(flipped(gz(folder, archive), 1500)), _DAMAGED),
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


def test_files_that_macos_packs_beside_others_are_left_out(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "mac.tar.gz"
    gz(folder, archive, ("._smoke", tarfile.REGTYPE), ("smoke/tables/._a.csv", tarfile.REGTYPE))
    with opened(archive, tmp_path / "beside") as content:
        assert not list(content.parent.rglob("._*")) and (content / "tables/a.csv").is_file()


def test_no_changed_bit_of_an_archive_is_another_error(folder: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    pack(folder, archive, "smoke")
    sound = archive.read_bytes()
    for place in range(0, len(sound), 7):
        archive.write_bytes(flipped(bytearray(sound), place))
        with suppress(ValueError), opened(archive, tmp_path / "here") as unpacked:
            assert unpacked.is_dir()
