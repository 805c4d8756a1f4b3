"""Generated data sets as raw files in the schemas of the real ones, for the real loaders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stair.records.text_tables import csv_table
from stair.tiny.problems import GeneratedProblem, distinct, seeded

DAPO_PREFIX = (
    "Solve the following math problem step by step. The last line of your response should be of the form Answer: $Answer "
    "(without quotes) where $Answer is the answer to the problem.\n\n"
)
DAPO_SUFFIX = '\n\nRemember to put your answer on its own line after "Answer:".'

AMC23_IN_TRAINING = (3, 15, 16, 19, 30, 32)
"""Rows of the AMC23 stand-in that the training pool contains too, as in the paper."""

_COPIES = 3
_OVERLAP = 4
"""Problems of each other benchmark that the raw training pool repeats; exclusion must remove them."""

_VARIANTS = 8
"""One problem of this many is in the pool in a second spelling, as its own source record."""


def benchmark_problems(key: str, count: int) -> list[GeneratedProblem]:
    """A benchmark's problems, in the order of its file."""
    return distinct(key, "benchmark", count)


def training_problems(count: int, benchmarks: dict[str, int]) -> list[GeneratedProblem]:
    """The training pool's problems: new ones, and some of the benchmarks'."""
    of_benchmark = {key: benchmark_problems(key, size) for key, size in benchmarks.items() if key != "gpqa_diamond"}
    overlap: dict[str, GeneratedProblem] = {}
    for key, problems in of_benchmark.items():
        rows = AMC23_IN_TRAINING if key == "amc23" and len(problems) > max(AMC23_IN_TRAINING) else range(_OVERLAP)
        overlap |= {problems[row].text: problems[row] for row in rows}
    known = {problem.text for problems in of_benchmark.values() for problem in problems}
    new = distinct("training_pool", "pool", count, avoid=known)
    return [*new, *overlap.values()]


def write_training_pool(path: Path, count: int, benchmarks: dict[str, int]) -> None:
    """Writes a Parquet file in DAPO-Math-17k's schema: every row repeated, some problems spelt in two ways.

    Args:
        path: the file.
        count: the number of new problems.
        benchmarks: the sizes of the benchmarks, some of whose problems the pool repeats.
    """
    rows = []
    for number, problem in enumerate(training_problems(count, benchmarks)):
        for spelling, text in enumerate(_spellings(problem.text, number)):
            rows += [_dapo_row(text, problem, f"{number}-{spelling}")] * _COPIES
    seeded("training pool order").shuffle(rows)
    schema = pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
            ("extra_info", pa.struct([("index", pa.string())])),
        ]
    )
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)


def _spellings(text: str, number: int) -> list[str]:
    """A problem's text, and for one in `_VARIANTS` a second one that differs in case, white space and LaTeX spacing."""
    if number % _VARIANTS:
        return [text]
    return [text, text[0].lower() + text[1:].replace(" ", "  ", 1).replace(" + ", " +\\, ").replace("?", " ?")]


def _dapo_row(text: str, problem: GeneratedProblem, index: str) -> dict[str, Any]:
    return {
        "data_source": "math_dapo",
        "prompt": [{"content": f"{DAPO_PREFIX}{text}{DAPO_SUFFIX}", "role": "user"}],
        "ability": "MATH",
        "reward_model": {"ground_truth": problem.answer, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index},
    }


def write_benchmark(path: Path, key: str, count: int) -> None:
    """Writes a benchmark's file in the schema of the real one."""
    problems = benchmark_problems(key, count)
    if key == "math500":
        _write_jsonl(
            path,
            [
                dict(
                    problem=problem.text,
                    solution=problem.solution,
                    answer=problem.answer,
                    subject=problem.subject,
                    level=1 + number % 5,
                    unique_id=f"test/{problem.family}/{number}.json",
                )
                for number, problem in enumerate(problems)
            ],
        )
    elif key == "aime2025":
        _write_jsonl(
            path, [dict(id=str(n), problem=problem.text, answer=problem.answer) for n, problem in enumerate(problems)]
        )
    elif key == "amc23":
        rows = [
            dict(id=number, question=problem.text, answer=float(problem.answer), url="")
            for number, problem in enumerate(problems)
        ]
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        _write_gpqa(path, problems)


def _write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def _write_gpqa(path: Path, problems: list[GeneratedProblem]) -> None:
    names = ["Record ID", "Question", "Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3))]
    rows = [
        (f"rec{number:04d}", problem.text, problem.answer, *problem.incorrect)
        for number, problem in enumerate(problems)
    ]
    path.write_text(csv_table(names, rows), encoding="utf-8")
