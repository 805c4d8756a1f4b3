"""From the training data set to a model's training problems (appendix B.4)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stair.config.datasets import TrainingPool
from stair.core import TURNS
from stair.data.normalisation import identity, record_identity, strip_fixed
from stair.data.reading import as_text, instead_of_text, stream_columns
from stair.records.seeds import hash_order

_EXAMPLES = 3


@dataclass(frozen=True)
class Removed:
    """A source record that a model is not trained on, and the problem of a benchmark that it repeats."""

    record_id: str
    problem_id: str
    benchmark: str
    source_id: str
    """The benchmark's own name for the problem."""


@dataclass
class PoolCounts:
    """What the cleaning found and removed, step by step."""

    rows: int = 0
    rows_without_fixed_texts: int = 0
    """Rows whose prompt lacks the data set's fixed opening or ending; they are kept as they are."""
    exact_duplicates: int = 0
    """Rows whose prompt and answer stood before."""
    records: int = 0
    """Source records: distinct (prompt text, answer)."""
    problems: int = 0
    """Distinct normalised texts."""
    problems_with_many_records: int = 0
    problems_with_many_answers: int = 0
    """Problems whose records do not agree on the answer, as it is spelt; they are kept."""
    fewest_copies: int = 0
    """Of one source record, in rows."""
    most_copies: int = 0
    excluded_problems: int = 0
    excluded_records: int = 0
    excluded_rows: int = 0
    """Rows of the file whose source records are excluded; so with the other counts of rows below."""
    excluded_by: dict[str, int] = field(default_factory=dict)
    """Excluded problems by benchmark; one problem can stand in several."""
    excluded_records_by: dict[str, int] = field(default_factory=dict)
    excluded_rows_by: dict[str, int] = field(default_factory=dict)
    training_problems: int = 0
    training_records: int = 0
    training_rows: int = 0
    validation_problems: int = 0
    validation_records: int = 0
    validation_rows: int = 0


@dataclass(frozen=True)
class Pool:
    """A model's training problems."""

    rows: list[dict[str, Any]]
    """The rows of `records.schemas.TRAINING_POOL`."""
    removed: list[Removed]
    counts: PoolCounts
    unwrapped: list[str]
    """Records of `rows` whose prompt lacks the data set's fixed opening or ending: the first few, as examples."""


def wanted_columns(settings: TrainingPool) -> dict[str, str]:
    """The columns that the training data set's file must have."""
    return {"problem": settings.columns.problem, "answer": settings.columns.answer}


def training_pool(
    path: Path,
    settings: TrainingPool,
    excluded: Mapping[str, Mapping[str, str]],
    progress: Callable[[int], None] = lambda rows: None,
) -> Pool:
    """Reads and cleans the training data set: exact duplicates and the problems of benchmarks go, the rest is split.

    Args:
        path: the data set's file, read in batches: what is held in memory grows with its distinct rows only.
        settings: how to read and clean it.
        excluded: for each benchmark to exclude, the benchmark's own ids by question.
        progress: told how many rows have been read.

    Raises:
        ValueError: a row without a text or an answer, or too few problems for the validation split.
    """
    counts = PoolCounts()
    distinct = _distinct(path, settings, counts, progress)
    records = [_record(text, answer, settings, path) for text, answer in distinct]
    copies = {row["record_id"]: count for row, count in zip(records, distinct.values(), strict=True)}
    of_problem: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in records:
        of_problem[row["problem_id"]].append(row)
    counts.records, counts.problems = len(records), len(of_problem)
    counts.exact_duplicates = counts.rows - counts.records
    counts.fewest_copies, counts.most_copies = min(distinct.values(), default=0), max(distinct.values(), default=0)
    counts.problems_with_many_records = sum(len(rows) > 1 for rows in of_problem.values())
    counts.problems_with_many_answers = sum(len({row["reference"] for row in rows}) > 1 for rows in of_problem.values())

    removed: list[Removed] = []
    for benchmark, questions in excluded.items():
        source_of = {identity(question): source for question, source in questions.items()}
        hit = [problem for problem in of_problem if problem in source_of]
        found = [
            Removed(row["record_id"], problem, benchmark, source_of[problem])
            for problem in hit
            for row in of_problem[problem]
        ]
        counts.excluded_by[benchmark], counts.excluded_records_by[benchmark] = len(hit), len(found)
        counts.excluded_rows_by[benchmark] = sum(copies[one.record_id] for one in found)
        removed += found
    out = {one.problem_id for one in removed}
    kept = [row for row in records if row["problem_id"] not in out]
    counts.excluded_problems, counts.excluded_records = len(out), len(records) - len(kept)
    counts.excluded_rows = counts.rows - sum(copies[row["record_id"]] for row in kept)
    _split(kept, copies, settings, path, counts)
    kept.sort(key=lambda row: row["record_id"])
    removed.sort(key=lambda one: (one.benchmark, one.source_id, one.record_id))
    here = {row["record_id"] for row in kept}
    lacking = (record_identity(*pair) for pair in distinct if not _has_fixed_texts(pair[0], settings))
    return Pool(kept, removed, counts, sorted(here.intersection(lacking))[:_EXAMPLES])


def _distinct(
    path: Path, settings: TrainingPool, counts: PoolCounts, progress: Callable[[int], None]
) -> Counter[tuple[str, str]]:
    """Each distinct (prompt text, answer) with how often it stands."""
    distinct: Counter[tuple[str, str]] = Counter()
    for batch in stream_columns(path, wanted_columns(settings)):
        texts, answers = batch["problem"], [as_text(answer) for answer in batch["answer"]]
        for column, values in (("problem", texts), ("answer", answers)):
            for number, value in enumerate(values, counts.rows):
                if not isinstance(value, str) or not value.strip():
                    raise ValueError(
                        f"{path}, row {number}: the {column} is {instead_of_text(value)} (training_pool.columns.{column})"
                    )
        distinct.update(zip(texts, answers, strict=True))
        counts.rows += len(texts)
        progress(counts.rows)
    counts.rows_without_fixed_texts = sum(
        number for (text, _), number in distinct.items() if not _has_fixed_texts(text, settings)
    )
    return distinct


def _has_fixed_texts(text: str, settings: TrainingPool) -> bool:
    prefixes, suffixes = settings.strip_prefixes, settings.strip_suffixes
    return (not prefixes or text.startswith(tuple(prefixes))) and (not suffixes or text.endswith(tuple(suffixes)))


def _record(text: str, answer: str, settings: TrainingPool, path: Path) -> dict[str, Any]:
    problem = strip_fixed(text, settings.strip_prefixes, settings.strip_suffixes)
    if not problem:
        raise ValueError(
            f"{path}: a prompt is nothing but the fixed opening and ending (training_pool.strip_prefixes, strip_suffixes)"
        )
    return dict(
        record_id=record_identity(text, answer),
        problem_id=identity(problem),
        problem=problem,
        reference=answer.strip(),
    )


def _split(
    kept: list[dict[str, Any]], copies: Mapping[str, int], settings: TrainingPool, path: Path, counts: PoolCounts
) -> None:
    """Marks the validation problems, the first by hash, with all their records; counts both sides."""
    problems = hash_order({row["problem_id"] for row in kept}, settings.seed)
    if len(problems) < settings.validation_problems + TURNS:
        raise ValueError(
            f"{path}: {len(problems)} problems remain, too few for {settings.validation_problems} validation problems and "
            "sessions of four distinct problems (training_pool.validation_problems)"
        )
    validation = set(problems[: settings.validation_problems])
    for row in kept:
        row["split"] = "validation" if row["problem_id"] in validation else "train"
    counts.validation_problems, counts.training_problems = len(validation), len(problems) - len(validation)
    counts.validation_records = sum(row["split"] == "validation" for row in kept)
    counts.training_records = len(kept) - counts.validation_records
    rows = Counter({"train": 0, "validation": 0})
    for row in kept:
        rows[row["split"]] += copies[row["record_id"]]
    counts.training_rows, counts.validation_rows = rows["train"], rows["validation"]
