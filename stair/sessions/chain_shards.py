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
from stair.records.shards import Shard, ShardWork, withdraw_markers
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions import failures
from stair.sessions.attempts import Attempts
from stair.sessions.chain import Chain
from stair.sessions.failures import Failed, Failures, ResponsesFailed
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
        done, unfinished, responses = finished(chains(False), log)
        counted = Progress(*progress, total=responses, unit="responses", done=done)
        list_of_failed, under_way = work / f"{shard.name}.missing.yaml", counted.path.with_suffix(".under-way.json")
        failed = Failures()
        if unfinished or log.waiting:
            with WorkLogWriter(work / "log", shard.name, job.check) as writer:
                log.write_to(writer)
                if unfinished:
                    try:
                        _generate(chains, load(), log, writer, counted, Attempts(under_way), failed)
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
        for path in (list_of_failed, under_way):
            path.unlink(missing_ok=True)
        job.end(responses=responses, reused=dict(log.reused))


def _generate(
    chains: Callable[[bool], Iterable[Chain]],
    engine: Engine,
    log: LogWithReuse,
    writer: WorkLogWriter,
    progress: Progress,
    attempts: Attempts,
    failed: Failures,
) -> None:
    """Runs chains to their ends; those that were under way at several deaths of the process run last, in small groups.

    Args:
        chains: as `run_shard` has them.
        engine: where.
        log: finished work of earlier attempts.
        writer: this attempt's log.
        progress: the shard's progress.
        attempts: what was under way when earlier attempts died.
        failed: takes the responses that cannot be generated; it has them however this ends.

    Raises:
        ResponsesFailed: the engine failed with several responses under way, or too many failed in a row.
    """
    if attempts.interrupted:
        print(
            f"{progress.job}: the process of the last attempt died with {len(attempts.interrupted)} responses under way"
        )
    repeated = attempts.repeated
    try:
        others = (chain for chain in chains(True) if chain.name not in repeated)
        run_chains(others, engine, log, writer, progress, failed, attempts)
        # The chain that most processes died of comes last, so that it delays no other.
        for group in attempts.groups(chain for chain in chains(True) if chain.name in repeated):
            if not attempts.killed_alone(group[0]):
                run_chains(group, engine, log, writer, progress, failed, attempts)
            elif not walk(group[0], log)[1]:
                failed.append(
                    Failed.of(
                        group[0], f"its process died {attempts.deaths(group[0])} times, the last time with it alone"
                    )
                )
                attempts.forgive(group[0])
    except (RuntimeError, OSError) as error:
        # A full disk has an error number, and no response caused it; a failed device or server has none.
        if isinstance(error, OSError) and error.errno is not None:
            attempts.stop()
            raise
        line = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        blamed = [Failed(name, {**entry, "reason": line}) for name, entry in attempts.under_way.items()]
        if len(blamed) != 1:
            raise ResponsesFailed(
                f"{line}; {len(blamed)} responses were under way; finished ones are in the log; run the same "
                "command again: responses under way at two such ends run last, in ever smaller groups, until one is named"
            ) from error
        failed.append(blamed[0])
    except (Interrupted, ValueError):
        attempts.stop()
        raise


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
            "made under other settings; run the same command again (by hand: run the stage's shards again); it generates what "
            "is missing, and nothing else"
        )


def tidy(work: Path) -> None:
    """After a seal: a log of many files or with much waste becomes one file."""
    with suppress(HeldError):  # someone generates again here: it is tidied when that is sealed
        if (done := compact(work)) is not None:
            print(f"{work / 'log'}: {done.files} files with {done.records} records made one, {done.freed} bytes freed")
