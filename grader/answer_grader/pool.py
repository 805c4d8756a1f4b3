"""Grading in worker processes with limits of memory and processor time.

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

from answer_grader.grading import grade_without_comparison, verdict_of
from answer_grader.verdict import Item, Outcome, Verdict

Progress = Callable[[int, int], None]
"""Called with (graded so far, total)."""

EXIT_OUT_OF_MEMORY = 77
"""Exit status of a worker that reached its limit of memory."""

STALLED_SECONDS = 600
"""Elapsed time without a reply after which the machine, not the answer, is at fault: an error, never a verdict."""

WORKER_COMMAND = [sys.executable, "-m", "answer_grader.worker"]

_CHUNK = 32
_COMPARISONS_A_WORKER = 200
"""Below this many comparisons a further worker costs more than it saves."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one worker process. An ordinary comparison takes about a millisecond and no memory to speak of."""

    cpu_seconds: int = 10
    """processor time for one comparison"""
    memory_bytes: int = 2 << 30
    """address space of the process"""


def grade_many(
    items: Sequence[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    accept_choice_text: bool = False,
    limits: Limits | None = None,
) -> list[Verdict]:
    """Grades items in their order.

    `workers` is the number of processes (default: the processors of this machine, fewer for few items). 0 compares in
    this process, without limits, as does the default where processes have no limits (Windows). Raises
    ValueError naming the first item whose reference cannot be used.
    """
    results = grade_each(
        items, workers=workers, progress=progress, accept_choice_text=accept_choice_text, limits=limits
    )
    verdicts: list[Verdict] = []
    for index, result in enumerate(results):
        if isinstance(result, ValueError):
            raise ValueError(f"item {index}: {result}") from result
        verdicts.append(result)
    return verdicts


def grade_each(
    items: Sequence[Item],
    *,
    workers: int | None = None,
    progress: Progress | None = None,
    accept_choice_text: bool = False,
    limits: Limits | None = None,
) -> list[Verdict | ValueError]:
    """As `grade_many`, with the error of an unusable item in its place."""
    results: list[Verdict | ValueError | None] = []
    waiting: dict[Comparison, list[int]] = {}
    for index, item in enumerate(items):
        try:
            settled: Verdict | ValueError | str = grade_without_comparison(item, accept_choice_text=accept_choice_text)
        except ValueError as error:
            settled = error
        if isinstance(settled, str):
            waiting.setdefault(Comparison(settled, item.reference, item.kind, item.problem), []).append(index)
            results.append(None)
        else:
            results.append(settled)

    done = len(items) - sum(map(len, waiting.values()))
    if progress:
        progress(done, len(items))

    def settle(comparison: Comparison, result: Verdict | ValueError) -> None:
        nonlocal done
        for index in waiting[comparison]:
            results[index] = result
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
    problem: str | None

    def verdict(self, correct: bool, reason: str) -> Verdict:
        return verdict_of(self.answer, self.reference, correct, reason)


Settle = Callable[[Comparison, Verdict | ValueError], None]


def _compare_all(comparisons: list[Comparison], settle: Settle, workers: int | None, limits: Limits) -> None:
    if workers == 0 or (workers is None and os.name != "posix"):
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
    from answer_grader.matching import answer_matches

    for each in comparisons:
        try:
            settle(each, each.verdict(*answer_matches(each.answer, each.reference, each.kind, each.problem)))
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
                    answered = worker.ask(chunk, lambda each, result: self._settle(settle, each, result))
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

    def _settle(self, settle: Settle, comparison: Comparison, result: Verdict | ValueError) -> None:
        with self.lock:
            settle(comparison, result)


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
            raise RuntimeError(f"a grading worker did not start (exit status {self.process.wait()})")

    def ask(self, chunk: list[Comparison], settle: Settle) -> int:
        """Settles the chunk in order; returns how many were answered before the worker ended."""
        assert self.process.stdin is not None
        try:
            for each in chunk:
                fields = [each.answer, each.reference, each.kind, each.problem]
                self.process.stdin.write(json.dumps(fields).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the replies say how far it came
        for answered, each in enumerate(chunk):
            reply = self._reply()
            if reply is None:
                return answered
            outcome = json.loads(reply)
            settle(each, each.verdict(*outcome) if isinstance(outcome, list) else ValueError(outcome["error"]))
        return len(chunk)

    def _reply(self) -> bytes | None:
        """The next line; None where the worker has ended."""
        assert self.process.stdout is not None
        while b"\n" not in self.unread:
            readable, _, _ = select.select([self.process.stdout], [], [], STALLED_SECONDS)
            if not readable:
                self.process.kill()
                raise RuntimeError(f"a grading worker made no progress for {STALLED_SECONDS} s")
            received = os.read(self.process.stdout.fileno(), 65536)
            if not received:
                return None
            self.unread += received
        line, self.unread = self.unread.split(b"\n", 1)
        return line

    def exit_verdict(self, comparison: Comparison) -> Verdict:
        status = self.process.wait()
        if status in (-signal.SIGXCPU, EXIT_OUT_OF_MEMORY):
            reason = "beyond the limit of memory" if status == EXIT_OUT_OF_MEMORY else "beyond the limit of time"
            return Verdict(comparison.answer, comparison.reference, Outcome.TIMEOUT, reason)
        raise RuntimeError(f"a grading worker ended with status {status} on the answer {comparison.answer[:200]!r}")

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
