"""Takes chains through an engine: what is in the log is taken from it, the rest is generated and logged."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Protocol

from stair.engines.base import Completion, Engine, Request
from stair.protocol.chain import Chain, Step
from stair.records import interruption
from stair.records.progress import Progress
from stair.records.worklog import WorkLogWriter


class Records(Protocol):
    """Finished work by key: `WorkLog`, or `SharedLog` with other runs behind it."""

    def get(self, key: str) -> dict[str, Any] | None:
        """The record of a key, without its key; None where there is none."""
        ...


def run_chains(
    chains: Iterable[Chain], engine: Engine, log: Records, writer: WorkLogWriter, progress: Progress
) -> None:
    """Runs every chain to its end.

    Every finished response is durable before the next turn of its chain is asked. A chain whose turn has ended goes on
    before a new chain is begun, so that few banks are alive at once.

    Args:
        chains: what is to be generated, drawn as the engine has room; progress counts their generated responses.
        engine: where.
        log: finished work of earlier attempts.
        writer: this attempt's log.
        progress: told of every response that is generated here.

    Raises:
        Interrupted: a signal has asked to stop. Then, and whatever else ends it, responses under way are not kept, finished
            ones are, whoever holds them.
    """
    pending: dict[str, list[Chain]] = defaultdict(list)

    def advance(chain: Chain) -> Request | Step | None:
        """Takes a chain as far as the log allows; what it then waits for: a response, or its states made again."""
        while (step := chain.next()) is not None:
            record = log.get(step.key)
            if record is not None:
                chain.take(record)
            elif chain.substitute(log.get):
                continue
            elif step.replay:
                return step
            else:
                request = chain.request(engine)
                for key, made in chain.remade():
                    writer.append(key, made)
                if request.key != step.key:
                    continue  # states were made again and differ: look the new key up first
                pending[request.key].append(chain)
                if len(pending[request.key]) == 1:
                    return request
                return None  # the same response is already under way for another chain
        return None

    def advance_all(group: Sequence[Chain]) -> Iterator[Request]:
        """Takes chains as far as they come; their replays go through the engine together."""
        while group:
            replaying: list[tuple[Chain, Step]] = []
            for chain in group:
                waits = advance(chain)
                if isinstance(waits, Step):
                    replaying.append((chain, waits))
                elif waits is not None:
                    yield waits
            if replaying:
                segments = engine.replay([chain.replay(engine) for chain, _ in replaying])
                for (chain, step), segment in zip(replaying, segments, strict=True):
                    record = chain.replay_record(segment)
                    writer.append(step.key, record)
                    chain.take(record)
            group = [chain for chain, _ in replaying]

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

    engine.watch = watch
    # A stop waits until `watch` or the loop looks for it: in between a response could be in nobody's hands.
    with interruption.deferred():
        try:
            for completion in engine.run(first()):
                record = keep(completion)
                progress.advance()
                interruption.check()
                waiting = pending.pop(completion.key)
                for chain in waiting:
                    chain.take(record)
                for request in advance_all(waiting):
                    engine.submit(request)
        except BaseException:
            with suppress(OSError):  # the log itself may be what failed
                for completion in engine.ended():
                    keep(completion)
            raise


def finished(chains: Iterable[Chain], log: Records) -> tuple[int, int]:
    """Takes chains as far as the log allows, without an engine; each is dropped when the next is drawn.

    Returns:
        How many logged responses were taken, and how many chains have not ended.
    """
    taken = unfinished = 0
    for chain in chains:
        responses, ended = walk(chain, log)
        taken += responses
        unfinished += not ended
    return taken, unfinished


def walk(chain: Chain, log: Records) -> tuple[int, bool]:
    """Takes one chain as far as the log allows: how many logged responses it took, and whether it has ended."""
    taken = 0
    while (step := chain.next()) is not None:
        record = log.get(step.key)
        if record is None:
            if chain.substitute(log.get):
                continue
            return taken, False
        chain.take(record)
        taken += not step.replay
    return taken, True
