"""The responses that a shard could not generate: named for people, and as entries for the configuration."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from stair.records.files import write_text
from stair.sessions.chain import Chain

_HOPELESS = 20
"""After so many failures in a row, the cause is probably not in the responses."""


@dataclass(frozen=True)
class Failed:
    chain: str
    entry: Mapping[str, object]
    """Its keys in the configuration, and the reason."""

    @classmethod
    def of(cls, chain: Chain, reason: str) -> Failed:
        """The next response of a chain."""
        return cls(chain.name, {**chain.entry(), "reason": " ".join(reason.split())})

    def __str__(self) -> str:
        turn = f", turn {self.entry['turn']}" if "turn" in self.entry else ""
        return f"{self.chain}{turn}: {self.entry['reason']}"


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

    def blame(self, under_way: Sequence[Chain], error: Exception) -> None:
        """Adds the response at which the engine itself failed. Raises ResponsesFailed if several were running."""
        line = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if len(under_way) != 1:
            raise ResponsesFailed(
                f"{line}; {len(under_way)} responses were under way; finished ones are in the log; run the same command "
                "again; to find a response that fails every time, set transformers.batch_width or sglang.concurrency to 1"
            ) from error
        self.append(Failed.of(under_way[0], line))


def error(failed: Sequence[Failed], job: str, key: str, path: Path) -> ResponsesFailed:
    """The error that names a job's failed responses; writes their entries for the configuration to `path`.

    Args:
        key: the place of such entries: `evaluation.missing`.
    """
    _write_entries(failed, key, path)
    more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
    return ResponsesFailed(
        f"{job}: could not generate {failed[0]}{more}; finished responses are in the log; run the same command again to "
        f"try once more, or report {'them' if more else 'it'} as missing: copy the entries of {path} into the run's overlay"
    )


def cut_short(cause: ResponsesFailed, failed: Sequence[Failed], job: str, key: str, path: Path) -> ResponsesFailed:
    """The error of a job that ended early; writes the entries of the responses that had failed.

    Args:
        cause: why it ended.
    """
    if not failed:
        return ResponsesFailed(f"{job}: {cause}")
    _write_entries(failed, key, path)
    return ResponsesFailed(
        f"{job}: {cause}; {len(failed)} failed by themselves: to report them as missing, copy the entries of {path} into "
        "the run's overlay"
    )


def report_entries(output: Path, key: str, gaps: int, existing: Sequence[str], price: str = "") -> None:
    """Prints how many responses a sealed output lacks, and which entries of the configuration are superfluous.

    Args:
        key: the place of such entries: `evaluation.missing`.
        gaps: the number of missing responses.
        existing: responses that the configuration names as missing and that exist.
        price: the cost of removing such an entry, for people.
    """
    if gaps:
        one = gaps == 1
        print(
            f"{output}: {gaps} {'response is' if one else 'responses are'} missing, as {key} says; the manifest names "
            f"{'it' if one else 'them'}"
        )
    if existing:
        one = len(existing) == 1
        more = "" if one else f" (and {len(existing) - 1} more)"
        print(
            f"{output}: {key} names {len(existing)} {'response that exists' if one else 'responses that exist'}: "
            f"{existing[0]}{more}; remove {'its entry' if one else 'their entries'} from the run's overlay{price}"
        )


def _write_entries(failed: Sequence[Failed], key: str, path: Path) -> None:
    part, _, name = key.partition(".")
    entries = yaml.safe_dump([dict(each.entry) for each in failed], sort_keys=False, allow_unicode=True, width=1000)
    write_text(path, f"{part}:\n  {name}:\n" + "".join(f"    {line}\n" for line in entries.splitlines()))
