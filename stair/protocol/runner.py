"""Takes chains through an engine: what is in the log is taken from it, the rest is generated and logged."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, NamedTuple, Protocol

from stair.engines.base import Completion, Engine, Request
from stair.jobs import interruption
from stair.jobs.progress import Progress
from stair.protocol.attempts import Attempts
from stair.protocol.chain import Chain, Step
from stair.protocol.failures import Failed, Failures
from stair.records.worklog import WorkLogWriter


class Records(Protocol):
    """Finished work by key: `WorkLog`, or `LogWithReuse` with other runs behind it."""

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None where there is none."""
        ...


def run_chains(
    chains: Iterable[Chain],
    engine: Engine,
    log: Records,
    writer: WorkLogWriter,
    progress: Progress,
    failures: Failures,
    attempts: Attempts | None = None,
) -> None:
    """Runs every chain to its end, or to the response that cannot be generated.

    Every finished response is durable before the next turn of its chain is asked. A chain whose turn has ended goes on
    before a new chain is begun, so that few banks are alive at once.

    Args:
        chains: what is to be generated, drawn as the engine has room; progress counts their generated responses.
        engine: where.
        log: finished work of earlier attempts.
        writer: this attempt's log.
        progress: told of every response that is generated here.
        failures: takes the responses that cannot be generated; it has them however this ends. No later turn of their
            chains is asked.
        attempts: told what is under way.

    Raises:
        ResponsesFailed: too many responses in a row could not be generated.
        Interrupted: a signal has asked to stop. Then, and whatever else ends it, responses under way are not kept, finished
            ones are, whoever holds them.
    """
    pending: dict[str, list[Chain]] = defaultdict(list)

    def fail(key: str, reason: str) -> None:
        """A response under way cannot be generated."""
        for chain in pending.pop(key):
            if attempts is not None:
                attempts.end(chain)
            failures.add(Failed.of(chain, reason))

    def advance(chain: Chain) -> Request | Step | None:
        """Takes a chain as far as the log allows; what it then waits for: a response, or its states made again."""
        while (step := chain.next()) is not None:
            record = log.get(step.key)
            if record is not None:
                chain.append_record(record)
            elif chain.substitute(log.get):
                continue
            elif chain.gives_up():
                return None
            elif step.replay:
                return step
            else:
                request = chain.request(engine)
                for key, remade in chain.remade():
                    writer.append(key, remade)
                if request.key != step.key:
                    continue  # states were made again and differ: look the new key up first
                pending[request.key].append(chain)
                if len(pending[request.key]) == 1:
                    if attempts is not None:
                        attempts.begin(chain)
                    return request
                return None  # the same response is already under way for another chain
        return None

    def advance_all(group: Sequence[Chain]) -> Iterator[Request]:
        """Takes chains as far as they come; their replays go through the engine together."""
        while group:
            replaying: list[tuple[Chain, Step]] = []
            for chain in group:
                try:
                    waits = advance(chain)
                except MemoryError as error:  # of states that had to be replayed
                    failures.add(Failed.of(chain, str(error)))
                    continue
                if isinstance(waits, Step):
                    replaying.append((chain, waits))
                elif waits is not None:
                    yield waits
            if replaying:
                replaying = replay(replaying)
            group = [chain for chain, _ in replaying]

    def replay(replaying: list[tuple[Chain, Step]]) -> list[tuple[Chain, Step]]:
        """Replays what chains wait for; those whose states were made."""
        try:
            segments = engine.replay([chain.replay(engine) for chain, _ in replaying])
        except MemoryError as error:
            if len(replaying) > 1:
                return [done for each in replaying for done in replay([each])]
            failures.add(Failed.of(replaying[0][0], str(error)))
            return []
        for (chain, step), segment in zip(replaying, segments, strict=True):
            record = chain.replay_record(segment)
            writer.append(step.key, record)
            chain.append_record(record)
        return replaying

    def first() -> Iterator[Request]:
        source = iter(chains)
        while group := list(islice(source, engine.replays_at_once)):
            yield from advance_all(group)

    started, drawn_before = 0.0, None

    def watch(running: int, drawn: int) -> None:
        nonlocal started, drawn_before
        interruption.check()
        if running and drawn_before is None:  # what came before, such as loading, says nothing of the work
            started, drawn_before = time.monotonic(), drawn
            progress.begin()
        rate = (
            (drawn - (drawn_before or 0)) / max(time.monotonic() - started, 1e-3) if drawn_before is not None else 0.0
        )
        progress.beat(f"{running} running · {rate:.0f} tokens/s", {"running": running, "tokens_per_s": round(rate, 1)})

    def keep(completion: Completion) -> dict[str, Any]:
        """Makes a response durable; its record."""
        record = pending[completion.key][0].record(completion, engine)
        writer.append(completion.key, record)
        return record

    engine.watch, engine.failed = watch, fail
    # A stop waits until `watch` or the loop looks for it: in between a response could be in nobody's hands.
    with interruption.deferred():
        try:
            for completion in engine.run(first()):
                record = keep(completion)
                progress.advance()
                failures.answered()
                waiting = pending.pop(completion.key)
                for chain in waiting:
                    if attempts is not None:
                        attempts.end(chain)
                    chain.append_record(record)
                interruption.check()
                for request in advance_all(waiting):
                    engine.submit(request)
        except BaseException:
            with suppress(OSError):  # the log itself may be what failed
                for completion in engine.ended():
                    keep(completion)
            raise


class Finished(NamedTuple):
    """What a log has of some chains."""

    responses: int
    """Logged responses."""
    unfinished: int
    """Chains that have not ended; one that gives up has."""
    total: int
    """Responses that the chains generate in all, those of the log among them."""


def finished(chains: Iterable[Chain], log: Records) -> Finished:
    """Takes chains as far as the log allows, without an engine; each is dropped when the next is drawn."""
    responses = unfinished = total = 0
    for chain in chains:
        logged, ended = walk(chain, log)
        responses += logged
        unfinished += not ended
        total += chain.generates()
    return Finished(responses, unfinished, total)


def walk(chain: Chain, log: Records) -> tuple[int, bool]:
    """Takes one chain as far as the log allows.

    Returns:
        How many logged responses it took, and whether it has ended or gives up.
    """
    logged = 0
    while (step := chain.next()) is not None:
        record = log.get(step.key)
        if record is None:
            if chain.substitute(log.get):
                continue
            return logged, chain.gives_up()
        chain.append_record(record)
        logged += not step.replay
    return logged, True
