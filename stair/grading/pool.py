"""Scoring in worker processes with limits of memory and processor time.

The parent extracts answers and decides choices, which is linear in the response; only the comparison of mathematical
answers goes to workers, each distinct one once. Verdicts do not depend on the number of workers or on the load.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from stair.grading.item import ScoreItem
from stair.grading.score import score_without_comparison, verdict_of
from stair.grading.verdict import Score, Verdict
from stair.grading.worker_limits import EXIT_OUT_OF_MEMORY, STALLED_SECONDS, Limits

Progress = Callable[[int, int], None]
"""Called with (scored so far, total)."""

WORKER_COMMAND = [sys.executable, "-m", "stair.grading.worker"]

_CHUNK = 32
_COMPARISONS_A_WORKER = 200
"""Below this many comparisons a further worker costs more than it saves."""


def score_many(
    items: Sequence[ScoreItem],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    accept_choice_text: bool = False,
    limits: Limits | None = None,
) -> list[Score]:
    """Scores items in their order.

    `workers` is the number of processes (default: the processors of this machine, fewer for few items); 0 compares in
    this process, without limits. Raises ValueError naming the first item whose reference cannot be used.
    """
    results = score_each(
        items, workers=workers, progress=progress, accept_choice_text=accept_choice_text, limits=limits
    )
    scores: list[Score] = []
    for index, result in enumerate(results):
        if isinstance(result, ValueError):
            raise ValueError(f"item {index}: {result}") from result
        scores.append(result)
    return scores


def score_each(
    items: Sequence[ScoreItem],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    accept_choice_text: bool = False,
    limits: Limits | None = None,
) -> list[Score | ValueError]:
    """As `score_many`, with the error of an unusable item in its place."""
    results: list[Score | ValueError | None] = []
    waiting: dict[Comparison, list[int]] = {}
    for index, item in enumerate(items):
        try:
            settled: Score | ValueError | str = score_without_comparison(
                item.response,
                item.reference,
                item.kind,
                choices=item.choices,
                finish_reason=item.finish_reason,
                accept_choice_text=accept_choice_text,
            )
        except ValueError as error:
            settled = error
        if isinstance(settled, str):
            waiting.setdefault(Comparison(settled, item.reference, item.kind, item.problem_hint), []).append(index)
            results.append(None)
        else:
            results.append(settled)

    done = len(items) - sum(map(len, waiting.values()))
    if progress:
        progress(done, len(items))

    def settle(comparison: Comparison, outcome: bool | Verdict | ValueError) -> None:
        nonlocal done
        for index in waiting[comparison]:
            if isinstance(outcome, ValueError):
                results[index] = outcome
            elif isinstance(outcome, Verdict):
                results[index] = Score(comparison.answer, outcome)
            else:
                results[index] = verdict_of(comparison.answer, outcome)
        done += len(waiting[comparison])
        if progress:
            progress(done, len(items))

    _compare_all(list(waiting), settle, workers, limits or Limits())
    assert all(result is not None for result in results)
    return [result for result in results if result is not None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One question to a worker."""

    answer: str
    reference: str
    kind: str
    problem_hint: str | None


Settle = Callable[[Comparison, bool | Verdict | ValueError], None]


def _compare_all(comparisons: list[Comparison], settle: Settle, workers: int | None, limits: Limits) -> None:
    if workers == 0:
        _compare_here(comparisons, settle)
        return
    if workers is None:
        workers = min(os.cpu_count() or 1, -(-len(comparisons) // _COMPARISONS_A_WORKER))
    queue = _Queue(comparisons, limits)
    threads = [
        threading.Thread(target=queue.drain, args=(settle,), daemon=True) for _ in range(min(workers, len(comparisons)))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if queue.failure is not None:
        raise queue.failure


def _compare_here(comparisons: list[Comparison], settle: Settle) -> None:
    from stair.grading.matching import answer_matches

    for each in comparisons:
        try:
            settle(each, answer_matches(each.answer, each.reference, each.kind, each.problem_hint))
        except ValueError as error:
            settle(each, error)


@dataclass
class _Queue:
    """Comparisons still to be made, shared by the threads that each feed one worker process."""

    comparisons: list[Comparison]
    limits: Limits
    position: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)
    failure: BaseException | None = None

    def drain(self, settle: Settle) -> None:
        worker = None
        try:
            while chunk := self._next_chunk():
                while chunk:
                    worker = worker or _Worker(self.limits)
                    answered = worker.ask(chunk, lambda each, outcome: self._settle(settle, each, outcome))
                    if answered < len(chunk):
                        self._settle(settle, chunk[answered], worker.exit_verdict(chunk[answered]))
                        worker.close()
                        worker = None
                        answered += 1
                    chunk = chunk[answered:]
        except BaseException as error:  # handed to the calling thread
            with self.lock:
                self.failure = self.failure or error
        finally:
            if worker:
                worker.close()

    def _next_chunk(self) -> list[Comparison]:
        with self.lock:
            if self.failure is not None:
                return []
            chunk = self.comparisons[self.position : self.position + _CHUNK]
            self.position += len(chunk)
            return chunk

    def _settle(self, settle: Settle, comparison: Comparison, outcome: bool | Verdict | ValueError) -> None:
        with self.lock:
            settle(comparison, outcome)


class _Worker:
    """One worker process, started without a shell and without re-importing the caller's main module."""

    def __init__(self, limits: Limits) -> None:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self.process = subprocess.Popen(
            [*WORKER_COMMAND, str(limits.cpu_seconds), str(limits.memory_bytes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        self.unread = b""
        if self._reply() != b'"ready"':
            raise RuntimeError(f"a scoring worker did not start (exit status {self.process.wait()})")

    def ask(self, chunk: list[Comparison], settle: Settle) -> int:
        """Settles the chunk in order; returns how many were answered before the worker ended."""
        assert self.process.stdin is not None
        try:
            for each in chunk:
                fields = [each.answer, each.reference, each.kind, each.problem_hint]
                self.process.stdin.write(json.dumps(fields).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the replies say how far it came
        for answered, each in enumerate(chunk):
            reply = self._reply()
            if reply is None:
                return answered
            outcome = json.loads(reply)
            settle(each, outcome if isinstance(outcome, bool) else ValueError(outcome["error"]))
        return len(chunk)

    def _reply(self) -> bytes | None:
        """The next line; None where the worker has ended."""
        assert self.process.stdout is not None
        while b"\n" not in self.unread:
            readable, _, _ = select.select([self.process.stdout], [], [], STALLED_SECONDS)
            if not readable:
                self.process.kill()
                raise RuntimeError(f"a scoring worker made no progress for {STALLED_SECONDS} s")
            received = os.read(self.process.stdout.fileno(), 65536)
            if not received:
                return None
            self.unread += received
        line, self.unread = self.unread.split(b"\n", 1)
        return line

    def exit_verdict(self, comparison: Comparison) -> Verdict:
        status = self.process.wait()
        if status in (-signal.SIGXCPU, EXIT_OUT_OF_MEMORY):
            return Verdict.TIMEOUT
        raise RuntimeError(f"a scoring worker ended with status {status} on the answer {comparison.answer[:200]!r}")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
