"""Runs trajectories in shards: responses that no log has are generated and logged. Sealing reads the logs of all shards."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from stair.engines.base import Completion, Engine, Reconstruction, Request
from stair.records.progress import Progress
from stair.records.shards import SEAL_AGAIN, Shard, generating_facts, recorded_attempt, remove_markers, write_marker
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.trajectory import Finished, Need, Trajectory

Accepted = Mapping[str, str]
"""Why responses failed that may be missing, by their keys."""
NOTHING: Accepted = {}

_FAILED = "failed"
"""The folder of the logs of responses that could not be generated, in a work folder."""
_HOPELESS = 20
"""After so many failures in a row, the cause is probably not in the responses."""
_AGAIN = (
    "finished responses are in the log; run the same command again to try once more, or set accept_missing: true to leave out "
    "the responses that have failed"
)


class ResponsesFailed(ValueError):
    """Some responses could not be generated; all others are in the log."""


class Failed(NamedTuple):
    """A response that could not be generated."""

    key: str
    response: str
    """The response, for people."""
    reason: str

    def __str__(self) -> str:
        return f"{self.response}: {self.reason}"


def generate(
    trajectories: Iterable[Trajectory],
    engine: Engine,
    log: WorkLog,
    writer: WorkLogWriter,
    progress: Progress,
    failed: list[Failed],
    accepted: Accepted = NOTHING,
) -> None:
    """Runs every trajectory to its end, or to a response that cannot be generated.

    Every finished response is durable before the next turn of its trajectory is requested. A trajectory continues before a
    new one begins, so that few banks are in memory.

    Args:
        trajectories: drawn as the engine has room.
        log: finished work of earlier attempts.
        writer: this attempt's log.
        progress: counts the responses that are generated here.
        failed: receives the responses that cannot be generated; their trajectories stop.
        accepted: responses that are not tried again.

    Raises:
        ResponsesFailed: too many responses in a row could not be generated, or the engine itself failed.
    However the call ends, finished responses are kept, running ones are not.
    """
    running = _Running(engine, log, writer, failed, accepted)
    engine.watch, engine.failed = _Watch(progress), running.fail
    try:
        for completion in engine.run(running.start(trajectories)):
            finished = running.save(completion)
            progress.advance()
            for request in running.answer(completion.key, finished):
                engine.submit(request)
    except BaseException as error:
        with suppress(OSError):  # the log itself may be what failed
            for completion in engine.ended():
                running.save(completion)
        # A full disk has an error number, and no response caused it; a failed device or server has none.
        if isinstance(error, RuntimeError) or (isinstance(error, OSError) and error.errno is None):
            running.blame(error)
        raise


class _Running:
    """The running trajectories. Each waits for one response at a time; several may wait for the same one."""

    def __init__(
        self, engine: Engine, log: WorkLog, writer: WorkLogWriter, failed: list[Failed], accepted: Accepted
    ) -> None:
        self._engine, self._log, self._writer = engine, log, writer
        self._failed, self._accepted = failed, accepted
        self._in_a_row = 0
        self._waiting: dict[str, tuple[Need, list[Trajectory]]] = {}
        """The running responses by key, each with the trajectories that wait for it."""

    def start(self, trajectories: Iterable[Trajectory]) -> Iterator[Request]:
        """Yields the first request of each trajectory, drawing trajectories as requests are drawn."""
        source = iter(trajectories)
        while group := list(islice(source, self._engine.reconstructions_at_once)):
            yield from self._advance([(each, None) for each in group])

    def answer(self, key: str, finished: Finished) -> Iterator[Request]:
        """Gives a response to the trajectories that wait for it; yields their next requests."""
        _, waiting = self._waiting.pop(key)
        yield from self._advance([(each, finished) for each in waiting])

    def save(self, completion: Completion) -> Finished:
        """Makes a response durable."""
        need, _ = self._waiting[completion.key]
        record = need.record(completion, self._engine.identity)
        self._writer.append(completion.key, record)
        self._in_a_row = 0
        return record, completion.bank

    def fail(self, key: str, reason: str) -> None:
        """Records that a running response cannot be generated."""
        _, waiting = self._waiting.pop(key)
        for trajectory in waiting:
            self._give_up(trajectory, key, reason)

    def blame(self, error: Exception) -> None:
        """Records the response at which the engine itself failed, if it ran alone. Raises ResponsesFailed."""
        line = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        if len(self._waiting) == 1:
            ((key, (_, (trajectory, *_))),) = self._waiting.items()
            self._failed.append(Failed(key, str(trajectory), line))
            raise ResponsesFailed(f"could not generate {self._failed[-1]}; {_AGAIN}") from error
        raise ResponsesFailed(
            f"{line}; {len(self._waiting)} responses were under way; finished ones are in the log; run the same command "
            "again; to find a response that fails every time, set transformers.batch_width or sglang.concurrency to 1"
        ) from error

    def _advance(self, group: Sequence[tuple[Trajectory, Any]]) -> Iterator[Request]:
        """Answers trajectories and yields their next requests; their reconstructions go through the engine together."""
        while group:
            lost: list[tuple[Trajectory, Reconstruction]] = []
            for trajectory, answer in group:
                step = self._next(trajectory, answer)
                if isinstance(step, Reconstruction):
                    lost.append((trajectory, step))
                elif step is not None:
                    yield step.request
            group = self._reconstruct(lost)

    def _next(self, trajectory: Trajectory, answer: Any) -> Reconstruction | Need | None:
        """Advances a trajectory as far as the log allows; None at its end, or if it waits for a response that is running."""
        while isinstance(step := trajectory.advance(answer), str):
            record = self._log.get(step)
            if record is None and (step in self._waiting or step in self._accepted):
                if step in self._waiting:
                    self._waiting[step][1].append(trajectory)
                return None
            answer = None if record is None else (record, None)
        if isinstance(step, Need):
            self._waiting[step.request.key] = step, [trajectory]
        return step

    def _reconstruct(self, lost: Sequence[tuple[Trajectory, Reconstruction]]) -> list[tuple[Trajectory, Any]]:
        """Reconstructs the states that trajectories lack; each with its states."""
        if not lost:
            return []
        try:
            segments = self._engine.reconstruct([each for _, each in lost])
        except MemoryError as error:
            if len(lost) > 1:
                return [answered for each in lost for answered in self._reconstruct([each])]
            ((trajectory, reconstruction),) = lost
            self._give_up(trajectory, reconstruction.key, str(error))
            return []
        return [(trajectory, segment) for (trajectory, _), segment in zip(lost, segments, strict=True)]

    def _give_up(self, trajectory: Trajectory, key: str, reason: str) -> None:
        """Stops a trajectory. Raises ResponsesFailed after too many failures in a row."""
        trajectory.close()
        self._failed.append(Failed(key, str(trajectory), " ".join(reason.split())))
        self._in_a_row += 1
        if self._in_a_row >= _HOPELESS:
            raise ResponsesFailed(
                f"{_HOPELESS} responses in a row could not be generated, the last of them {self._failed[-1]}; the cause is "
                "probably not in the responses: check the model's files, the device and the server, then run the same command "
                "again; finished responses are in the log"
            )


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


def read_log(trajectory: Trajectory, log: WorkLog, accepted: Accepted = NOTHING) -> tuple[int, bool]:
    """Advances one trajectory as far as the log allows. At a response that may be missing it has ended.

    Returns:
        The number of logged responses, and whether the trajectory has ended.
    """
    logged, key = 0, trajectory.advance()
    while isinstance(key, str):
        if (record := log.get(key)) is None:
            trajectory.missing = accepted.get(key)
            trajectory.close()
            return logged, trajectory.missing is not None
        logged, key = logged + 1, trajectory.advance((record, None))
    return logged, True


# ---------------------------------------------------------------- shards and the seal


def run_shard(
    trajectories: Callable[[bool], Iterable[Trajectory]],
    work: Path,
    shard: Shard,
    load: Callable[[], Engine],
    progress: tuple[Path, str],
    others: Sequence[Path] = (),
    *,
    accept_missing: bool = False,
) -> None:
    """Generates the responses of one shard that the logs lack.

    A response that cannot be generated stops its own trajectory only. The completion marker is written if no response failed,
    or if failed ones may be missing.

    Args:
        trajectories: yields the shard's trajectories anew; its argument says whether any response will be generated.
        work: the work folder, with all shards' logs.
        load: loads the engine; not called if nothing is missing.
        progress: folder and name of the progress file.
        others: folders of other runs' logs, the most promising first; the seal reads them too.
        accept_missing: responses that have failed may be missing, and are not tried again.

    Raises:
        ResponsesFailed: some responses could not be generated; the message names the first.
    """
    log, accepted = _read_log(work, others), _accepted(work, accept_missing)
    done = unfinished = total = 0
    for trajectory in trajectories(False):
        logged, ended = read_log(trajectory, log, accepted)
        done, unfinished, total = done + logged, unfinished + (not ended), total + trajectory.responses
    counted, failed = Progress(*progress, total=total, unit="responses", done=done), list[Failed]()
    if unfinished:
        with (
            WorkLogWriter(log.folder, shard.name) as writer,
            recorded_attempt(log.folder, shard, lambda: counted.done - done, writer.path.name),
        ):
            try:
                generate(trajectories(True), load(), log, writer, counted, failed, accepted)
            except ResponsesFailed as cause:
                raise ResponsesFailed(f"{counted.job}: {cause}") from cause.__cause__
            finally:
                _write_failed(work, shard, failed)
    if failed and not accept_missing:
        more = f" (and {len(failed) - 1} more)" if len(failed) > 1 else ""
        raise ResponsesFailed(f"{counted.job}: could not generate {failed[0]}{more}; {_AGAIN}")
    write_marker(work, shard)


def _write_failed(work: Path, shard: Shard, failed: Sequence[Failed]) -> None:
    """Prints the failed responses, and appends them to a log of their own."""
    if not failed:
        return
    with WorkLogWriter(work / _FAILED, shard.name) as writer:
        for each in failed:
            print(f"could not generate {each}")
            writer.append(each.key, each._asdict())


def _accepted(work: Path, accept_missing: bool) -> Accepted:
    """The failed responses of a work folder; none unless they may be missing."""
    return {key: record["reason"] for key, record in WorkLog(work / _FAILED).items()} if accept_missing else NOTHING


def sealed_rows(
    trajectories: Iterable[Trajectory],
    work: Path,
    facts: dict[str, Any] | None = None,
    others: Sequence[Path] = (),
    *,
    accept_missing: bool = False,
) -> Iterator[dict[str, Any]]:
    """The rows of all trajectories, from the logs, one trajectory at a time.

    Args:
        work: the work folder, with all shards' logs and markers.
        facts: receives facts for the manifest at the end: the number of responses from the logs, the missing ones
            (`Trajectory.gaps`), and those of `generating_facts`.
        others: as of `run_shard`.
        accept_missing: responses that have failed, and the rest of their trajectories, are left out.

    Raises:
        ValueError: trajectories have not ended; the message says how many and what to run. The log has then lost responses of
            an ended shard, so the shards' markers are removed: the next start runs the shards again. The error comes after
            the last row, so the caller must discard its output, as `write_table` does.
    """
    log, accepted = _read_log(work, others), _accepted(work, accept_missing)
    unfinished = count = responses = 0
    missing: list[dict[str, Any]] = []
    for trajectory in trajectories:
        count += 1
        logged, ended = read_log(trajectory, log, accepted)
        unfinished, responses = unfinished + (not ended), responses + logged
        if not unfinished:
            yield from trajectory.rows
            missing += trajectory.gaps()
    if unfinished:
        remove_markers(work)
        raise ValueError(
            f"{work}: {unfinished} of {count} trajectories have not ended: the log lacks some of their responses, which were "
            f"lost or made under other settings; {SEAL_AGAIN}; it generates what is missing, and nothing else"
        )
    if facts is not None:
        facts |= {"responses": responses, "missing": missing, **generating_facts(log.folder, log.used)}


def report_missing(output: Path, facts: Mapping[str, Any]) -> None:
    """Prints how many responses a sealed output lacks; `facts` of `sealed_rows`."""
    if gaps := len(facts["missing"]):
        print(f"{output}: {gaps} missing, as accept_missing allows; the manifest names each with its reason")


def _read_log(work: Path, others: Sequence[Path]) -> WorkLog:
    """The log of a work folder, with those of other runs behind it. Prints the counts of its own faulty lines."""
    log = WorkLog(work / "log", *others)
    if problems := log.counts.problems():
        print(f"{log.folder}: {problems}")
    return log
