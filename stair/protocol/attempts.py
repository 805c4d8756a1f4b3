"""Which responses were under way when a process died, to find the one that kills its process.

A killed process reports nothing. A shard therefore keeps a small file with its responses under way; an orderly end
empties it. Chains that were under way at two deaths run after all others, in groups of half their number. Each further
death halves the group again, until one chain is alone. So a response that kills its process is found, and ordinary kills
of a full batch cost little. A power failure may lose the file's last state: it costs one more attempt.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from stair.protocol.chain import Chain
from stair.records.files import partial_path, read_mapping

_REPEATED = 2
"""Deaths after which a chain runs in a small group. One says little: any kill has several responses under way."""


class Attempts:
    """The responses of a shard that are under way, and those that were when earlier attempts died.

    Args:
        path: the file; made when the first response begins.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.under_way: dict[str, dict[str, Any]] = {}
        """The entries of the responses that are under way now, by chain."""
        recorded = _read(path)
        self.interrupted: dict[str, dict[str, Any]] = recorded.get("under_way", {})
        """The entries that were under way when the last attempt died, by chain."""
        died: dict[str, int] = recorded.get("died", {})
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
        self._write()

    def begin(self, chain: Chain) -> None:
        """Record that the engine starts a chain's next response."""
        self.under_way[chain.name] = chain.entry()
        self._write()

    def end(self, chain: Chain) -> None:
        """Record that it has finished, or has failed without harm to the process."""
        if self.under_way.pop(chain.name, None) is not None:
            self._died.pop(chain.name, None)
            self._write()

    def stop(self) -> None:
        """Record an orderly end of the process, which counts as no death."""
        self.under_way.clear()
        self._write()

    def _write(self) -> None:
        with suppress(OSError):  # the log's own write reports a fault of the disk
            if not self.under_way and not self._died:
                self._path.unlink(missing_ok=True)
                return
            beside = partial_path(self._path)
            # Not flushed: it is written with every response, and a killed process loses nothing written.
            beside.write_bytes(orjson.dumps({"died": self._died, "under_way": self.under_way}))
            os.replace(beside, self._path)


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_mapping(path) if path.is_file() else {}
    except ValueError:
        return {}  # a power failure cut the file: no deaths are known
