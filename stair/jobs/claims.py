"""A claim on a piece of work: while one process works on it, a second one refuses. A small file; no lock, no database.

The file is made whole and exclusively (a hard link of a finished file; where there are no hard links, exclusive creation), which
network file systems keep to. It holds who claims, and its time is renewed while the claimant lives. A claim of this machine
is dead when no such process runs; another machine's is dead when it has not been renewed for some minutes. A dead claim is taken
over. Were a claim ever taken from a living process (one that slept for minutes), nothing is damaged: writers share no
file, and the one that lost its claim ends when it writes next.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType

import psutil

from stair.records.files import partial_path

_RENEWED_SECONDS = 15.0
_DEAD_SECONDS = 300.0
"""Without renewal for so long, a claim of another machine is dead; attributes of a network file system can lag a minute."""

_PATIENCE_SECONDS = 2.0
"""A process that is being killed may take a moment to be gone."""

_ENDING = ".claim"


class ClaimedError(ValueError):
    """Another process is at work on the same; the message says which, and what to do."""


@dataclass(frozen=True)
class Claimant:
    """Who holds a claim."""

    work: str
    """What is claimed: a shard, a seal, a compaction."""
    host: str
    place: str
    """The boot and the process namespace of the host, within which a process id means something."""
    process: int
    started: str
    """When the process started, as its system counts."""
    since: str

    @classmethod
    def here(cls, work: str) -> Claimant:
        """This process."""
        process = os.getpid()
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
        return cls(work, socket.gethostname(), _place(), process, _started(process) or "", since)

    def runs(self) -> bool | None:
        """Whether the process is there; None where that cannot be seen from here."""
        if (self.host, self.place) != (socket.gethostname(), _place()):
            return None
        return _started(self.process) == self.started


class Claim:
    """A claim, held within the context.

    Args:
        folder: the work folder.
        work: what is claimed, in few words without slashes: `shard-0-of-2`.
        conflicts: which other works cannot go on beside this one; by default only the same.

    Raises:
        ClaimedError: on entering, when a living process holds this or a conflicting claim.
    """

    def __init__(self, folder: Path, work: str, conflicts: Callable[[str], bool] = lambda other: False) -> None:
        self._folder, self._work, self._conflicts = folder, work, conflicts
        self._path = folder / f".{work}{_ENDING}"
        self._stop = threading.Event()
        self._text = ""
        self._lost = False

    def __enter__(self) -> Claim:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._take()
        try:
            now = self._path.stat().st_mtime
            for path in sorted(self._folder.glob(f".*{_ENDING}")):
                claimant = living(path, now)
                if path == self._path:
                    continue
                if claimant is None:
                    remove_dead(path, now)
                elif self._conflicts(path.name.removeprefix(".").removesuffix(_ENDING)):
                    raise ClaimedError(self._refusal(path, claimant))
        except BaseException:
            self._path.unlink(missing_ok=True)
            raise
        threading.Thread(target=self._renew, daemon=True, name=f"claim {self._work}").start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._holds():
            self._path.unlink(missing_ok=True)

    def check(self) -> None:
        """Raises ClaimedError when the claim has been taken over: this process was thought dead."""
        if self._lost:
            raise ClaimedError(
                f"{self._path} was taken over by another process, while this one stood still; it ends here, and what it has "
                "finished is kept"
            )

    def _take(self) -> None:
        self._text = json.dumps(asdict(Claimant.here(self._work)), indent=2) + "\n"
        beside = partial_path(self._path)
        beside.write_text(self._text, encoding="utf-8")
        try:
            until = time.monotonic() + _PATIENCE_SECONDS
            while not self._create(beside):
                claimant = living(self._path, now=beside.stat().st_mtime)
                if claimant is None:
                    remove_dead(self._path, beside.stat().st_mtime)
                elif time.monotonic() > until:
                    raise ClaimedError(self._refusal(self._path, claimant))
                time.sleep(0.05)
                os.utime(beside)
        finally:
            beside.unlink(missing_ok=True)

    def _create(self, beside: Path) -> bool:
        """Makes the claim from the finished file; False when there is one already."""
        try:
            try:
                os.link(beside, self._path)
            except FileExistsError:
                raise
            except OSError:  # no hard links here
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                try:
                    os.write(descriptor, self._text.encode())
                finally:
                    os.close(descriptor)
        except FileExistsError:
            # A network file system that lost the answer asks again, and is told of the link that it has made.
            return beside.stat().st_nlink > 1
        return True

    def _refusal(self, path: Path, claimant: Claimant | None) -> str:
        who = (
            f"process {claimant.process} on {claimant.host} is at work on {claimant.work} since {claimant.since}"
            if claimant is not None and claimant.process
            else "another process is at work here"
        )
        return (
            f"{self._folder}: {who}; wait for it or end it (if it is surely gone, delete {path}; a claim that is not "
            f"renewed ends by itself after {_DEAD_SECONDS / 60:.0f} minutes)"
        )

    def _holds(self) -> bool:
        try:
            return self._path.read_text(encoding="utf-8") == self._text
        except (OSError, ValueError):
            return False

    def _renew(self) -> None:
        while not self._stop.wait(_RENEWED_SECONDS):
            if not self._holds():
                self._lost = True
                return
            with contextlib.suppress(OSError):
                os.utime(self._path)


def remove_dead(path: Path, now: float | None = None) -> None:
    """Removes a dead claim, unless another process has just done so and made its own. `now` as for `living`."""
    taken = path.with_name(f"{partial_path(path).name}.dead")
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, taken)
        if living(taken, now) is not None:
            with contextlib.suppress(OSError):
                os.link(taken, path)
        taken.unlink(missing_ok=True)


_UNKNOWN = Claimant("", "", "", 0, "", "")


def living(path: Path, now: float | None = None) -> Claimant | None:
    """Who holds a claim; None where nobody living does. `now` is this moment as the folder's file system counts."""
    try:
        text = path.read_text(encoding="utf-8")
        age = (time.time() if now is None else now) - path.stat().st_mtime
    except OSError:
        return None
    try:
        claimant = Claimant(**json.loads(text))
        runs = claimant.runs()
    except (ValueError, TypeError):
        claimant, runs = _UNKNOWN, None
    if runs is None:
        runs = age < _DEAD_SECONDS
    return claimant if runs else None


def _place() -> str:
    """The boot and the process namespace, where Linux tells them."""
    parts = []
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _started(process: int) -> str | None:
    """When a process started; None where it has ended, though nobody may have taken notice yet."""
    try:
        found = psutil.Process(process)
        if found.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        with contextlib.suppress(OSError, IndexError):  # ticks since the boot: the clock may be set
            return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        return str(found.create_time())
    except psutil.Error:
        return None
