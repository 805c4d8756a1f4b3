"""Tensors that are kept: their files are whole or absent, and say what they were made from."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from stair.records.keys import file_digest
from stair.records.shards import Shard, remove_markers, write_marker
from stair.records.tensor_files import TensorFiles


def tensors(number: int) -> dict[str, np.ndarray]:
    values = np.random.default_rng(number).standard_normal((3, 5)).astype(np.float32)
    return {"b/outputs": values, "a/masses": values[:, :2].copy(), "none": np.empty((0, 4), np.float32)}


def test_a_piece_is_made_under_its_key_only(tmp_path: Path) -> None:
    files = TensorFiles(tmp_path)
    assert not files.has("group/x", "key")
    files.keep("group/x", "key", tensors(1))
    assert files.has("group/x", "key")
    assert not files.has("group/x", "another")
    assert files.verified_digest("group/x", "another") is None
    assert files.verified_digest("group/x", "key") == file_digest(files.path("group/x"))
    files.keep("group/x", "another", tensors(2))
    assert files.has("group/x", "another")
    assert not files.has("group/x", "key")


def test_equal_tensors_give_equal_bytes_in_whatever_order(tmp_path: Path) -> None:
    first, second = TensorFiles(tmp_path / "a"), TensorFiles(tmp_path / "b")
    first.keep("x", "key", tensors(1))
    second.keep("x", "key", dict(reversed(tensors(1).items())))
    assert first.path("x").read_bytes() == second.path("x").read_bytes()


@pytest.mark.parametrize("place", ["tensor", "header", "end"])
def test_damage_is_found_and_the_piece_made_again(tmp_path: Path, place: str) -> None:
    files = TensorFiles(tmp_path)
    files.keep("x", "key", tensors(1))
    content = bytearray(files.path("x").read_bytes())
    if place == "end":
        content = content[:-5]
    else:
        content[-2 if place == "tensor" else 12] ^= 1
    files.path("x").write_bytes(content)
    if place == "tensor":
        with pytest.raises(ValueError, match=r"not those that were written; it was renamed to x\.safetensors\.damaged"):
            files.verified_digest("x", "key")
    assert not files.has("x", "key")
    assert files.verified_digest("x", "key") is None
    files.keep("x", "key", tensors(1))
    assert files.verified_digest("x", "key")


def test_another_run_gives_what_it_has_under_an_equal_key(tmp_path: Path) -> None:
    other = TensorFiles(tmp_path / "other")
    other.keep("x", "key", tensors(1))
    files = TensorFiles(tmp_path / "own", {"other": tmp_path / "other"})
    assert not files.has("x", "another")
    assert not files.path("x").exists()
    assert files.has("x", "key")
    shutil.rmtree(tmp_path / "other")
    assert files.verified_digest("x", "key")


def test_a_full_disk_is_one_line_and_leaves_the_earlier_file(tmp_path: Path) -> None:
    files = TensorFiles(tmp_path)
    files.keep("x", "key", tensors(1))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(OSError, match=r"File too large: .*x\.safetensors"):
            files.keep("x", "another", tensors(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files.has("x", "key")
    assert [path.name for path in tmp_path.iterdir()] == ["x.safetensors"]


def test_others_may_read_a_file_as_far_as_the_user_lets_them(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        TensorFiles(tmp_path).keep("x", "key", tensors(1))
    finally:
        os.umask(before)
    assert TensorFiles(tmp_path).path("x").stat().st_mode & 0o777 == 0o640


def test_work_without_room_is_refused_before_it_begins(tmp_path: Path) -> None:
    files = TensorFiles(tmp_path / "not" / "made" / "yet")
    files.require_space(1000, "the replay of a model")
    with pytest.raises(ValueError, match=r"the replay of a model needs 1000000\.0 TB in .* are free .* `results`"):
        files.require_space(10**18, "the replay of a model")


PROGRAM = """
import sys, time
from pathlib import Path
import numpy as np
from stair.records.shards import Shard, write_marker
from stair.records.tensor_files import TensorFiles
folder, shard = Path(sys.argv[1]), Shard(int(sys.argv[2]), int(sys.argv[3]))
files = TensorFiles(folder / "states")
for piece in shard.share(range(12)):
    if not files.has(str(piece), "key"):
        values = np.random.default_rng(piece).standard_normal((64, 256)).astype(np.float32)
        files.keep(str(piece), "key", {"values": values})
        print(piece, flush=True)
        time.sleep(0.02)
write_marker(folder, shard)
"""


def shard(folder: Path, number: int, of: int, kill_after: int | None = None) -> list[int]:
    """Runs a shard as a process; the pieces that it finished. Killed after so many, where that is said."""
    words = [sys.executable, "-c", PROGRAM, str(folder), str(number), str(of)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        finished = []
        for line in process.stdout:
            finished.append(int(line))
            if len(finished) == kill_after:
                process.send_signal(signal.SIGKILL)
    assert process.returncode == (0 if kill_after is None else -signal.SIGKILL)
    return finished


def test_killed_and_shared_out_anew_nothing_is_made_twice(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert shard(whole, 0, 1) == list(range(12))
    first = shard(cut, 0, 1, kill_after=4)
    before = {path: path.stat().st_mtime_ns for path in (cut / "states").glob("[0-9]*.safetensors")}
    later = [piece for number in range(3) for piece in shard(cut, number, 3)]
    assert sorted(first + later) == list(range(12))
    assert all(path.stat().st_mtime_ns == when for path, when in before.items())
    assert all((cut / "states" / path.name).read_bytes() == path.read_bytes() for path in (whole / "states").iterdir())
    assert shard(cut, 0, 1) == []


def test_a_shard_in_two_processes_gives_the_same_files(tmp_path: Path) -> None:
    whole, twice = tmp_path / "whole", tmp_path / "twice"
    shard(whole, 0, 1)
    with ThreadPoolExecutor() as pool:
        made = [*pool.map(lambda _: shard(twice, 0, 1), range(2))]
    assert {*made[0], *made[1]} == set(range(12))
    names = os.listdir(whole / "states")
    assert sorted(os.listdir(twice / "states")) == sorted(names)
    assert all((twice / "states" / name).read_bytes() == (whole / "states" / name).read_bytes() for name in names)


def test_removed_markers_run_the_shards_again(tmp_path: Path) -> None:
    for number in range(2):
        write_marker(tmp_path, Shard(number, 2))
    remove_markers(tmp_path)
    assert os.listdir(tmp_path) == []
