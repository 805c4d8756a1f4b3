"""Generated files: the schemas of the real data sets, and what cleaning must remove."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stair.config.resolve import resolve
from stair.stages.data.benchmarks import question, read_benchmark
from stair.stages.data.problem_texts import identity
from stair.stages.data.training_pool import clean_pool
from stair.tiny.generated_sets import (
    AMC23_IN_TRAINING,
    DAPO_PREFIX,
    DAPO_SUFFIX,
    benchmark_problems,
    write_benchmark,
    write_training_pool,
)

ROOT = Path(__file__).parents[2]
SIZES = {"math500": 64, "aime2025": 30, "amc23": 40, "gpqa_diamond": 48}
COUNT = 40


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("pool") / "pool.parquet"
    write_training_pool(path, COUNT, SIZES)
    return path


def test_the_pool_has_the_schema_of_dapo_math(pool: Path) -> None:
    message = pa.struct([("content", pa.string()), ("role", pa.string())])
    assert pq.read_schema(pool).remove_metadata() == pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(message)),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
            ("extra_info", pa.struct([("index", pa.string())])),
        ]
    )
    for row in pq.read_table(pool).to_pylist():
        (prompt,) = row["prompt"]
        assert prompt["role"] == "user"
        assert prompt["content"].startswith(DAPO_PREFIX)
        assert prompt["content"].endswith(DAPO_SUFFIX)


def test_cleaning_finds_second_spellings_and_removes_what_benchmarks_hold(pool: Path) -> None:
    settings = resolve(ROOT, {"run": "paper"}).training_pool.model_copy(update={"validation_problems": 2})
    excluded = {
        key: {problem.text: problem.text for problem in benchmark_problems(key, SIZES[key])}
        for key in settings.exclude_benchmarks
    }
    made = clean_pool(pool, settings, excluded)
    counts = made.counts
    assert counts.rows == 3 * counts.records
    assert counts.records > counts.problems  # some problems in two spellings
    assert counts.excluded_by["math500"] == counts.excluded_by["aime2025"] == 4
    assert counts.problems == COUNT + 8 + len(AMC23_IN_TRAINING)
    kept = {record.problem_id for record in made.records}
    amc = [identity(problem.text) for problem in benchmark_problems("amc23", SIZES["amc23"])]
    assert [row for row, problem in enumerate(amc) if problem in kept] == list(AMC23_IN_TRAINING)


@pytest.mark.parametrize("key", SIZES)
def test_benchmark_files_are_the_same_each_time_and_hold_the_problems(tmp_path: Path, key: str) -> None:
    settings = resolve(ROOT, {"run": "paper"}).benchmarks[key]
    assert settings.file is not None
    first, second = (tmp_path / f"{name}{Path(settings.file).suffix}" for name in ("first", "second"))
    write_benchmark(first, key, SIZES[key])
    write_benchmark(second, key, SIZES[key])
    assert first.read_bytes() == second.read_bytes()
    rows = read_benchmark(first, key, settings.model_copy(update={"rows": SIZES[key], "exclude_ids": ()}))
    problems = benchmark_problems(key, SIZES[key])
    assert [question(row) for row in rows] == [problem.text for problem in problems]
    for row, problem in zip(rows, problems, strict=True):
        reference = row.choices["ABCD".index(row.reference)] if row.choices else row.reference
        assert reference == problem.answer
