"""Shards: chains shared out among jobs. A shard ends with a small file; sealing reads the logs of all of them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from stair.engines.base import Engine
from stair.protocol.chain import Chain
from stair.protocol.runner import finished, run_chains, walk
from stair.records.claims import Claim, ClaimedError
from stair.records.compaction import compact
from stair.records.files import write_json
from stair.records.interruption import Interrupted
from stair.records.progress import Progress
from stair.records.reuse import SharedLog
from stair.records.worklog import WorkLog, WorkLogWriter

T = TypeVar("T")


def share(items: Sequence[T], shard: int, of: int) -> list[T]:
    """The items of one shard: every `of`-th, so that shards are equally long.

    Raises:
        ValueError: there is no such shard.
    """
    if not 0 <= shard < of:
        raise ValueError(f"shard {shard} does not exist among {of} (they are numbered from 0)")
    return list(items[shard::of])


def run_shard(
    chains: Callable[[bool], Iterable[Chain]],
    responses: int,
    work: Path,
    shard: tuple[int, int],
    load: Callable[[], Engine],
    progress: tuple[Path, str],
    marker: Path,
    reuse: Mapping[str, Path] | None = None,
) -> None:
    """Generates what the logs lack of one shard.

    Args:
        chains: gives the shard's chains afresh, one by one; told whether anything will be generated with them.
        responses: how many responses the shard generates in all.
        work: the work folder, with all shards' logs.
        shard: this shard's number and how many there are.
        load: loads the engine; not called when nothing is missing.
        progress: folder and name of the progress file.
        marker: written when the shard has ended.
        reuse: folders of other runs, by the run's name, with logs of this stage.

    Raises:
        ClaimedError: another process generates some of the same.
        Interrupted: a signal has asked to stop; what is finished is in the log.
    """
    name = f"shard-{shard[0]}-of-{shard[1]}"
    with Claim(work, name, _overlap_with(shard)) as claim:
        own = WorkLog(work / "log")
        if problems := own.counts.problems():
            print(f"{work / 'log'}: {problems}")
        log = SharedLog(own, reuse or {})
        done, unfinished = finished(chains(False), log)
        told = Progress(*progress, total=responses, unit="responses", done=done)
        if unfinished or log.waiting:
            with WorkLogWriter(work / "log", name, claim.check) as writer:
                log.write_to(writer)
                if unfinished:
                    try:
                        run_chains(chains(True), load(), log, writer, told)
                    except Interrupted as stop:
                        kept = f"{told.done} of {responses} responses are in the log"
                        raise Interrupted(f"{told.job} ({kept}): {stop}") from None
        for run, count in log.reused.items():
            print(f"{count} records taken over from the run '{run}'")
        facts = {"shard": shard[0], "of": shard[1], "responses": responses, "reused": dict(log.reused)}
        write_json(marker, facts)


def _overlap_with(shard: tuple[int, int]) -> Callable[[str], bool]:
    """Whether other work on a folder, by its claim, generates some of what a shard does, or moves the log's files."""

    def overlaps(other: str) -> bool:
        found = re.fullmatch(r"shard-(\d+)-of-(\d+)", other)
        if found is None:
            return True
        number, of = int(found[1]), int(found[2])
        return (number - shard[0]) % math.gcd(of, shard[1]) == 0

    return overlaps


def sealed_rows(chains: Iterable[Chain], work: Path) -> Iterator[dict[str, Any]]:
    """The rows of all chains, taken to their ends from the logs one by one: no more than a chain is held.

    Raises:
        ValueError: chains have not ended; the message says how many and what to run. It comes after the last row, so what is
            written from the rows must be given up then, as `write_table` does.
    """
    log = WorkLog(work / "log")
    unfinished = count = 0
    for chain in chains:
        count += 1
        if not walk(chain, log)[1]:
            unfinished += 1
        elif not unfinished:
            yield from chain.rows
    if unfinished:
        raise ValueError(
            f"{work}: {unfinished} of {count} chains have not ended (their responses are not in the log, or were made "
            "under other settings); run the stage's shards again"
        )


def tidy(work: Path) -> None:
    """After a seal: a log of many files or with much waste becomes one file."""
    with suppress(ClaimedError):  # someone generates again here: it is tidied when that is sealed
        if (done := compact(work)) is not None:
            print(f"{work / 'log'}: {done.files} files with {done.records} records made one, {done.freed} bytes freed")
