"""Leases: while one process works on a piece of work, a second one refuses. A lease is a small file, no lock or database.

The file is created exclusively (by a hard link to a finished file, or by exclusive creation without hard links), which
network file systems support. It names the holder, which renews its time. A lease of this machine is dead if its process
does not run; a lease of another machine is dead if it has not been renewed for some minutes. A new holder replaces a dead
lease. If a living process loses its lease (after it slept for minutes), nothing is damaged: writers share no file, and the
process ends at its next write, a driver at its next renewal.
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

from stair.records.files import partial_path, process_exists
from stair.records.interruption import deferred

_RENEWAL_SECONDS = 15.0
_DEAD_SECONDS = 300.0
"""A lease of another machine is dead after this time without renewal; attributes of a network file system lag up to a minute."""

_KILL_SECONDS = 2.0
"""The time in which a killed process may end."""

_SUFFIX = ".lease"


class HeldError(ValueError):
    """Another process holds the lease; the message names it and the remedy."""


@dataclass(frozen=True)
class Holder:
    """The holder of a lease."""

    work: str
    """The leased work: a shard, a training, a driver."""
    host: str
    place: str
    """The boot and the process namespace of the host, within which process ids are unique."""
    process: int
    started: str
    """The start time of the process in its system's count."""
    since: str

    @classmethod
    def here(cls, work: str) -> Holder:
        process = os.getpid()
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime())
        return cls(work, socket.gethostname(), _place(), process, _started(process) or "", since)

    def runs(self) -> bool | None:
        """Whether the process runs; None if this process cannot see it."""
        if (self.host, self.place) != (socket.gethostname(), _place()):
            return None
        started = _started(self.process)
        if started is None and process_exists(self.process) and not psutil.pid_exists(self.process):
            return None  # another user's: /proc hides it
        return started == self.started


class Lease:
    """A lease, held within the context.

    Args:
        folder: the work folder.
        work: a short name without slashes: `shard-0-of-2`.
        conflicts: whether other work, by its name, excludes this; by default only the same work does.
        lost: called once, in another thread, when another process has replaced the lease.

    Raises:
        HeldError: on entering, if a living process holds this or a conflicting lease.
    """

    def __init__(
        self,
        folder: Path,
        work: str,
        conflicts: Callable[[str], bool] = lambda other: False,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._folder, self._work, self._conflicts, self._when_lost = folder, work, conflicts, lost
        self._path = folder / f".{work}{_SUFFIX}"
        self._stop = threading.Event()
        self._text = ""
        self._lost = False

    def __enter__(self) -> Lease:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            with deferred():  # a stop in the middle would leave the lease behind
                self._acquire()
                self._refuse_conflicts()
                threading.Thread(target=self._renew, daemon=True, name=f"lease {self._work}").start()
                return self
        except BaseException:
            self._release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._release()
        finally:  # again, should a stop have interrupted it
            self._release()

    def check(self) -> None:
        """Raises HeldError if another process has replaced the lease because this one seemed dead."""
        if self._lost:
            raise HeldError(
                f"another process replaced {self._path} because this one did not renew it; this process ends, and its "
                "finished work is kept"
            )

    def _acquire(self) -> None:
        text = json.dumps(asdict(Holder.here(self._work)), indent=2) + "\n"
        partial = partial_path(self._path)
        partial.write_text(text, encoding="utf-8")
        try:
            deadline = time.monotonic() + _KILL_SECONDS
            while not self._create(partial):
                holder = living(self._path)
                if holder is None:
                    remove_dead(self._path)
                elif time.monotonic() > deadline:
                    raise HeldError(self._refusal(self._path, holder))
                time.sleep(0.05)
        finally:
            partial.unlink(missing_ok=True)
        self._text = text

    def _refuse_conflicts(self) -> None:
        """Removes dead leases of the folder. Raises HeldError for a living lease of conflicting work."""
        for path in sorted(self._folder.glob(f".*{_SUFFIX}")):
            holder = living(path)
            if path == self._path:
                continue
            if holder is None:
                remove_dead(path)
            elif self._conflicts(path.name.removeprefix(".").removesuffix(_SUFFIX)):
                raise HeldError(self._refusal(path, holder))

    def _release(self) -> None:
        """Removes the lease if this process has it."""
        self._stop.set()
        if self._text and self._holds():
            self._path.unlink(missing_ok=True)

    def _create(self, partial: Path) -> bool:
        try:
            try:
                os.link(partial, self._path)
            except FileExistsError:
                raise
            except OSError:  # no hard links here
                descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
                try:
                    os.write(descriptor, partial.read_bytes())
                finally:
                    os.close(descriptor)
        except FileExistsError:
            # A network file system that lost the reply repeats the call and meets its own link.
            return partial.stat().st_nlink > 1
        return True

    def _refusal(self, path: Path, holder: Holder) -> str:
        who = (
            f"process {holder.process} on {holder.host} is at work on {holder.work} since {holder.since}"
            if holder.process
            else "another process is at work here"
        )
        return (
            f"{self._folder}: {who}; wait for it or end it (if it is surely gone, delete {path}; a lease that is not "
            f"renewed ends by itself after {_DEAD_SECONDS / 60:.0f} minutes)"
        )

    def _holds(self) -> bool:
        try:
            return self._path.read_text(encoding="utf-8") == self._text
        except (OSError, ValueError):
            return False

    def _renew(self) -> None:
        while not self._stop.wait(_RENEWAL_SECONDS):
            try:
                held = self._path.read_text(encoding="utf-8") == self._text
            except FileNotFoundError:
                held = False
            except (OSError, ValueError):  # a failure to read says nothing about the holder
                continue
            if not held:
                self._lost = True
                self._when_lost()
                return
            with contextlib.suppress(OSError):
                os.utime(self._path)


def remove_dead(path: Path) -> None:
    """Removes a dead lease, unless another process has just replaced it."""
    renamed = path.with_name(f"{partial_path(path).name}.dead")
    with contextlib.suppress(FileNotFoundError):
        os.rename(path, renamed)
        if living(renamed) is not None:
            with contextlib.suppress(OSError):
                os.link(renamed, path)
        renamed.unlink(missing_ok=True)


_UNKNOWN = Holder("", "", "", 0, "", "")


def living(path: Path) -> Holder | None:
    """The living holder of a lease; None if there is none."""
    try:
        text, renewed = path.read_text(encoding="utf-8"), path.stat().st_mtime
    except OSError:
        return None
    try:
        holder = Holder(**json.loads(text))
        runs = holder.runs()
    except (ValueError, TypeError):
        holder, runs = _UNKNOWN, None
    if runs is None:
        runs = _time_of(path.parent) - renewed < _DEAD_SECONDS
    return holder if runs else None


def _time_of(folder: Path) -> float:
    """The present time of a folder's file system, as clocks of machines differ; this machine's in a folder that is read only."""
    probe = partial_path(folder / "clock")
    try:
        probe.touch()
        return probe.stat().st_mtime
    except OSError:
        return time.time()
    finally:
        with contextlib.suppress(OSError):
            probe.unlink()


def _place() -> str:
    """The boot and the process namespace; empty outside Linux."""
    parts = []
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    with contextlib.suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    return " ".join(parts)


def _started(process: int) -> str | None:
    """The start time of a process; None if it has ended, even if its parent has not collected it."""
    try:
        running = psutil.Process(process)
        if running.status() in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD):
            return None
        with contextlib.suppress(OSError, IndexError):  # ticks since the boot: the clock may be set
            return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
        return str(running.create_time())
    except psutil.Error:
        return None
