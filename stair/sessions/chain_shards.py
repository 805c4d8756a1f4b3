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
from stair.sessions.chain import Chain
from stair.sessions.failures import AGAIN, Accepted, Failures, ResponsesFailed
from stair.sessions.runner import finished, run_chains, walk

_FAILED = "failed"
"""The folder of the logs of responses that could not be generated, in a work folder."""


def run_shard(
    chains: Callable[[bool], Iterable[Chain]],
    work: Path,
    shard: Shard,
    load: Callable[[], Engine],
    progress: tuple[Path, str],
    others: Sequence[Path] = (),
    *,
    accept_missing: bool = False,
) -> None:
    """Generates the responses of one shard that the logs lack.

    A response that cannot be generated stops its own chain only. The completion marker is written if no response failed, or
    if those are accepted as missing.

    Args:
        chains: yields new chains of the shard; its argument says whether any response will be generated.
        work: the work folder, with all shards' logs.
        load: loads the engine; not called if nothing is missing.
        progress: folder and name of the progress file.
        others: folders of other runs' logs, the most promising first; the seal reads them too.
        accept_missing: responses that have failed are not tried again.

    Raises:
        ResponsesFailed: some responses could not be generated; the message names the first.
    """
    start = time.monotonic()
    log, accepted = _read_log(work, others), _accepted(work, accept_missing)
    done, unfinished, responses = finished(chains(False), log, accepted)
    counted, failed = Progress(*progress, total=responses, unit="responses", done=done), Failures()
    if unfinished:
        with WorkLogWriter(work / "log", shard.name) as writer:
            try:
                run_chains(chains(True), load(), log, writer, counted, failed, accepted)
            except ResponsesFailed as cause:
                raise ResponsesFailed(f"{counted.job}: {cause}") from cause.__cause__
            finally:
                _write_failed(work, shard, failed)
    if failed and not accept_missing:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise ResponsesFailed(f"{counted.job}: could not generate {failed[0]}{more}; {AGAIN}")
    write_marker(work, shard, start=start, generated=counted.done - done, responses=responses)


def _write_failed(work: Path, shard: Shard, failed: Failures) -> None:
    """Prints the failed responses, and appends them to a log of their own."""
    if not failed:
        return
    with WorkLogWriter(work / _FAILED, shard.name) as writer:
        for each in failed:
            print(f"could not generate {each}")
            writer.append(each.key, each._asdict())


def _accepted(work: Path, accept_missing: bool) -> Accepted:
    """Why responses of a work folder failed, by their keys; nothing unless they are accepted as missing."""
    return {key: record["reason"] for key, record in WorkLog(work / _FAILED).items()} if accept_missing else {}


def sealed_rows(
    chains: Iterable[Chain],
    work: Path,
    gaps: list[dict[str, Any]] | None = None,
    others: Sequence[Path] = (),
    *,
    accept_missing: bool = False,
) -> Iterator[dict[str, Any]]:
    """The rows of all chains, from the logs, one chain at a time.

    Args:
        work: the work folder, with all shards' logs and markers.
        gaps: receives the missing responses, as of `Chain.gaps`, before the last row is yielded.
        others: as of `run_shard`.
        accept_missing: responses that have failed, and the rest of their trajectories, are left out.

    Raises:
        ValueError: chains have not ended; the message says how many and what to run. The log has then lost responses of an ended
            shard, so the shards' markers are removed: the next start runs the shards again. The error comes after the last
            row, so the caller must discard its output, as `write_table` does.
    """
    log, accepted = _read_log(work, others), _accepted(work, accept_missing)
    unfinished = count = 0
    for chain in chains:
        count += 1
        if not walk(chain, log, accepted)[1]:
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


def report_missing(output: Path, gaps: int) -> None:
    """Prints how many responses a sealed output lacks."""
    if gaps:
        print(f"{output}: {gaps} missing, as accept_missing allows; the manifest names each with its reason")


def _read_log(work: Path, others: Sequence[Path]) -> WorkLog:
    """The log of a work folder, with those of other runs behind it. Prints the counts of its own faulty lines."""
    log = WorkLog(work / "log", *others)
    if problems := log.counts.problems():
        print(f"{log.folder}: {problems}")
    return log
