"""A piece of work has one worker: the second is refused while the first lives, and goes on when it is dead."""

from __future__ import annotations

import json
import linecache
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from stair.records import interruption, leases
from stair.records.files import partial_path
from stair.records.interruption import Interrupted
from stair.records.leases import HeldError, Holder, Lease
from stair.records.shards import Shard


@pytest.fixture(autouse=True)
def _no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_KILL_SECONDS", 0.2)


@contextmanager
def holder(folder: Path, work: str = "shard-0-of-1") -> Iterator[subprocess.Popen[str]]:
    """Another process that holds a lease and waits."""
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom stair.records.leases import Lease\n"
        "with Lease(Path(sys.argv[1]), sys.argv[2]):\n    print('ready', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program, str(folder), work], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == "ready\n"
        yield child
    finally:
        child.kill()
        child.communicate()


def test_a_second_process_is_refused_and_told_by_whom(tmp_path: Path) -> None:
    with holder(tmp_path) as child:
        told = rf"process {child.pid} on .* is at work on shard-0-of-1 since .*delete"
        with pytest.raises(HeldError, match=told), Lease(tmp_path, "shard-0-of-1"):
            pass
        with Lease(tmp_path, "shard-1-of-2"):
            pass


def test_a_lease_that_the_file_system_made_and_denied_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NFS asks again where an answer was lost, and the server then says that the file exists."""
    link = os.link

    def twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", twice)
    with Lease(tmp_path, "shard-0-of-1") as lease:
        lease.check()
        with pytest.raises(HeldError), Lease(tmp_path, "shard-0-of-1"):
            pass
    assert list(tmp_path.iterdir()) == []


def stopped_at(line: int, folder: Path) -> int:
    """Holds a lease while SIGTERM comes at a line of the leases' code, counted as they run; returns how many ran."""
    ran = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal ran
        if frame.f_code.co_filename != leases.__file__:
            return None
        # Python handles signals where something is called, and `try:` calls nothing.
        if event == "line" and linecache.getline(leases.__file__, frame.f_lineno).strip() != "try:":
            ran += 1
            if ran == line:
                os.kill(os.getpid(), signal.SIGTERM)
        return trace

    interruption.listen()
    sys.settrace(trace)
    try:
        with Lease(folder, "shard-0-of-1"):
            pass
    finally:
        sys.settrace(None)
    return ran


def test_a_stop_at_any_line_leaves_no_lease_behind(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in interruption.SIGNALS}
    try:
        lines = stopped_at(0, tmp_path)
        assert list(tmp_path.iterdir()) == []
        for line in range(1, lines + 1):
            with pytest.raises(Interrupted, match="SIGTERM"):
                stopped_at(line, tmp_path)
            assert list(tmp_path.iterdir()) == [], f"stopped at line {line} of {lines}"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        interruption._received = None


def test_a_killed_process_leaves_no_lease_that_counts(tmp_path: Path) -> None:
    with holder(tmp_path) as child:
        child.send_signal(signal.SIGKILL)
        # Not waited for: it is a zombie, whose number the system still knows.
        with Lease(tmp_path, "shard-0-of-1"):
            assert json.loads((tmp_path / ".shard-0-of-1.lease").read_text())["process"] == os.getpid()
    assert list(tmp_path.iterdir()) == []


def forged(folder: Path, age: float = 0.0, **changes: Any) -> Path:
    """A lease file of this process with changes, so many seconds old."""
    path = folder / ".shard-0-of-1.lease"
    path.write_text(json.dumps({**vars(Holder.here("shard-0-of-1")), **changes}))
    os.utime(path, (time.time() - age,) * 2)
    return path


@pytest.mark.parametrize(
    ("changes", "age", "lives"),
    [
        ({}, 0, True),
        ({}, 9999, True),  # here it is seen that the process runs, however long it was busy
        ({"started": "another"}, 0, False),  # the number belongs to another process by now
        ({"process": 2**22 + 1}, 0, False),
        ({"host": "elsewhere"}, 0, True),
        ({"host": "elsewhere"}, 290, True),
        ({"host": "elsewhere"}, 310, False),
        ({"place": "another boot"}, 0, True),
        ({"place": "another boot"}, 310, False),
    ],
)
def test_who_counts_as_living(tmp_path: Path, changes: dict[str, Any], age: float, lives: bool) -> None:
    path = forged(tmp_path, age, **changes)
    if lives:
        before = path.read_text()
        with pytest.raises(HeldError), Lease(tmp_path, "shard-0-of-1"):
            pass
        assert path.read_text() == before, "a refused process leaves the lease as it was"
    else:
        with Lease(tmp_path, "shard-0-of-1"):
            pass
    assert [each.name for each in tmp_path.iterdir()] == ([path.name] if lives else [])


HIDDEN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from stair.records.files import remove_leftovers
from stair.records.leases import living
path = Path(sys.argv[1])
print(living(path) is not None)
remove_leftovers(path.parent)
"""


@pytest.mark.parametrize(("age", "lives"), [(0, True), (310, False)])
def test_a_process_that_cannot_be_seen_counts_by_its_lease(tmp_path: Path, age: float, lives: bool) -> None:
    """Another user's, where /proc is mounted with hidepid=2; its unfinished files stay."""
    hidden = ("unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh")
    other = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups")
    other += (
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
    )  # the interpreter may be in a folder of root's
    if subprocess.run([*hidden, *other, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root can hide processes and take another user id")
    path = forged(tmp_path, age)
    unfinished = partial_path(tmp_path / "rows.parquet")
    unfinished.touch()
    command = [*hidden, *other, sys.executable, "-c", HIDDEN, str(path), str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == f"{lives}\n", done.stderr
    assert unfinished.exists()


@pytest.mark.parametrize("ahead", [-600, 600])
def test_another_clock_of_this_machine_ends_no_lease(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float
) -> None:
    young = forged(tmp_path, 10, host="elsewhere")
    (tmp_path / "other").mkdir()
    dead = forged(tmp_path / "other", 310, host="elsewhere")
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + ahead)
    assert leases.living(young) is not None and leases.living(dead) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"work": 1}'])
def test_an_unreadable_lease_counts_by_its_age(tmp_path: Path, text: str) -> None:
    path = forged(tmp_path)
    path.write_text(text)
    with pytest.raises(HeldError, match="another process is at work here"), Lease(tmp_path, "shard-0-of-1"):
        pass
    os.utime(path, (time.time() - 310,) * 2)
    with Lease(tmp_path, "shard-0-of-1"):
        pass


def test_a_lease_is_renewed_and_its_loss_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_RENEWAL_SECONDS", 0.05)
    path = tmp_path / ".shard-0-of-1.lease"
    with Lease(tmp_path, "shard-0-of-1") as lease:
        os.utime(path, (0, 0))
        wait_until(lambda: path.stat().st_mtime > 0)
        lease.check()
        mine = path.read_text()
        aside = tmp_path / "aside"
        aside.symlink_to(tmp_path)
        aside.replace(path)  # a folder, which cannot be read
        time.sleep(0.3)
        assert not lease._lost, "a failure to read says nothing about the holder"
        aside.write_text(mine.replace("shard", "other"))
        aside.replace(path)
        wait_until(lambda: lease._lost)
        with pytest.raises(HeldError, match="another process replaced"):
            lease.check()
    assert path.is_file(), "another's lease is not removed"


def test_many_processes_at_once_are_let_in_one_by_one(tmp_path: Path) -> None:
    program = (
        "import sys, time, os\nfrom pathlib import Path\nfrom stair.records import leases\n"
        "leases._KILL_SECONDS = 30\nfolder = Path(sys.argv[1])\n"
        "with leases.Lease(folder, 'w'):\n"
        "    os.close(os.open(folder / 'inside', os.O_CREAT | os.O_EXCL))\n"
        "    time.sleep(0.05)\n    os.unlink(folder / 'inside')\n"
        "print('was in')\n"
    )
    forged(tmp_path, process=2**22 + 1).rename(tmp_path / ".w.lease")  # a dead one, which all want to take over
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        for _ in range(6)
    ]
    assert [child.communicate(timeout=60)[0] for child in children] == ["was in\n"] * 6
    assert list(tmp_path.iterdir()) == []


def wait_until(holds) -> None:  # type: ignore[no-untyped-def]
    until = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("shard", "other", "overlap"),
    [
        ((0, 2), "shard-0-of-2", True),
        ((0, 2), "shard-1-of-2", False),
        ((0, 2), "shard-0-of-5", True),
        ((0, 2), "shard-3-of-5", True),  # 8 is in both
        ((0, 2), "shard-1-of-4", False),
        ((0, 2), "shard-2-of-4", True),
        ((0, 1), "shard-4-of-5", True),
        ((0, 2), "training", True),
    ],
)
def test_shards_of_other_counts_overlap_where_they_share_work(
    shard: tuple[int, int], other: str, overlap: bool
) -> None:
    assert Shard(*shard).overlaps(other) == overlap
    if other.startswith("shard"):
        number, of = int(other.split("-")[1]), int(other.split("-")[3])
        shared = set(range(shard[0], 100, shard[1])) & set(range(number, 100, of))
        assert bool(shared) == overlap


def test_a_conflicting_lease_refuses_too(tmp_path: Path) -> None:
    with Lease(tmp_path, "shard-0-of-2"):
        with pytest.raises(HeldError, match="shard-0-of-2"), Lease(tmp_path, "shard-2-of-5", Shard(2, 5).overlaps):
            pass
        with Lease(tmp_path, "shard-1-of-4", Shard(1, 4).overlaps):
            pass
        assert [path.name for path in tmp_path.iterdir()] == [".shard-0-of-2.lease"]
