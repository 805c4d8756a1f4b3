"""Chains shared out among jobs: a shard generates what the logs lack of its chains; sealing reads the logs of all shards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from stair.engines.base import Engine
from stair.records.compaction import compact
from stair.records.interruption import Interrupted
from stair.records.leases import HeldError
from stair.records.log_with_reuse import LogWithReuse
from stair.records.progress import Progress
from stair.records.shards import SEAL_AGAIN, Shard, ShardWork, withdraw_markers
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
    marker: Path,
    reuse: Mapping[str, Path] | None = None,
    missing: str = "evaluation.missing",
) -> None:
    """Generates what the logs lack of one shard.

    A response that cannot be generated stops its own chain only. The marker is written when no response failed.

    Args:
        chains: gives the shard's chains afresh, one by one; its argument says whether any response will be generated.
        work: the work folder, with all shards' logs.
        shard: this shard.
        load: loads the engine; not called when nothing is missing.
        progress: folder and name of the progress file.
        marker: written when the shard has ended.
        reuse: folders of other runs, by the run's name, with logs of this stage.
        missing: the place in the configuration that names responses as missing.

    Raises:
        ResponsesFailed: some responses could not be generated; the message names the first, and the file with the others.
        HeldError: another process generates some of the same.
        Interrupted: a signal has asked to stop; what is finished is in the log.
    """
    with ShardWork(work, shard, marker) as job:
        own = WorkLog(work / "log")
        if problems := own.counts.problems():
            print(f"{work / 'log'}: {problems}")
        log = LogWithReuse(own, reuse or {})
        done, unfinished, responses, first = finished(chains(False), log)
        counted = Progress(*progress, total=responses, unit="responses", done=done)
        list_of_failed, failed = work / f"{shard.name}.missing.yaml", Failures()
        if done and first is not None:
            print(f"{counted.job}: resumes; the first response that the log lacks: {first}")
        if unfinished or log.waiting:
            with WorkLogWriter(work / "log", shard.name, job.check) as writer:
                log.write_to(writer)
                if unfinished:
                    try:
                        run_chains(chains(True), load(), log, writer, counted, failed)
                    except ResponsesFailed as cause:
                        raise failures.cut_short(
                            cause, failed, counted.job, missing, list_of_failed
                        ) from cause.__cause__
                    except Interrupted as stop:
                        kept = f"{counted.done} of {responses} responses are in the log"
                        raise Interrupted(f"{counted.job} ({kept}): {stop}") from None
        for run, count in log.reused.items():
            print(f"{count} records copied from the run '{run}'")
        if failed:
            raise failures.error(failed, counted.job, missing, list_of_failed)
        list_of_failed.unlink(missing_ok=True)
        job.end(responses=responses, reused=dict(log.reused))


def sealed_rows(
    chains: Iterable[Chain], work: Path, gaps: list[dict[str, Any]] | None = None
) -> Iterator[dict[str, Any]]:
    """The rows of all chains, taken to their ends from the logs one by one: no more than a chain is held.

    Args:
        chains: the chains, in the order of their rows.
        work: the work folder, with all shards' logs and markers.
        gaps: takes the responses that are missing, as `Chain.gaps` gives them, by the time that the last row has come.

    Raises:
        ValueError: chains have not ended; the message says how many and what to run. Then the log has lost responses of a
            shard that had ended, so the shards' markers are withdrawn: the workflow's next start runs the shards again. The
            error comes after the last row, so what is written from the rows must be given up then, as `write_table` does.
    """
    log = WorkLog(work / "log")
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
        withdraw_markers(work)
        raise ValueError(
            f"{work}: {unfinished} of {count} chains have not ended: the log lacks some of their responses, which were lost or "
            f"made under other settings; {SEAL_AGAIN}; it generates what is missing, and nothing else"
        )


def tidy(work: Path) -> None:
    """After a seal: a log of many files or with much waste becomes one file."""
    with suppress(HeldError):  # someone generates again here: it is tidied when that is sealed
        if (done := compact(work)) is not None:
            print(f"{work / 'log'}: {done.files} files with {done.records} records made one, {done.freed} bytes freed")
