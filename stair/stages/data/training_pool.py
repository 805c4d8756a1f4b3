"""From the training data set to a model's training problems (appendix B.4)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from stair.config.datasets import TrainingPool
from stair.core import TURNS
from stair.records.rows import SourceRecord
from stair.records.seeds import hash_order
from stair.stages.data.problem_texts import identity, record_identity, strip_fixed
from stair.stages.data.reading import as_text, in_subset, instead_of_text, place_of, stream_columns

_EXAMPLES = 3


@dataclass(frozen=True)
class Removed:
    """An excluded source record, and the problem of a benchmark that it repeats."""

    record_id: str
    problem_id: str
    benchmark: str
    source_id: str
    """The benchmark's own name for the problem."""


@dataclass
class PoolCounts:
    """The counts of each step of the cleaning."""

    rows: int = 0
    rows_without_fixed_texts: int = 0
    """Rows whose prompt lacks the data set's fixed opening or ending; they are kept unchanged."""
    exact_duplicates: int = 0
    """Rows that repeat the prompt and answer of an earlier row."""
    records: int = 0
    """Source records: distinct (prompt text, answer)."""
    problems: int = 0
    problems_with_many_records: int = 0
    problems_with_many_answers: int = 0
    """Problems whose records spell the answer differently; they are kept."""
    fewest_copies: int = 0
    """Rows of the source record with the fewest."""
    most_copies: int = 0
    excluded_problems: int = 0
    excluded_records: int = 0
    excluded_rows: int = 0
    """Rows of the file with an excluded source record; the counts of rows below are rows of the file too."""
    excluded_by: dict[str, int] = field(default_factory=dict)
    """Excluded problems by benchmark; several benchmarks can contain one problem."""
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

    records: list[SourceRecord]
    removed: list[Removed]
    counts: PoolCounts
    unwrapped: list[str]
    """Records whose prompt lacks the data set's fixed opening or ending: the first few, as examples."""


def wanted_columns(settings: TrainingPool) -> dict[str, str]:
    """The columns that the training data set's file must have."""
    return {"problem": settings.columns.problem, "answer": settings.columns.answer}


def clean_pool(
    path: Path,
    settings: TrainingPool,
    excluded: Mapping[str, Mapping[str, str]],
    progress: Callable[[int], None] = lambda rows: None,
) -> Pool:
    """Reads the training data set, removes exact duplicates and the problems of benchmarks, and splits the rest.

    Args:
        path: the data set's file. It is read in batches, so that memory grows with its distinct rows only.
        excluded: for each benchmark to exclude, the benchmark's own ids by question.
        progress: called with the number of rows read.

    Raises:
        ValueError: a row without a text or an answer, or too few problems for the validation split.
    """
    counts = PoolCounts()
    distinct = _distinct(path, settings, counts, progress)
    records = [_record(text, answer, settings, path) for text, answer in distinct]
    copies = {record.record_id: count for record, count in zip(records, distinct.values(), strict=True)}
    of_problem: dict[str, list[SourceRecord]] = defaultdict(list)
    for record in records:
        of_problem[record.problem_id].append(record)
    counts.records, counts.problems = len(records), len(of_problem)
    counts.exact_duplicates = counts.rows - counts.records
    counts.fewest_copies, counts.most_copies = min(distinct.values(), default=0), max(distinct.values(), default=0)
    counts.problems_with_many_records = sum(len(some) > 1 for some in of_problem.values())
    counts.problems_with_many_answers = sum(len({one.reference for one in some}) > 1 for some in of_problem.values())

    removed: list[Removed] = []
    for benchmark, questions in excluded.items():
        source_of = {identity(question): source for question, source in questions.items()}
        repeated = [problem for problem in of_problem if problem in source_of]
        repeats = [
            Removed(record.record_id, problem, benchmark, source_of[problem])
            for problem in repeated
            for record in of_problem[problem]
        ]
        counts.excluded_by[benchmark], counts.excluded_records_by[benchmark] = len(repeated), len(repeats)
        counts.excluded_rows_by[benchmark] = sum(copies[one.record_id] for one in repeats)
        removed += repeats
    excluded_problems = {one.problem_id for one in removed}
    kept = [record for record in records if record.problem_id not in excluded_problems]
    counts.excluded_problems, counts.excluded_records = len(excluded_problems), len(records) - len(kept)
    counts.excluded_rows = counts.rows - sum(copies[record.record_id] for record in kept)
    if settings.subset is not None:
        chosen = set(in_subset({record.problem_id for record in kept}, settings.subset, path, "training_pool"))
        kept = [record for record in kept if record.problem_id in chosen]
    kept = sorted(_split(kept, copies, settings, path, counts), key=lambda record: record.record_id)
    removed.sort(key=lambda one: (one.benchmark, one.source_id, one.record_id))
    kept_ids = {record.record_id for record in kept}
    unwrapped = (record_identity(*pair) for pair in distinct if not _has_fixed_texts(pair[0], settings))
    return Pool(kept, removed, counts, sorted(kept_ids.intersection(unwrapped))[:_EXAMPLES])


def _distinct(
    path: Path, settings: TrainingPool, counts: PoolCounts, progress: Callable[[int], None]
) -> Counter[tuple[str, str]]:
    """Each distinct (prompt text, answer) with its number of rows."""
    distinct: Counter[tuple[str, str]] = Counter()
    for batch in stream_columns(path, wanted_columns(settings)):
        texts, answers = batch["problem"], [as_text(answer) for answer in batch["answer"]]
        for column, values in (("problem", texts), ("answer", answers)):
            for number, value in enumerate(values, counts.rows):
                if not isinstance(value, str) or not value.strip():
                    raise ValueError(
                        f"{place_of(path, number)}: the {column} is {instead_of_text(value)} (training_pool.columns.{column})"
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


def _record(text: str, answer: str, settings: TrainingPool, path: Path) -> SourceRecord:
    """A source record, in the training split until `_split`."""
    problem = strip_fixed(text, settings.strip_prefixes, settings.strip_suffixes)
    if not problem:
        raise ValueError(
            f"{path}: a prompt is nothing but the fixed opening and ending (training_pool.strip_prefixes, strip_suffixes)"
        )
    return SourceRecord(
        record_id=record_identity(text, answer),
        problem_id=identity(problem),
        problem=problem,
        reference=answer.strip(),
        split="train",
    )


def _split(
    records: list[SourceRecord], copies: Mapping[str, int], settings: TrainingPool, path: Path, counts: PoolCounts
) -> list[SourceRecord]:
    """Moves the validation problems, the first by hash, with all their records."""
    problems = hash_order({record.problem_id for record in records}, settings.seed)
    if len(problems) < settings.validation_problems + TURNS:
        raise ValueError(
            f"{path}: {len(problems)} problems remain, too few for {settings.validation_problems} validation problems and "
            "sessions of four distinct problems (training_pool.validation_problems)"
        )
    validation = set(problems[: settings.validation_problems])
    split = [record._replace(split="validation") if record.problem_id in validation else record for record in records]
    counts.validation_problems, counts.training_problems = len(validation), len(problems) - len(validation)
    counts.validation_records = sum(record.split == "validation" for record in split)
    counts.training_records = len(split) - counts.validation_records
    rows = Counter({"train": 0, "validation": 0})
    for record in split:
        rows[record.split] += copies[record.record_id]
    counts.training_rows, counts.validation_rows = rows["train"], rows["validation"]
    return split
