"""Which responses were under way when a process died, so that one that kills its process is found.

A killed process leaves no message. A shard therefore keeps a small file with its responses under
way; an orderly end empties it. At the next start, a chain that was under way at two deaths runs after
all others, and alone. A power failure may lose the file's last state, which costs one more attempt.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from stair.protocol.chain import Chain
from stair.records.files import partial_path, read_mapping

_SUSPECT = 2
"""Deaths after which a chain runs alone. After one, any response of the batch can be the cause."""


class Attempts:
    """The responses of a shard that are under way, and those that were when earlier attempts died.

    Args:
        path: the file; made when the first response begins.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.under_way: dict[str, dict[str, Any]] = {}
        """The entries of the responses that are under way now, by chain."""
        told = _read(path)
        self.found: dict[str, dict[str, Any]] = told.get("under_way", {})
        """The entries that were under way when the last attempt died, by chain."""
        died: dict[str, int] = told.get("died", {})
        self._died = died | {name: died.get(name, 0) + 1 for name in self.found}

    @property
    def suspects(self) -> frozenset[str]:
        """The chains that were under way at two deaths or more."""
        return frozenset(name for name, count in self._died.items() if count >= _SUSPECT)

    def deaths(self, chain: Chain) -> int:
        """The number of attempts that died while a chain was under way."""
        return self._died.get(chain.name, 0)

    def died_alone(self, chain: Chain) -> bool:
        """Whether an attempt died with this chain alone under way."""
        return self.deaths(chain) > _SUSPECT

    def try_again(self, chain: Chain) -> None:
        """The next attempt runs a chain once more that had died alone."""
        self._died[chain.name] = _SUSPECT
        self._write()

    def begin(self, chain: Chain) -> None:
        """A chain's next response is about to be generated."""
        self.under_way[chain.name] = chain.entry()
        self._write()

    def end(self, chain: Chain) -> None:
        """It has ended, or could not be generated, and the process is well."""
        if self.under_way.pop(chain.name, None) is not None:
            self._died.pop(chain.name, None)
            self._write()

    def stop(self) -> None:
        """The process ends in good order: nothing that was under way is to blame."""
        self.under_way.clear()
        self._write()

    def _write(self) -> None:
        with suppress(OSError):  # the log itself says what is wrong with the disk
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
        return {}  # a power failure cut it: nobody is suspected
