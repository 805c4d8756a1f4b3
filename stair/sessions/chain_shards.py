"""Chains divided among jobs: a shard generates the responses that the logs lack; sealing reads the logs of all shards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from stair.engines.base import Engine
from stair.records.progress import Progress
from stair.records.shards import SEAL_AGAIN, Shard, remove_markers, write_marker
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions import failures
from stair.sessions.chain import Chain
from stair.sessions.failures import Failures, ResponsesFailed
from stair.sessions.runner import finished, run_chains, walk


def run_shard(
    chains: Callable[[bool], Iterable[Chain]],
    work: Path,
    shard: Shard,
    load: Callable[[], Engine],
    progress: tuple[Path, str],
    others: Sequence[Path] = (),
    missing: str = "evaluation.missing",
) -> None:
    """Generates the responses of one shard that the logs lack.

    A response that cannot be generated stops its own chain only. The completion marker is written if no response failed.

    Args:
        chains: yields new chains of the shard; its argument says whether any response will be generated.
        work: the work folder, with all shards' logs.
        load: loads the engine; not called if nothing is missing.
        progress: folder and name of the progress file.
        others: folders of other runs' logs, the most promising first; the seal reads them too.
        missing: the place in the configuration that names responses as missing.

    Raises:
        ResponsesFailed: some responses could not be generated; the message names the first, and the file with the others.
    """
    start = time.monotonic()
    log = _read_log(work, others)
    done, unfinished, responses, first = finished(chains(False), log)
    counted = Progress(*progress, total=responses, unit="responses", done=done)
    list_of_failed, failed = work / f"{shard.name}.missing.yaml", Failures()
    if done and first is not None:
        print(f"{counted.job}: resumes; the first response that the log lacks: {first}")
    if unfinished:
        with WorkLogWriter(work / "log", shard.name) as writer:
            try:
                run_chains(chains(True), load(), log, writer, counted, failed)
            except ResponsesFailed as cause:
                raise failures.cut_short(cause, failed, counted.job, missing, list_of_failed) from cause.__cause__
    if failed:
        raise failures.error(failed, counted.job, missing, list_of_failed)
    list_of_failed.unlink(missing_ok=True)
    write_marker(work, shard, start=start, generated=counted.done - done, responses=responses)


def sealed_rows(
    chains: Iterable[Chain], work: Path, gaps: list[dict[str, Any]] | None = None, others: Sequence[Path] = ()
) -> Iterator[dict[str, Any]]:
    """The rows of all chains, from the logs, one chain at a time.

    Args:
        work: the work folder, with all shards' logs and markers.
        gaps: receives the missing responses, as of `Chain.gaps`, before the last row is yielded.
        others: as of `run_shard`.

    Raises:
        ValueError: chains have not ended; the message says how many and what to run. The log has then lost responses of an ended
            shard, so the shards' markers are removed: the next start runs the shards again. The error comes after the last
            row, so the caller must discard its output, as `write_table` does.
    """
    log = _read_log(work, others)
    unfinished = count = 0
    for chain in chains:
        count += 1
        if not walk(chain, log)[1]:
            unfinished += 1
        elif not unfinished:
            yield from chain.rows
            if gaps is not None:
                gaps += chain.gaps()
    if unfinished:
        remove_markers(work)
        raise ValueError(
            f"{work}: {unfinished} of {count} chains have not ended: the log lacks some of their responses, which were lost or "
            f"made under other settings; {SEAL_AGAIN}; it generates what is missing, and nothing else"
        )


def _read_log(work: Path, others: Sequence[Path]) -> WorkLog:
    """The log of a work folder, with those of other runs behind it. Prints the counts of its own faulty lines."""
    log = WorkLog(work / "log", *others)
    if problems := log.counts.problems():
        print(f"{log.folder}: {problems}")
    return log
