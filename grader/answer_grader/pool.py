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
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass

from answer_grader.grading import grade_without_comparison, verdict_of
from answer_grader.verdict import Item, Kind, Outcome, Verdict

Progress = Callable[[int, int], None]
"""Called with (graded so far, total)."""

Result = Verdict | ValueError
Question = tuple[str, str, Kind, str | None]
"""The arguments of `answer_matches`."""

EXIT_OUT_OF_MEMORY = 77
"""Exit status of a worker that reached its limit of memory."""

STALLED_SECONDS = 600
"""Elapsed time without a reply after which the machine, not the answer, is at fault: an error, never a verdict."""

WORKER_COMMAND = [sys.executable, "-m", "answer_grader.worker"]

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
    verdicts: list[Verdict] = []
    for index, result in enumerate(grade_each(items, workers, progress, accept_choice_text, limits)):
        if isinstance(result, ValueError):
            raise ValueError(f"item {index}: {result}") from result
        verdicts.append(result)
    return verdicts


def grade_each(
    items: Sequence[Item],
    workers: int | None = None,
    progress: Progress | None = None,
    accept_choice_text: bool = False,
    limits: Limits | None = None,
) -> list[Result]:
    """As `grade_many`, with the error of an unusable item in its place."""
    results: list[Result | str] = []
    waiting: dict[Question, list[int]] = {}
    for index, item in enumerate(items):
        try:
            results.append(grade_without_comparison(item, accept_choice_text=accept_choice_text))
        except ValueError as error:
            results.append(error)
        if isinstance(answer := results[-1], str):
            waiting.setdefault((answer, item.reference, item.kind, item.problem), []).append(index)
    done = len(items) - sum(map(len, waiting.values()))
    if progress:
        progress(done, len(items))
    compared = _compare_all(list(waiting), workers, limits or Limits())
    for indices, result in zip(waiting.values(), compared, strict=True):
        for index in indices:
            results[index] = result
        done += len(indices)
        if progress:
            progress(done, len(items))
    return [result for result in results if not isinstance(result, str)]


def _compare_all(questions: list[Question], workers: int | None, limits: Limits) -> Iterator[Result]:
    """The results of all questions, in their order."""
    if workers == 0 or (workers is None and os.name != "posix"):
        yield from map(_compare_here, questions)
        return
    if workers is None:
        workers = min(os.cpu_count() or 1, -(-len(questions) // _COMPARISONS_A_WORKER))
    workers = max(1, min(workers, len(questions)))
    idle: list[_Worker | None] = [None] * workers  # as many as threads; started when they are needed

    def compare(question: Question) -> Result:
        worker = idle.pop()
        try:
            worker = worker or _Worker(limits)
            return worker.compare(question)
        finally:
            idle.append(worker if worker and worker.process.returncode is None else None)

    try:
        with ThreadPoolExecutor(workers) as threads:
            yield from threads.map(compare, questions)
    finally:
        for worker in filter(None, idle):
            worker.close()


def _compare_here(question: Question) -> Result:
    from answer_grader.matching import answer_matches

    try:
        return verdict_of(*question[:2], *answer_matches(*question))
    except ValueError as error:
        return error


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
        if self._reply() != b'"ready"\n':
            raise RuntimeError(f"a grading worker did not start (exit status {self.process.wait()})")

    def compare(self, question: Question) -> Result:
        """The result of one question; the verdict `timeout` if the worker reached a limit and ended."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(json.dumps(question).encode() + b"\n")
            self.process.stdin.flush()
        if reply := self._reply():
            match = json.loads(reply)
            return verdict_of(*question[:2], *match) if isinstance(match, list) else ValueError(match["error"])
        status = self.process.wait()
        self.close()
        if status not in (-signal.SIGXCPU, EXIT_OUT_OF_MEMORY):
            raise RuntimeError(f"a grading worker ended with status {status} on the answer {question[0][:200]!r}")
        limit = "memory" if status == EXIT_OUT_OF_MEMORY else "time"
        return Verdict(*question[:2], Outcome.TIMEOUT, f"beyond the limit of {limit}")

    def _reply(self) -> bytes:
        """Its next line; nothing if it has ended. It answers each question before the next, so no line is left over."""
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], STALLED_SECONDS)
        if not readable:
            self.process.kill()
            self.close()
            raise RuntimeError(f"a grading worker made no progress for {STALLED_SECONDS} s")
        line = self.process.stdout.readline()
        return line if line.endswith(b"\n") else b""

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()
