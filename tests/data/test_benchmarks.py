"""From a benchmark's file to its table."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stair.config.datasets import Benchmark
from stair.config.resolve import resolve
from stair.records.rows import BenchmarkProblem
from stair.records.schemas import BENCHMARK
from stair.records.tables import rows_as, write_table
from stair.stages.data.benchmarks import left_out, question, read_benchmark
from stair.stages.data.problem_texts import LETTERS, identity, ordered_choices
from stair.tiny.generated_sets import write_benchmark

ROOT = Path(__file__).parents[2]
ROWS: list[dict[str, Any]] = [
    {"problem": " What is 1 + 1? ", "answer": "2", "id": "a"},
    {"problem": "What is 1 + 2?", "answer": 3, "id": "b"},
    {"problem": "What is 7 / 2?", "answer": 3.5, "id": "c"},
    {"problem": "What is 8 / 2?", "answer": 4.0, "id": "d"},
]


def settings(**changes: Any) -> Benchmark:
    base = {"label": "B", "path": "x.jsonl", "columns": {"id": "id"}}
    return Benchmark.model_validate(base | changes)


def rows_of(tmp_path: Path, raw: list[dict[str, Any]], **changes: Any) -> list[BenchmarkProblem]:
    path = tmp_path / "bench.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in raw))
    return read_benchmark(path, "bench", settings(**changes))


def test_rows_keep_the_files_order_and_become_text(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ROWS)
    assert [(row.source_id, row.problem, row.reference) for row in rows] == [
        ("a", "What is 1 + 1?", "2"),
        ("b", "What is 1 + 2?", "3"),
        ("c", "What is 7 / 2?", "3.5"),
        ("d", "What is 8 / 2?", "4"),
    ]
    assert len({row.problem_id for row in rows}) == 4
    assert write_table(tmp_path / "t.parquet", BENCHMARK, [row._asdict() for row in rows]) == 4
    assert [*rows_as(tmp_path / "t.parquet", BENCHMARK, BenchmarkProblem)] == rows


def test_numbers_stay_what_was_written(tmp_path: Path) -> None:
    exact = 2**63 - 1
    rows = rows_of(tmp_path, [ROWS[0] | {"answer": exact}, ROWS[1] | {"answer": str(10**29 + 1)}])
    assert [row.reference for row in rows] == [str(exact), str(10**29 + 1)]
    path = tmp_path / "single.parquet"
    answers = pa.array([3.1, 27.0], pa.float32())
    pq.write_table(pa.table({"problem": ["What?", "Which?"], "answer": answers}), path)
    rows = read_benchmark(path, "bench", settings(columns={}))
    assert [row.reference for row in rows] == ["3.1", "27"]


def test_without_an_id_column_rows_are_numbered(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ROWS, columns={}, exclude_ids=["1"])
    assert [row.source_id for row in rows] == ["0", "2", "3"]


def test_problems_that_differ_in_case_or_braces_alone_are_two(tmp_path: Path) -> None:
    texts = [r"Find $\frac{1}{23}$.", r"Find $\frac{12}{3}$.", "Find $A$.", "Find $a$."]
    rows = rows_of(tmp_path, [row | {"problem": text} for row, text in zip(ROWS, texts, strict=True)])
    assert [row.problem for row in rows] == texts
    assert len({row.problem_id for row in rows}) == 4
    assert [row.problem_id for row in rows[::2]] == [identity(text) for text in texts[::2]]


def test_problems_are_left_out_by_their_own_ids(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, ROWS, exclude_ids=["b", "d"], rows=4)
    assert [row.source_id for row in rows] == ["a", "c"]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"rows": 5}, "benchmark 'bench' must have 5 rows, found 4"),
        ({}, {"exclude_ids": ["a", "z"]}, "benchmark 'bench' has no problem z to exclude"),
        ({"problem": "  "}, {}, "line 2: the problem is empty"),
        ({"problem": 7}, {}, "line 2: the problem is of type int, where a text is expected"),
        ({"answer": ""}, {}, "line 2: the answer is empty"),
        ({"answer": None}, {}, "line 2: the answer is empty"),
        ({"answer": True}, {}, "line 2: the answer is of type bool, where a text is expected"),
        ({"answer": ["4"]}, {}, "line 2: the answer is of type list, where a text is expected"),
        ({"answer": 10**29 + 1}, {}, "line 2: the answer is no number, or one beyond 2^53"),
        ({"answer": 2.0**54}, {}, "line 2: the answer is no number, or one beyond 2^53"),
        ({"problem": " What is 1 + 1?\n"}, {}, "holds one problem twice: a and b; remove one, or list its id"),
        ({"id": "a"}, {}, "line 2: another row has the id a, too; name a column of ids that differ"),
        ({"id": None}, {}, "line 2: the id is None; columns.id must name a column of ids"),
        ({}, {"exclude_ids": ["z"]}, "(its ids: a, b, c, d)"),
    ],
)
def test_a_fault_names_file_and_row(
    tmp_path: Path, change: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=r"bench\.jsonl") as caught:
        rows_of(tmp_path, [ROWS[0], ROWS[1] | change, *ROWS[2:]], **options)
    assert message in str(caught.value)


def test_ids_that_are_numbers_are_spelt_as_a_person_would(tmp_path: Path) -> None:
    rows = rows_of(tmp_path, [row | {"id": float(number)} for number, row in enumerate(ROWS)], exclude_ids=["1"])
    assert [row.source_id for row in rows] == ["0", "2", "3"]


def test_what_is_left_out_is_known_by_its_question(tmp_path: Path) -> None:
    rows_of(tmp_path, ROWS)
    found = left_out(tmp_path / "bench.jsonl", settings(exclude_ids=["b", "d"]))
    assert found == {"b": "What is 1 + 2?", "d": "What is 8 / 2?"}


def test_a_missing_number_is_no_answer(tmp_path: Path) -> None:
    path = tmp_path / "bench.parquet"
    pq.write_table(pa.table({"problem": ["What is 1 + 1?", "What is 1 + 2?"], "answer": [2.0, float("nan")]}), path)
    with pytest.raises(ValueError, match="row 1: the answer is no number"):
        read_benchmark(path, "bench", settings(columns={}))


CHOICE = {"problem": "Which?", "answer": "gold", "id": "a", "w1": "tin", "w2": "lead", "w3": "zinc"}
CHOICES: dict[str, Any] = {"kind": "choice", "columns": {"id": "id", "wrong_choices": ["w1", "w2", "w3"]}}


def test_a_choice_problem_shows_its_options_and_refers_to_a_letter(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, [CHOICE], **CHOICES)
    assert sorted(row.choices) == ["gold", "lead", "tin", "zinc"]
    assert row.choices[LETTERS.index(row.reference)] == "gold"
    lines = row.problem.splitlines()
    assert lines == ["Which?", *(f"{letter}. {text}" for letter, text in zip("ABCD", row.choices, strict=True))]
    assert question(row) == "Which?"


def test_the_question_of_options_that_look_like_the_list(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, [CHOICE | {"problem": "Which?\nA. p\nB. q", "w1": "one\nA. d\nB. e"}], **CHOICES)
    assert question(row) == "Which?\nA. p\nB. q"


def test_the_order_of_options_is_a_function_of_the_texts_alone(tmp_path: Path) -> None:
    (row,) = rows_of(tmp_path, [CHOICE], **CHOICES)
    others = [
        CHOICE | {"id": "z"},
        CHOICE | {"w1": "zinc", "w3": "tin"},
        {key: CHOICE[key] for key in reversed(CHOICE)},
    ]
    for other in others:
        found = rows_of(tmp_path, [CHOICE | {"problem": "Another?", "id": "first"}, other], **CHOICES)[1]
        assert (found.choices, found.reference, found.problem_id) == (
            row.choices,
            row.reference,
            row.problem_id,
        )
    # Another question has an order of its own, and the right answer stands about equally often at each letter.
    letters = Counter(ordered_choices(f"Question {number}?", "a", ["b", "c", "d"])[1] for number in range(400))
    assert set(letters) == set("ABCD")
    assert min(letters.values()) > 70
    # Which option is right does not move the options.
    assert ordered_choices("Which?", "a", ["b", "c", "d"])[0] == ordered_choices("Which?", "d", ["c", "a", "b"])[0]


def test_numbers_as_options_are_all_written_alike(tmp_path: Path) -> None:
    """Else the right one could be told by its writing."""
    numbers = {"answer": 4.0, "w1": 5.0, "w2": 6, "w3": 7.5}
    (row,) = rows_of(tmp_path, [CHOICE | numbers], **CHOICES)
    assert sorted(row.choices) == ["4", "5", "6", "7.5"]
    assert row.choices[LETTERS.index(row.reference)] == "4"
    with pytest.raises(ValueError, match="of them 0 empty, and 1 that repeat"):
        rows_of(tmp_path, [CHOICE | numbers | {"w1": 4.0}], **CHOICES)
    for value in (["a"], {"k": 1}, True, float("1e30")):
        with pytest.raises(ValueError, match=r"bench\.jsonl, line 1: wrong choice 2 is "):
            rows_of(tmp_path, [CHOICE | {"w2": value}], **CHOICES)


@pytest.mark.parametrize("change", [{"w1": "gold"}, {"w2": "tin"}, {"w3": None}, {"w3": " "}])
def test_options_must_be_four_distinct_texts(tmp_path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"bench\.jsonl, line 1: "):
        rows_of(tmp_path, [CHOICE | change], **CHOICES)


@pytest.mark.parametrize("key", ["math500", "aime2025", "amc23", "gpqa_diamond"])
def test_generated_files_are_read_with_the_papers_settings(tmp_path: Path, key: str) -> None:
    """The generated stand-ins have the real schemas: the paper's columns, kinds and exclusions fit them."""
    paper = resolve(ROOT, {"run": "paper"}).benchmarks[key]
    assert paper.file is not None
    path = tmp_path / f"bench{Path(paper.file).suffix}"
    write_benchmark(path, key, 40)
    rows = read_benchmark(path, key, paper.model_copy(update={"rows": 40}))
    assert len(rows) == 40 - len(paper.exclude_ids)
    assert {row.kind for row in rows} == {paper.kind}
    assert not {row.source_id for row in rows} & set(paper.exclude_ids)
    assert all((row.choices is not None) == (paper.kind == "choice") for row in rows)
    if paper.kind == "integer":
        assert all(row.reference.lstrip("-").isdigit() for row in rows)


@pytest.mark.parametrize(("key", "rows"), [("math500", 500), ("aime2025", 30), ("amc23", 40), ("gpqa_diamond", 198)])
def test_the_papers_benchmarks_must_have_their_rows_and_columns(tmp_path: Path, key: str, rows: int) -> None:
    paper = resolve(ROOT, {"run": "paper"}).benchmarks[key]
    assert paper.file is not None
    path = tmp_path / f"bench{Path(paper.file).suffix}"
    write_benchmark(path, key, 12)
    with pytest.raises(ValueError, match=f"benchmark '{key}' must have {rows} rows, found 12"):
        read_benchmark(path, key, paper)
    wanted = paper.columns.model_copy(update={"answer": "solution_text"})
    with pytest.raises(ValueError, match="has no column 'solution_text'"):
        read_benchmark(path, key, paper.model_copy(update={"columns": wanted}))


def test_the_texts_of_options_stand_in_no_error(tmp_path: Path) -> None:
    """An error ends in a log, and GPQA's text may not be published."""
    with pytest.raises(ValueError, match="expected 4 distinct options, found 4, of them 0 empty, and 1") as caught:
        rows_of(tmp_path, [CHOICE | {"w1": "gold"}], **CHOICES)
    assert "gold" not in str(caught.value)


def test_a_subset_is_a_function_of_texts_and_its_name(tmp_path: Path) -> None:
    subset = {"subset": {"problems": 2, "seed": "s"}}
    chosen = rows_of(tmp_path, ROWS, **subset)
    assert len(chosen) == 2
    again = rows_of(tmp_path, list(reversed(ROWS)), **subset)
    assert {row.problem_id for row in again} == {row.problem_id for row in chosen}
    drawn = {
        frozenset(row.source_id for row in rows_of(tmp_path, ROWS, subset=dict(problems=2, seed=s))) for s in "abcdef"
    }
    assert len(drawn) > 1


def test_a_subset_larger_than_the_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"4 problems remain, fewer than benchmarks.bench.subset.problems \(5\)"):
        rows_of(tmp_path, ROWS, subset={"problems": 5})
