"""From a benchmark's own file to the benchmark's table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stair.config.datasets import Benchmark
from stair.records.rows import BenchmarkProblem
from stair.stages.data.problem_texts import identity, identity_of_text, ordered_choices, with_choices
from stair.stages.data.reading import as_text, in_subset, instead_of_text, place_of, read_columns

_SHOWN = 8


def wanted_columns(settings: Benchmark) -> dict[str, str]:
    """The columns that a benchmark's file must have."""
    columns = {"problem": settings.columns.problem, "answer": settings.columns.answer}
    if settings.columns.id is not None:
        columns["id"] = settings.columns.id
    return columns | {f"wrong {number}": where for number, where in enumerate(settings.columns.wrong_choices)}


def read_benchmark(path: Path, key: str, settings: Benchmark) -> list[BenchmarkProblem]:
    """The problems of a benchmark's file, in its order.

    Raises:
        ValueError: a wrong number of rows, an empty text, a repeated problem or id, an unknown id to exclude, or an integer
            problem whose answer is none, with the row.
    """
    data = read_columns(path, wanted_columns(settings))
    count = len(data["problem"])
    if settings.rows is not None and count != settings.rows:
        raise ValueError(f"{path}: benchmark '{key}' must have {settings.rows} rows, found {count}")
    ids = _ids(data.get("id", list(range(count))), path)
    missing = sorted(set(settings.exclude_ids) - set(ids))
    if missing:
        some = ", ".join(ids[:_SHOWN]) + (", …" if len(ids) > _SHOWN else "")
        raise ValueError(f"{path}: benchmark '{key}' has no problem {', '.join(missing)} to exclude (its ids: {some})")
    problems: dict[str, BenchmarkProblem] = {}
    for number in range(count):
        if ids[number] in settings.exclude_ids:
            continue
        problem = _problem(data, number, ids[number], settings, path)
        first = problems.setdefault(problem.problem_id, problem)
        if first.problem != problem.problem:  # \frac{1}{23} and \frac{12}{3} have one normalised text
            problem = problem._replace(problem_id=identity_of_text(problem.problem))
            first = problems.setdefault(problem.problem_id, problem)
        if first is not problem:
            raise ValueError(
                f"{path}: benchmark '{key}' holds one problem twice: {first.source_id} and {problem.source_id}; "
                f"remove one, or list its id in benchmarks.{key}.exclude_ids"
            )
    if settings.subset is None:
        return list(problems.values())
    chosen = set(in_subset(problems, settings.subset, path, f"benchmarks.{key}"))
    return [problem for name, problem in problems.items() if name in chosen]


def left_out(path: Path, settings: Benchmark) -> dict[str, str]:
    """The questions of the excluded problems (`exclude_ids`), by the data set's own id."""
    data = read_columns(path, wanted_columns(settings))
    ids = _ids(data.get("id", list(range(len(data["problem"])))), path)
    return {
        source: str(text) for source, text in zip(ids, data["problem"], strict=True) if source in settings.exclude_ids
    }


def _ids(values: Sequence[Any], path: Path) -> list[str]:
    """The data set's own ids as text; they are distinct, because reports and exclusions name them."""
    ids: dict[str, int] = {}
    for number, value in enumerate(values):
        text = as_text(value)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"{place_of(path, number)}: the id is {value!r}; columns.id must name a column of ids, or be null to number "
                "the rows"
            )
        if text in ids:
            raise ValueError(
                f"{place_of(path, number)}: another row has the id {text}, too; name a column of ids that differ (columns.id), "
                "or null to number the rows"
            )
        ids[text] = number
    return list(ids)


def _problem(data: dict[str, list[Any]], number: int, source: str, settings: Benchmark, path: Path) -> BenchmarkProblem:
    problem, answer = data["problem"][number], as_text(data["answer"][number])
    for name, value in (("problem", problem), ("answer", answer)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{place_of(path, number)}: the {name} is {instead_of_text(value)}")
    problem, answer = problem.strip(), answer.strip()
    if settings.kind == "integer":
        _check_integer(answer, source, path)
    if settings.kind != "choice":
        return BenchmarkProblem(
            problem_id=identity(problem),
            source_id=source,
            problem=problem,
            reference=answer,
            kind=settings.kind,
            choices=None,
        )
    wrong = []
    for column in range(len(settings.columns.wrong_choices)):
        # Read like the right choice: if only one of 4.0 and 5.0 became an integer, its spelling would reveal the answer.
        value = as_text(data[f"wrong {column}"][number])
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{place_of(path, number)}: wrong choice {column + 1} is {instead_of_text(value)}")
        wrong.append(value.strip())
    try:
        choices, letter = ordered_choices(problem, answer, wrong)
    except ValueError as error:
        raise ValueError(f"{place_of(path, number)}: {error}") from error
    return BenchmarkProblem(
        problem_id=identity(problem, *sorted(choices)),
        source_id=source,
        problem=with_choices(problem, choices),
        reference=letter,
        kind=settings.kind,
        choices=choices,
    )


def _check_integer(answer: str, source: str, path: Path) -> None:
    """Raises ValueError unless the scorer can compare with this answer. The message omits it: it may not be published."""
    from answer_grader.matching import same_integer  # takes a moment to import

    try:
        same_integer(answer, answer)
    except ValueError:
        raise ValueError(
            f"{path}, problem {source}: its answer is not an integer; set `kind: math` for such answers"
        ) from None


def question(problem: BenchmarkProblem) -> str:
    """The question of a problem without its options, to compare it with other data sets."""
    text = problem.problem
    return text.removesuffix(with_choices("", problem.choices)) if problem.choices else text
