"""The data report: its counts, what training and evaluation have in common, and that it quotes no text."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.records.rows import BenchmarkProblem
from stair.records.schemas import BENCHMARK
from stair.records.tables import rows_as
from stair.stages.data import stage
from stair.stages.data.cleaning_steps import training_records
from stair.stages.data.reading import read_columns
from stair.stages.data.report import write_report
from stair.stages.data.training_pool import wanted_columns
from stair.tiny.stage import write_raw
from tests.sealed import seal

ROOT = Path(__file__).parents[2]
SECRET = "Which of the zirconium quokkas hums in F sharp minor at low tide?"
NEARLY = SECRET.replace("low tide", "high tide")
PART = "f sharp minor at low tide?"
OPTIONS = ["the ochre quokka", "the azure quokka", "the umber quokka", "the mauve quokka"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Config, RunPaths]:
    """The tiny run's data stage, with a multiple-choice question whose text is known, which the pool holds twice."""
    place = tmp_path_factory.mktemp("data")
    choice = place / "choice.csv"
    with open(choice, "w", newline="") as handle:
        writer = csv.writer(handle)
        writer.writerow(["Record ID", "Question", "Correct Answer", *(f"Incorrect Answer {n}" for n in (1, 2, 3))])
        writer.writerow(["rec1", SECRET, *OPTIONS])
        writer.writerows([f"rec{n}", f"Which letter comes {n} after A?", *"pqrs"] for n in range(2, 6))
    tiny = resolve(ROOT, {"run": "tiny", "results": str(place)})
    paths = RunPaths.of(tiny)
    write_raw(tiny, paths, "training_pool")
    # The nearly same question has the most records, one of them with an option for its answer.
    rows = [
        (SECRET.upper(), "2"),
        (SECRET.upper(), "2"),
        (f"{SECRET} ", "2"),
        *((NEARLY, answer) for answer in ("2", "3", "4", OPTIONS[1])),
        *((PART, answer) for answer in ("2", "3", "4")),
    ]
    pool = place / "pool.jsonl"
    generated = read_columns(paths.dataset_file(tiny, "training_pool"), wanted_columns(tiny.training_pool))
    pairs = [*zip(generated["problem"], generated["answer"], strict=True), *rows]
    pool.write_text("".join(json.dumps({"problem": text, "answer": answer}) + "\n" for text, answer in pairs))
    config = resolve(
        ROOT,
        {
            "run": "tiny",
            "results": str(place),
            "benchmarks": {"gpqa_diamond": {"tiny": None, "path": str(choice)}},
            "training_pool": {
                "tiny": None, "path": str(pool), "columns": {"problem": "problem", "answer": "answer"},
            },
        },
    )  # fmt: skip
    for key in config.benchmarks:
        if config.benchmarks[key].tiny is not None:
            write_raw(config, paths, key)
        seal(paths, "benchmark", paths.benchmark(key), **stage.benchmark(config, paths, key))
    for model in config.models:
        stage.training_pool(config, paths, model)
    write_report(config, paths)
    return config, paths


def steps(paths: RunPaths, model: str) -> dict[str, dict[str, str]]:
    with open(paths.data_counts, newline="") as handle:
        return {row["step"]: row for row in csv.DictReader(handle) if row["model"] == model}


def test_the_steps_add_up(run: tuple[Config, RunPaths]) -> None:
    for model in run[0].models:
        by = steps(run[1], model)
        rows, records = int(by["read"]["rows"]), int(by["source records"]["records"])
        assert rows - int(by["exact duplicates removed"]["rows"]) == records
        for counted in ("rows", "records", "problems"):
            of = {
                step: int(by[step][counted])
                for step in ("source records", "excluded in all", "left", "training", "validation")
            }
            assert of["source records"] - of["excluded in all"] == of["left"] == of["training"] + of["validation"]
        left = records - int(by["excluded in all"]["records"])
        assert left == int(by["left"]["records"]) == int(by["training"]["records"]) + int(by["validation"]["records"])
        assert int(by["excluded: gpqa_diamond"]["problems"]) == 1
        assert int(by["excluded: gpqa_diamond"]["records"]) == 2
        assert int(by["validation"]["problems"]) == run[0].training_pool.validation_problems
        assert by["training"]["paper"].startswith("14,806 problems; 1")
    assert "excluded: amc23" in steps(run[1], "qwen3.5-9b")
    assert "excluded: amc23" not in steps(run[1], "qwen3.5-4b")


def test_the_report_names_what_was_removed_what_stays_and_what_is_near(run: tuple[Config, RunPaths]) -> None:
    found = json.loads(run[1].data_report(".json").read_text())
    overlaps = {(row["model"], row["benchmark"]): row for row in found["overlaps"]}
    assert len(overlaps) == len(found["overlaps"]) == len(run[0].models) * len(run[0].benchmarks)
    for model in run[0].models:
        removed = [row for row in found["removed"][model] if row["benchmark"] == "gpqa_diamond"]
        assert [row["source_id"] for row in removed] == ["rec1", "rec1"]
        assert overlaps[model, "gpqa_diamond"]["removed_records"] == 2
        # The six AMC23 problems in the pool are out of the benchmark, so nothing that is asked stays in a pool.
        assert all(overlaps[model, benchmark]["asked_in_pool"] == [] for benchmark in run[0].benchmarks)
        # What the paper says of AMC23 holds of its stand-in.
        amc23, ids = overlaps[model, "amc23"], list(run[0].benchmarks["amc23"].exclude_ids)
        assert amc23["left_out"] == amc23["left_out_in_pool"] == ids
        line = f"| {model} | amc23 | {amc23['removed_records']} | 0 | {len(ids)}: {', '.join(ids)} | "
        assert line in run[1].data_report(".md").read_text()
    near = run[1].near_duplicates.read_text()
    assert ",gpqa_diamond,rec1,0." in near


def test_the_report_quotes_no_text(run: tuple[Config, RunPaths]) -> None:
    published = [run[1].data_report(".md"), run[1].data_report(".json"), run[1].data_counts, run[1].near_duplicates]
    published += [run[1].cleaning(model) for model in run[0].models]
    for path in published:
        text = path.read_text().lower()
        for secret in ("quokka", "f sharp minor", "what is", *OPTIONS):
            assert secret not in text, (path, secret)
    # The tables that the run itself works with do hold it, so that looking for it can fail.
    assert "quokka" in str([*rows_as(run[1].benchmark("gpqa_diamond"), BENCHMARK, BenchmarkProblem)])


def test_the_papers_update_counts_imply_how_many_records_there_were() -> None:
    assert training_records("qwen3-4b-instruct") == "14,806 to 14,808"
    assert training_records("qwen3.5-4b") == "15,521 to 15,528"
    assert training_records("qwen3.5-9b") == "15,513 to 15,520"
    assert training_records("another") is None


def test_the_report_has_the_runs_note(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    assert config.note and f"\n\n{config.note}\n\n" in paths.data_report(".md").read_text()
