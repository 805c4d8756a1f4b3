"""From the training data set to a model's problems (appendix B.4)."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stair.config.datasets import TrainingPool
from stair.config.resolve import resolve
from stair.records.rows import SourceRecord
from stair.records.schemas import TRAINING_POOL
from stair.records.tables import rows_as, write_table
from stair.stages.data.training_pool import PoolCounts, clean_pool
from stair.tiny.generated_sets import benchmark_problems, write_training_pool

ROOT = Path(__file__).parents[2]
Records = list[SourceRecord]


def settings(**changes: Any) -> TrainingPool:
    base = {"name": "pool", "path": "x", "validation_problems": 3, "strip_prefixes": ["Solve: "]}
    return TrainingPool.model_validate(base | changes)


def pool(
    tmp_path: Path, raw: list[tuple[str, str]], excluded: dict[str, list[str]] | None = None, **changes: Any
) -> tuple[Records, PoolCounts]:
    path = tmp_path / "pool.jsonl"
    path.write_text("".join(json.dumps({"problem": problem, "answer": answer}) + "\n" for problem, answer in raw))
    asked = {key: {text: f"{key}-{n}" for n, text in enumerate(texts)} for key, texts in (excluded or {}).items()}
    cleaned = clean_pool(path, settings(**changes), asked)
    return cleaned.records, cleaned.counts


RAW = [(f"Solve: What is {number} + 1?", f"{number + 1} ") for number in range(20)]


def test_exact_duplicates_go_and_spellings_stay_as_records_of_one_problem(tmp_path: Path) -> None:
    raw = [*RAW, *RAW[:5], ("Solve: What  is $0 + 1$?", "1"), (RAW[1][0], "3")]
    rows, counts = pool(tmp_path, raw)
    assert (counts.rows, counts.records, counts.problems) == (27, 22, 20)
    assert len(rows) == len({row.record_id for row in rows}) == 22
    by_problem = Counter(row.problem_id for row in rows)
    assert sorted(by_problem.values()) == [1] * 18 + [2] * 2
    assert all(not row.problem.startswith("Solve: ") for row in rows)
    assert {row.reference for row in rows if row.problem == "What is 1 + 1?"} == {"2", "3"}
    assert "1" in {row.reference for row in rows}, "answers are stripped"


def test_a_benchmarks_problems_are_excluded_by_normalised_text(tmp_path: Path) -> None:
    excluded = {"one": ["what is $3+1$ ?", "never seen"], "two": ["What is 3 + 1?", "What is 4 + 1?"], "none": []}
    rows, counts = pool(tmp_path, [*RAW, ("Solve: What is 3 +  1?", "4")], excluded)
    assert (counts.excluded_problems, counts.excluded_records) == (2, 3)
    assert counts.excluded_by == {"one": 1, "two": 2, "none": 0}
    assert len(rows) == 18
    assert not {"What is 3 + 1?", "What is 3 +  1?", "What is 4 + 1?"} & {row.problem for row in rows}


def test_the_validation_split_goes_by_problem_and_not_by_row(tmp_path: Path) -> None:
    raw = [*RAW, *((text.replace(" + ", "  +  "), answer) for text, answer in RAW)]
    rows, counts = pool(tmp_path, raw, validation_problems=5)
    split: dict[str, set[str]] = {}
    for row in rows:
        split.setdefault(row.problem_id, set()).add(row.split)
    assert all(len(parts) == 1 for parts in split.values()), "one problem stands in both parts"
    assert Counter(part for parts in split.values() for part in parts) == {"train": 15, "validation": 5}
    assert (counts.validation_problems, counts.training_problems) == (5, 15)
    assert (counts.validation_records, counts.training_records) == (10, 30)


def test_the_pool_does_not_depend_on_the_order_of_the_file(tmp_path: Path) -> None:
    rows, counts = pool(tmp_path, RAW)
    shuffled = RAW * 2
    random.Random(0).shuffle(shuffled)
    again, counts_again = pool(tmp_path, shuffled)
    assert again == rows
    assert counts_again.records == counts.records
    other, _ = pool(tmp_path, RAW, seed="another")
    assert [row.record_id for row in other] == [row.record_id for row in rows]
    assert [row.split for row in other] != [row.split for row in rows]


def test_more_validation_problems_keep_the_earlier_ones(tmp_path: Path) -> None:
    few, more = (
        {row.problem_id for row in pool(tmp_path, RAW, validation_problems=n)[0] if row.split == "validation"}
        for n in (3, 6)
    )
    assert few < more


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        ([*RAW, ("  ", "1")], "line 21: the problem is empty (training_pool.columns.problem)"),
        ([*RAW, (None, "1")], "line 21: the problem is empty"),
        ([*RAW, (["Solve: What?"], "7")], "line 21: the problem is of type list, where a text is expected"),
        ([*RAW, ("Solve: What?", True)], "line 21: the answer is of type bool"),
        ([*RAW, ("Solve: What?", "")], "line 21: the answer is empty"),
        ([*RAW, ("Solve: ", "7")], "a prompt is nothing but the fixed opening and ending"),
        (RAW[:6], "6 problems remain, too few for 3 validation problems"),
    ],
)
def test_a_fault_names_the_file(tmp_path: Path, raw: list[tuple[Any, Any]], message: str) -> None:
    with pytest.raises(ValueError, match=r"pool\.jsonl") as caught:
        pool(tmp_path, raw)
    assert message in str(caught.value)
    assert "What" not in str(caught.value), "the text of a problem belongs in no log"


def test_answers_that_are_numbers_are_spelt_as_a_person_would(tmp_path: Path) -> None:
    rows, _ = pool(tmp_path, [*RAW, ("Solve: What is 90 + 1?", 91), ("Solve: What is 91 + 1?", 92.0)])
    assert {"91", "92"} <= {row.reference for row in rows}


def test_the_real_schema_through_the_real_settings(tmp_path: Path) -> None:
    """A file in DAPO-Math-17k's schema, read with the paper's own columns, prefixes and suffixes."""
    paper = resolve(ROOT, {"run": "paper"}).training_pool
    path = tmp_path / "dapo.parquet"
    write_training_pool(path, 40, {"math500": 12, "gpqa_diamond": 8})
    held = [problem.text for problem in benchmark_problems("math500", 12)]
    cleaned = clean_pool(path, paper.model_copy(update={"validation_problems": 6}), {"math500": {t: t for t in held}})
    rows, counts = cleaned.records, cleaned.counts
    # Every row stands three times; every eighth problem has a second spelling; four problems are the benchmark's.
    assert counts.problems == 44
    assert counts.records == 44 + 6
    assert counts.rows == 3 * counts.records
    assert counts.excluded_by == {"math500": 4}
    assert counts.training_problems + counts.validation_problems == 40
    for row in rows:
        assert "Solve the following" not in row.problem
        assert "Remember to put" not in row.problem
        assert row.problem not in held
    assert write_table(tmp_path / "t.parquet", TRAINING_POOL, [row._asdict() for row in rows]) == len(rows)
    assert [*rows_as(tmp_path / "t.parquet", TRAINING_POOL, SourceRecord)] == rows


def test_memory_does_not_grow_with_repeated_rows(tmp_path: Path) -> None:
    """As in DAPO-Math-17k, most rows are copies: ten times as many of them need no more memory."""

    def peak(copies: int) -> int:
        path = tmp_path / f"{copies}.parquet"
        rows = [{"problem": f"What is {n} + 1? {'Think about it. ' * 40}", "answer": str(n + 1)} for n in range(400)]
        with pq.ParquetWriter(path, pa.Table.from_pylist(rows).schema) as writer:
            for _ in range(copies):
                writer.write_table(pa.Table.from_pylist(rows))
        tracemalloc.start()
        cleaned = clean_pool(path, settings(), {})
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert (cleaned.counts.rows, cleaned.counts.records) == (400 * copies, 400)
        assert (cleaned.counts.fewest_copies, cleaned.counts.most_copies) == (copies, copies)
        return most

    once = peak(84)  # two batches, as one is read while the other is counted
    assert peak(250) < 1.3 * once


def test_rows_without_the_fixed_texts_are_counted_and_kept(tmp_path: Path) -> None:
    rows, counts = pool(tmp_path, [*RAW, ("What is 90 + 1?", "91"), ("What is 90 + 1?", "91")])
    assert counts.rows_without_fixed_texts == 2
    assert "What is 90 + 1?" in {row.problem for row in rows}
    cleaned = clean_pool(tmp_path / "pool.jsonl", settings(), {})
    assert [row.problem for row in cleaned.records if row.record_id in cleaned.unwrapped] == ["What is 90 + 1?"]


def test_rows_are_counted_with_all_copies_of_their_records(tmp_path: Path) -> None:
    excluded = {"one": ["What is 3 + 1?"], "two": ["What is 3 + 1?", "What is 4 + 1?"]}
    _, counts = pool(tmp_path, [*RAW, *RAW[:4], *RAW[:4]], excluded)
    assert (counts.rows, counts.excluded_rows, counts.excluded_rows_by) == (28, 4, {"one": 3, "two": 4})
    assert counts.training_rows + counts.validation_rows == 24
