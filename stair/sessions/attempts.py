"""Which responses were under way when a process died, to find the one that kills its process.

A killed process reports nothing. A shard therefore keeps a small file with its responses under way: a state, and behind
it a line for each response that has begun or ended since. An orderly end empties it. Chains that were under way at two
deaths run after all others, in groups of half their number. Each further death halves the group again, until one chain
is alone. So a response that kills its process is found, and ordinary kills of a full batch cost little. A power failure
may lose the file's last lines: they cost one more attempt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import orjson

from stair.records.files import partial_path
from stair.sessions.chain import Chain

_REPEATED = 2
"""Deaths after which a chain runs in a small group. One says little: any kill has several responses under way."""
_MOST_LINES = 10_000
"""Lines behind a state before the file begins anew."""


class Attempts:
    """The responses of a shard that are under way, and those that were when earlier attempts died.

    Args:
        path: the file; made when the first response begins.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._lines = 0
        self.under_way: dict[str, dict[str, Any]] = {}
        """The entries of the responses that are under way now, by chain."""
        died, self.interrupted = _read(path)
        """The entries that were under way when the last attempt died, by chain."""
        self._died = died | {name: died.get(name, 0) + 1 for name in self.interrupted}

    @property
    def repeated(self) -> frozenset[str]:
        """The chains that were under way at two deaths or more."""
        return frozenset(name for name, count in self._died.items() if count >= _REPEATED)

    def groups(self, chains: Iterable[Chain]) -> Iterator[list[Chain]]:
        """Yield chains in groups that run one after another: fewest deaths first, half of those with equal deaths."""
        by_deaths: dict[int, list[Chain]] = {}
        for chain in chains:
            by_deaths.setdefault(self.deaths(chain), []).append(chain)
        for _, equal in sorted(by_deaths.items()):
            width = max(1, len(equal) // 2)
            yield from (equal[start : start + width] for start in range(0, len(equal), width))

    def deaths(self, chain: Chain) -> int:
        """The number of attempts that died while a chain was under way."""
        return self._died.get(chain.name, 0)

    def killed_alone(self, chain: Chain) -> bool:
        """Whether the last attempt died while only this chain was under way, after earlier deaths."""
        return set(self.interrupted) == {chain.name} and self.deaths(chain) > _REPEATED

    def forgive(self, chain: Chain) -> None:
        """Let the next attempt try a chain once more, alone."""
        self._died[chain.name] = _REPEATED
        self._write_state()

    def begin(self, chain: Chain) -> None:
        """Record that the engine starts a chain's next response."""
        self.under_way[chain.name] = entry = chain.entry()
        self._write_line({"begun": chain.name, "entry": entry})

    def end(self, chain: Chain) -> None:
        """Record that it has finished, or has failed without harm to the process."""
        if self.under_way.pop(chain.name, None) is not None:
            self._died.pop(chain.name, None)
            self._write_line({"ended": chain.name})

    def stop(self) -> None:
        """Record an orderly end of the process, which counts as no death."""
        self.under_way.clear()
        self._write_state()

    def _write_line(self, line: dict[str, Any]) -> None:
        if self._file is None or self._lines == _MOST_LINES:
            self._write_state()
            return
        with suppress(OSError):  # the log's own write reports a fault of the disk
            # Not flushed to the disk: a killed process loses nothing that the system has.
            self._file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))
            self._lines += 1

    def _write_state(self) -> None:
        """Begin the file anew, or remove it where it would say nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None
        with suppress(OSError):
            if not self.under_way and not self._died:
                self._path.unlink(missing_ok=True)
                return
            beside = partial_path(self._path)
            state = {"died": self._died, "under_way": self.under_way}
            beside.write_bytes(orjson.dumps(state, option=orjson.OPT_APPEND_NEWLINE))
            os.replace(beside, self._path)
            self._file = self._path.open("ab", buffering=0)
            self._lines = 0


def _read(path: Path) -> tuple[dict[str, int], dict[str, dict[str, Any]]]:
    """The deaths of chains, and the entries under way. A power failure may have cut the file: its whole lines count."""
    died: dict[str, int] = {}
    under_way: dict[str, dict[str, Any]] = {}
    with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        for line in path.read_bytes().splitlines():
            state = orjson.loads(line)
            if "begun" in state:
                under_way[state["begun"]] = state["entry"]
            elif "ended" in state:
                under_way.pop(state["ended"], None)
                died.pop(state["ended"], None)
            else:
                died, under_way = dict(state["died"]), dict(state["under_way"])
    return died, under_way
