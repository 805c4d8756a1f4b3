"""From the training data set to a model's training problems (appendix C.4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stair.config.model import TrainingPool
from stair.data.normalisation import identity, record_identity, strip_fixed
from stair.data.reading import read_columns
from stair.records.seeds import hash_order


@dataclass
class PoolCounts:
    """What the cleaning removed, step by step."""

    rows: int = 0
    records: int = 0
    """Distinct (prompt text, answer) after exact duplicates."""
    problems: int = 0
    """Distinct normalised texts."""
    excluded_problems: int = 0
    excluded_records: int = 0
    excluded_by: dict[str, int] = field(default_factory=dict)
    """Excluded problems by benchmark; one problem can stand in several."""
    training_problems: int = 0
    training_records: int = 0
    validation_problems: int = 0
    validation_records: int = 0


def wanted_columns(settings: TrainingPool) -> dict[str, str]:
    """The columns that the training data set's file must have."""
    return {"problem": settings.columns.problem, "answer": settings.columns.answer}


def pool_rows(
    path: Path, settings: TrainingPool, excluded: Mapping[str, Iterable[str]]
) -> tuple[list[dict[str, Any]], PoolCounts]:
    """The rows of a training pool (`records.schemas.TRAINING_POOL`) and what was removed on the way.

    Args:
        path: the data set's file.
        settings: how to read and clean it.
        excluded: for each benchmark to exclude, the questions in it.

    Raises:
        ValueError: a row without a text, or too few problems for the validation split.
    """
    data = read_columns(path, wanted_columns(settings))
    counts = PoolCounts(rows=len(data["problem"]))
    distinct = dict.fromkeys(zip(data["problem"], data["answer"], strict=True))
    records: list[dict[str, Any]] = []
    for text, answer in distinct:
        if not isinstance(text, str) or not isinstance(answer, str) or not text.strip():
            raise ValueError(f"{path}: a row has no text or no answer: problem {text!r}, answer {answer!r}")
        problem = strip_fixed(text, settings.strip_prefixes, settings.strip_suffixes)
        records.append(
            dict(
                record_id=record_identity(text, answer),
                problem_id=identity(problem),
                problem=problem,
                reference=answer.strip(),
            )
        )
    counts.records, counts.problems = len(records), len({row["problem_id"] for row in records})
    out: set[str] = set()
    for benchmark, questions in excluded.items():
        hit = {identity(text) for text in questions} & {row["problem_id"] for row in records}
        counts.excluded_by[benchmark] = len(hit)
        out |= hit
    kept = [row for row in records if row["problem_id"] not in out]
    counts.excluded_problems, counts.excluded_records = len(out), len(records) - len(kept)
    problems = hash_order({row["problem_id"] for row in kept}, settings.seed)
    if len(problems) < settings.validation_problems + 4:
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
    return sorted(kept, key=lambda row: row["record_id"]), counts
