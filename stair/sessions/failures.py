"""The responses that a shard could not generate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from stair.sessions.chain import Chain

_HOPELESS = 20
"""After so many failures in a row, the cause is probably not in the responses."""

Accepted = Mapping[str, str]
"""Why responses are missing that the configuration accepts as missing, by their keys."""

NOTHING: Accepted = MappingProxyType({})


class Failed(NamedTuple):
    key: str
    response: str
    """The response, for people."""
    reason: str

    @classmethod
    def of(cls, chain: Chain, key: str, reason: str) -> Failed:
        """The next response of a chain."""
        return cls(key, chain.name, " ".join(reason.split()))

    def __str__(self) -> str:
        return f"{self.response}: {self.reason}"


class ResponsesFailed(ValueError):
    """Some responses of a shard could not be generated; all others are in the log."""


class Failures(list[Failed]):
    """The failed responses of one attempt, in order."""

    _in_a_row = 0

    def add(self, failed: Failed) -> None:
        """Adds one. Raises ResponsesFailed after too many in a row."""
        self.append(failed)
        self._in_a_row += 1
        if self._in_a_row >= _HOPELESS:
            raise ResponsesFailed(
                f"{_HOPELESS} responses in a row could not be generated, the last of them {failed}; the cause is probably not "
                "in the responses: check the model's files, the device and the server, then run the same command again; "
                "finished responses are in the log"
            )

    def answered(self) -> None:
        """Records that a response was generated."""
        self._in_a_row = 0

    def blame(self, under_way: Sequence[tuple[Chain, str]], error: Exception) -> None:
        """Adds the response at which the engine itself failed, if it ran alone. Raises ResponsesFailed."""
        line = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if len(under_way) == 1:
            self.append(Failed.of(*under_way[0], line))
            raise ResponsesFailed(f"could not generate {self[-1]}; {AGAIN}") from error
        raise ResponsesFailed(
            f"{line}; {len(under_way)} responses were under way; finished ones are in the log; run the same command "
            "again; to find a response that fails every time, set transformers.batch_width or sglang.concurrency to 1"
        ) from error


AGAIN = (
    "finished responses are in the log; run the same command again to try once more, or set accept_missing: true to leave out "
    "the responses that have failed"
)
