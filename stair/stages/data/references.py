"""The check that the scorer can compare with a benchmark's reference answers."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from answer_grader.matching import same_integer

from stair.records.rows import BenchmarkProblem


def check_references(path: Path, problems: Iterable[BenchmarkProblem]) -> None:
    """Raises ValueError, with file and problem, if the answer of an integer problem is not an integer.

    The message omits the answer, which may not be published.
    """
    for problem in problems:
        if problem.kind == "integer":
            try:
                same_integer(problem.reference, problem.reference)
            except ValueError:
                raise ValueError(
                    f"{path}, problem {problem.source_id}: its answer is not an integer; set `kind: math` for such answers"
                ) from None
