"""Runs chains on an engine: logged responses are read from the log, the others are generated and logged."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple

from stair.engines.base import Completion, Engine, Reconstruction, Request
from stair.records.progress import Progress
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.chain import Chain
from stair.sessions.failures import NOTHING, Accepted, Failed, Failures


def run_chains(
    chains: Iterable[Chain],
    engine: Engine,
    log: WorkLog,
    writer: WorkLogWriter,
    progress: Progress,
    failures: Failures,
    accepted: Accepted = NOTHING,
) -> None:
    """Runs every chain to its end, or to a response that cannot be generated.

    Every finished response is durable before the next turn of its chain is requested. A chain continues before a new chain
    begins, so that few banks are in memory.

    Args:
        chains: drawn as the engine has room.
        log: finished work of earlier attempts.
        writer: this attempt's log.
        progress: counts the responses that are generated here.
        failures: receives the responses that cannot be generated; their chains stop.
        accepted: reasons of responses that are not tried again.

    Raises:
        ResponsesFailed: too many responses in a row could not be generated, or the engine failed with several running.
    However the call ends, finished responses are kept, running ones are not.
    """
    running = _Running(engine, log, writer, failures, accepted)
    engine.watch, engine.failed = _Watch(progress), running.fail
    try:
        for completion in engine.run(running.first_requests(chains)):
            record = running.save(completion)
            progress.advance()
            failures.answered()
            waiting = running.append(completion.key, record)
            for request in running.advance(waiting):
                engine.submit(request)
    except BaseException as error:
        with suppress(OSError):  # the log itself may be what failed
            for completion in engine.ended():
                running.save(completion)
        # A full disk has an error number, and no response caused it; a failed device or server has none.
        if isinstance(error, RuntimeError) or (isinstance(error, OSError) and error.errno is None):
            failures.blame(running.under_way(), error)
        else:
            raise


class _Running:
    """The running chains. A chain waits for one response at a time; several may wait for the same one."""

    def __init__(
        self, engine: Engine, log: WorkLog, writer: WorkLogWriter, failures: Failures, accepted: Accepted
    ) -> None:
        self._engine, self._log, self._writer = engine, log, writer
        self._failures, self._accepted = failures, accepted
        self._waiting: dict[str, list[Chain]] = {}
        """Chains by the key of the response that they wait for. The first one has requested it."""

    def first_requests(self, chains: Iterable[Chain]) -> Iterator[Request]:
        """Yields the first request of each chain, drawing chains as requests are drawn."""
        source = iter(chains)
        while group := list(islice(source, self._engine.reconstructions_at_once)):
            yield from self.advance(group)

    def advance(self, group: Sequence[Chain]) -> Iterator[Request]:
        """Advances chains and yields their next requests; their reconstructions go through the engine together."""
        while group:
            incomplete: list[tuple[Chain, Reconstruction]] = []
            for chain in group:
                needed = self._advance_one(chain)
                if isinstance(needed, Reconstruction):
                    incomplete.append((chain, needed))
                elif needed is not None:
                    yield needed
            group = self._reconstruct(incomplete)

    def save(self, completion: Completion) -> dict[str, Any]:
        """Makes a response durable and returns its record."""
        record = self._waiting[completion.key][0].record(completion, self._engine)
        self._writer.append(completion.key, record)
        return record

    def append(self, key: str, record: dict[str, Any]) -> list[Chain]:
        """Gives a response's record to the chains that wait for it, and returns them."""
        waiting = self._waiting.pop(key)
        for chain in waiting:
            chain.append_record(record)
        return waiting

    def fail(self, key: str, reason: str) -> None:
        """Records that a running response cannot be generated."""
        for chain in self._waiting.pop(key):
            self._failures.add(Failed.of(chain, key, reason))

    def under_way(self) -> list[tuple[Chain, str]]:
        """The running responses: a chain that waits for each, and its key."""
        return [(chains[0], key) for key, chains in self._waiting.items()]

    def _advance_one(self, chain: Chain) -> Request | Reconstruction | None:
        """Advances a chain as far as the log allows.

        Returns:
            The request of its next response, or the states that it reads and that are lost; None if the chain has ended or waits
            for a response that runs for another chain.
        """
        while (key := chain.next()) is not None:
            if (record := self._log.get(key)) is not None:
                chain.append_record(record)
            elif key in self._accepted:
                return None
            elif key in self._waiting:
                self._waiting[key].append(chain)
                return None
            elif (lost := chain.lost(self._engine)) is not None:
                return lost
            else:
                self._waiting[key] = [chain]
                return chain.request(self._engine)
        return None

    def _reconstruct(self, incomplete: list[tuple[Chain, Reconstruction]]) -> list[Chain]:
        """Reconstructs the states that chains lack; returns the chains that have them now."""
        if not incomplete:
            return []
        try:
            segments = self._engine.reconstruct([reconstruction for _, reconstruction in incomplete])
        except MemoryError as error:
            if len(incomplete) > 1:
                return [chain for each in incomplete for chain in self._reconstruct([each])]
            chain, reconstruction = incomplete[0]
            self._failures.add(Failed.of(chain, reconstruction.key, str(error)))
            return []
        for (chain, _), segment in zip(incomplete, segments, strict=True):
            chain.restore(segment)
        return [chain for chain, _ in incomplete]


class _Watch:
    """An engine's `watch`: reports its speed as progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._begun: tuple[float, int] | None = None
        """When the first response was seen running, and the tokens drawn by then: loading does not count in the speed."""

    def __call__(self, running: int, drawn: int) -> None:
        now = time.monotonic()
        if running and self._begun is None:
            self._begun = (now, drawn)
            self._progress.begin()
        started, drawn_before = self._begun or (now, drawn)
        rate = (drawn - drawn_before) / max(now - started, 1e-3)
        self._progress.beat(
            f"{running} running · {rate:.0f} tokens/s", {"running": running, "tokens_per_s": round(rate, 1)}
        )


class Finished(NamedTuple):
    """The finished part of some chains."""

    responses: int
    """Logged responses."""
    unfinished: int
    """Chains that have not ended; a chain with a missing response has ended."""
    total: int
    """Responses that the chains generate in all."""


def finished(chains: Iterable[Chain], log: WorkLog, accepted: Accepted = NOTHING) -> Finished:
    """Advances chains as far as the log allows, without an engine, one chain at a time."""
    responses = unfinished = total = 0
    for chain in chains:
        logged, ended = walk(chain, log, accepted)
        responses += logged
        unfinished += not ended
        total += chain.generates()
    return Finished(responses, unfinished, total)


def walk(chain: Chain, log: WorkLog, accepted: Accepted = NOTHING) -> tuple[int, bool]:
    """Advances one chain as far as the log allows. At a response that is accepted as missing it has ended.

    Returns:
        The number of logged responses, and whether the chain has ended.
    """
    logged = 0
    while (key := chain.next()) is not None:
        if (record := log.get(key)) is None:
            chain.missing = accepted.get(key)
            return logged, chain.missing is not None
        chain.append_record(record)
        logged += 1
    return logged, True
