"""Kills a forked child with a real SIGKILL at one of its write points, and says which there are.

A write point is a call by which this code changes what lies below a folder: os.write, os.fsync, os.replace, os.rename, os.link,
os.unlink, os.mkdir, os.rmdir, and os.open for writing. What libraries write by themselves (Parquet, safetensors) goes to a
file beside, which one of these calls then puts in place.
"""

from __future__ import annotations

import os
import re
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Job = Callable[[Path], None]
Mode = Literal["before", "torn", "after"]

_NAMES = ("write", "fsync", "replace", "rename", "link", "unlink", "mkdir", "rmdir", "open")


@dataclass(frozen=True)
class Kill:
    """Where a child dies: at its n-th write point (from 0), before the call, in the middle of a write, or after it."""

    number: int
    mode: Mode = "before"


@dataclass(frozen=True)
class Outcome:
    """How a child ended."""

    killed: bool
    points: list[str]
    """The write points that it reached: call and file."""


def forked(job: Job, folder: Path, kill: Kill | None = None, ignored: tuple[str, ...] = ("progress",)) -> Outcome:
    """Runs a job on a folder in a forked child.

    Args:
        job: what is run; what it raises ends the child and the test.
        folder: below it, write points count.
        kill: where the child dies; None lets it end.
        ignored: parts of paths whose files do not count (what is written by the clock, not by the work).
    """
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        code = 1
        try:
            _watch(folder, kill, writer, ignored)
            job(folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    os.close(writer)
    told = b""
    while part := os.read(reader, 1 << 16):
        told += part
    os.close(reader)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}; its points: {told.decode().splitlines()[-3:]}"
    assert code == 0 or kill is not None
    return Outcome(code != 0, told.decode().splitlines())


def _watch(folder: Path, kill: Kill | None, told: int, ignored: tuple[str, ...]) -> None:
    """Puts a count, and the kill, around the calls of this process."""
    real = {name: getattr(os, name) for name in _NAMES}
    root, count = str(folder.resolve()), 0

    def place(argument: Any) -> str | None:
        """The file of a call, where it counts."""
        if isinstance(argument, int):
            try:
                path = os.readlink(f"/proc/self/fd/{argument}")
            except OSError:
                return None
        else:
            path = os.path.realpath(os.fspath(argument))
        return path if path.startswith(root) and not any(part in path for part in ignored) else None

    def around(name: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal count
            if name == "open" and not (len(arguments) > 1 and arguments[1] & (os.O_WRONLY | os.O_RDWR)):
                return real[name](*arguments, **named)
            there = os.path.lexists(arguments[0]) if name in ("unlink", "mkdir", "rmdir") else None
            if there == (name == "mkdir"):
                return real[name](*arguments, **named)  # it changes nothing
            path = place(arguments[0])
            if path is None:
                return real[name](*arguments, **named)
            number, count = count, count + 1
            real["write"](told, f"{name} {os.path.relpath(path, root)}\n".encode())
            if kill is None or number != kill.number:
                return real[name](*arguments, **named)
            if kill.mode == "torn" and name == "write":
                real["write"](arguments[0], arguments[1][: len(arguments[1]) // 2])
            elif kill.mode == "after":
                real[name](*arguments, **named)
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("killed")

        return call

    for name in _NAMES:
        setattr(os, name, around(name))


def every_kill(points: list[str], of_a_kind: int | None = None) -> list[Kill]:
    """Before every write point, in the middle of every write, and after the last.

    `of_a_kind`: of points with the same call and file, whatever its numbers, so many: the first, the last, and between.
    """
    kinds: dict[str, list[int]] = {}
    for number, point in enumerate(points):
        kinds.setdefault(re.sub(r"[0-9a-f]{8,}|\d+", "*", point), []).append(number)
    chosen = set[int]()
    for same in kinds.values():
        steps = min(len(same), of_a_kind or len(same))
        chosen |= {same[round(step * (len(same) - 1) / max(1, steps - 1))] for step in range(steps)}
    kills = []
    for number in sorted(chosen):
        kills.append(Kill(number))
        if points[number].startswith("write "):
            kills.append(Kill(number, "torn"))
    return [*kills, Kill(len(points) - 1, "after")]


def some_of(points: int, seed: int) -> int:
    """A write point for the second kill: spread over all by a multiplicative hash."""
    return struct.unpack("<I", struct.pack("<I", seed * 2654435761 & 0xFFFFFFFF))[0] % max(1, points)
