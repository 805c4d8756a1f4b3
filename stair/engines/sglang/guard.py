"""Runs a command and ends its whole family when whoever asked for it is gone. A program of its own; standard library only.

    python -I guard.py LIFELINE COMMAND ...

LIFELINE is the reading end of a pipe whose other end the asking process alone holds: it closes with that process, however it
died. The guard leads a process group, and orphans of the family become its children (PR_SET_CHILD_SUBREAPER), so that nobody
can slip away by a group of their own. The family has a folder for its temporary files, which goes when it does, as its shared
memory does. The guard ends with the command's exit status (128 + signal), or with 0 when the lifeline closed.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

_SET_DEATH_SIGNAL, _SET_SUBREAPER = 1, 36  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
_LOOK_SECONDS = 0.1
_GRACE_SECONDS = 1.5
_TIDY_SECONDS = 1.0
_SHARED, _SHARED_SECONDS = "/dev/shm/", 1.0


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _die_with_the_guard() -> None:
    _prctl(_SET_DEATH_SIGNAL, signal.SIGKILL)


def _descendants(root: int) -> list[int]:
    """All processes below `root`, from /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError), open(f"/proc/{name}/stat", "rb") as handle:
                # The name in parentheses may hold anything; the parent's number is the second field behind it.
                parent = int(handle.read().rpartition(b")")[2].split()[1])
                children.setdefault(parent, []).append(int(name))
    descendants, waiting = [], [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        descendants += below
        waiting += below
    return descendants


def _family() -> list[int]:
    return _descendants(os.getpid())


def _signal(number: int, processes: list[int]) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)


def _reap() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _tidies_up(process: int) -> bool:
    """Whether it is Python's resource tracker, which removes what the others leave, and then ends by itself."""
    try:
        with open(f"/proc/{process}/cmdline", "rb") as handle:
            return b"multiprocessing.resource_tracker" in handle.read()
    except OSError:
        return False


def _end_family(child: int) -> None:
    """Asks the command to end, then ends all; a stopped process ends too."""
    _signal(signal.SIGTERM, [child])
    _signal(signal.SIGCONT, _family())
    begun = time.monotonic()
    while True:
        _reap()
        family = _family()
        if not family:
            return
        waited = time.monotonic() - begun
        if waited > _GRACE_SECONDS:
            spared = waited < _GRACE_SECONDS + _TIDY_SECONDS
            _signal(signal.SIGKILL, [each for each in family if not (spared and _tidies_up(each))])
        time.sleep(0.02)


def _shared_memory(processes: list[int]) -> set[str]:
    """Files of shared memory that processes have mapped."""
    mapped = set()
    for process in processes:
        with suppress(OSError), open(f"/proc/{process}/maps", encoding="utf-8", errors="replace") as handle:
            mapped |= {line[line.index(_SHARED) :].strip() for line in handle if _SHARED in line}
    return {name for name in mapped if not name.endswith(" (deleted)")}


def main() -> int:
    """See the module."""
    lifeline, command = int(sys.argv[1]), sys.argv[2:]
    _prctl(_SET_SUBREAPER, 1)
    # Should the whole group be stopped when the asking process dies, the guard wakes and ends it.
    _prctl(_SET_DEATH_SIGNAL, signal.SIGCONT)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the lifeline decides
    os.set_inheritable(lifeline, False)
    scratch = tempfile.mkdtemp(prefix="stair-server-")
    try:
        environment = {**os.environ, "TMPDIR": scratch}
        if not os.access(os.path.expanduser("~"), os.W_OK):
            environment["HOME"] = scratch  # libraries keep caches there
        return _run(lifeline, command, environment)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _run(lifeline: int, command: list[str], environment: dict[str, str]) -> int:
    """Runs the command to its end or the lifeline's; shared memory that the family leaves goes too."""
    before = set(os.listdir(_SHARED)) if os.path.isdir(_SHARED) else set()
    child = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, preexec_fn=_prepare_child)
    watch = select.poll()
    watch.register(lifeline, select.POLLIN)
    shared: set[str] = set()
    looked = time.monotonic()
    while True:
        closed = watch.poll(_LOOK_SECONDS * 1000)  # nothing is ever written: this is the end of the pipe
        status = child.poll()
        if closed or status is not None or time.monotonic() - looked > _SHARED_SECONDS:
            shared |= _shared_memory(_family())
            looked = time.monotonic()
        if closed or status is not None:
            break
    _end_family(child.pid)
    for name in shared:
        if os.path.basename(name) not in before:
            with suppress(OSError):
                os.unlink(name)
    if status is None:
        return 0
    return status if status >= 0 else 128 - status


def _prepare_child() -> None:
    _die_with_the_guard()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


if __name__ == "__main__":
    sys.exit(main())
