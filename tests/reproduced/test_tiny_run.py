"""What a finished tiny run must show. `make reproduce` comes first; then `make test-reproduced`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.paper.exhibits import exhibits
from stair.pipeline.archive import export
from stair.records.keys import ids_digest
from stair.sessions.renderer import Exchange, Renderer
from tests.paper.compiling import compiled, needs_latex
from tests.reproduced.withheld import assert_withheld

pytestmark = pytest.mark.reproduced
FOLDER = Path(__file__).parents[2] / "results" / "tiny"


@pytest.fixture(scope="module")
def run() -> tuple[Config, RunPaths]:
    assert (FOLDER / "checks.csv").is_file(), "the tiny run has not ended: run `make reproduce` first"
    return load_run(FOLDER), RunPaths(FOLDER)


def rows(path: Path) -> pd.DataFrame:
    return pq.read_table(path).to_pandas()


def cells(run: tuple[Config, RunPaths]) -> Iterator[tuple[str, str]]:
    yield from ((model, benchmark) for model in run[0].models for benchmark in run[0].benchmarks)


def test_the_run_is_the_papers_grid(run: tuple[Config, RunPaths]) -> None:
    config = run[0]
    assert list(config.models) == ["qwen3-4b-instruct", "qwen3.5-4b", "qwen3.5-9b"]
    assert list(config.benchmarks) == ["math500", "aime2025", "amc23", "gpqa_diamond"]
    folders = [run[1].model_folder(config, model) for model in config.models]
    kinds = [json.loads((folder / "config.json").read_text())["model_type"] for folder in folders]
    assert kinds == ["qwen3", "qwen3_5_text", "qwen3_5_text"]
    assert len(rows(run[1].benchmark("math500"))) >= 64
    assert len(rows(run[1].benchmark("amc23"))) == 34


def test_accuracies_lie_between_chance_and_perfect(run: tuple[Config, RunPaths]) -> None:
    for model, benchmark in cells(run):
        native = rows(run[1].scored(model, benchmark, "native"))
        by_turn = native.groupby("turn").correct.mean()
        assert by_turn.between(0.15, 0.95).all(), f"{model}, {benchmark}: {by_turn.to_dict()}"
        assert set(native[native.turn == 1].correct) == {True, False}, f"{model}, {benchmark}: a T1 group is empty"
        if benchmark == "gpqa_diamond":
            assert by_turn[1] > 0.30


def test_unusual_endings_are_lived_in(run: tuple[Config, RunPaths]) -> None:
    """Responses at the limit, and thinking that never ends: nothing of it is in the next turn's prompt."""
    config, paths = run
    for model, settings in config.models.items():
        if not settings.thinking:
            continue
        renderer = Renderer.load(paths.model_folder(config, model), thinking=True)
        limited, unended = 0, 0
        for benchmark, item in config.benchmarks.items():
            prompt = config.prompts[item.prompt]
            texts = rows(paths.benchmark(benchmark)).set_index("problem_id").problem
            table = rows(paths.responses(model, benchmark, "native"))
            limited += int((table.finish_reason == "length").sum())
            for _, chain in table.sort_values("turn").groupby(["session_id", "sample"]):
                turns: list[Any] = list(chain.itertuples())
                users = [prompt.replace("{problem}", texts[turn.problem_id]) for turn in turns]
                for turn, after in pairwise(turns):
                    if "</think>" in turn.response:
                        continue
                    unended += 1
                    assert renderer.visible_answer(turn.response_ids.tolist()) == ""
                    history = [
                        Exchange(user, renderer.visible_answer(earlier.response_ids.tolist()))
                        for user, earlier in zip(users, turns[: after.turn - 1], strict=False)
                    ]
                    ids = renderer.prompt_ids(history, users[after.turn - 1])
                    assert ids_digest(ids) == after.prompt_ids_sha256
        assert limited >= 5, f"{model}: {limited} responses reached the limit"
        assert unended >= 5, f"{model}: {unended} responses before another turn did not end their thinking"


def test_the_training_pool_was_cleaned(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    for model in config.models:
        pool = paths.training_pool(model)
        manifest = json.loads(pool.with_name(f"{pool.name}.manifest.json").read_text())
        counts = manifest["counts"]
        assert counts["rows"] > counts["records"] > counts["problems"], "duplicates, and problems with several records"
        assert counts["excluded_by"]["math500"] > 0
        assert counts["excluded_by"]["aime2025"] > 0


def test_what_is_published_holds_no_text_that_may_not_be(run: tuple[Config, RunPaths], tmp_path: Path) -> None:
    config, paths = run
    export(config, paths, tmp_path / "out")
    published = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert assert_withheld(published, config, paths) > 40


def test_the_training_objective_falls(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    for controller in config.controllers:
        for model in config.trained(controller):
            measured = json.loads((paths.controller(model, controller) / "folder.manifest.json").read_text())[
                "objective"
            ]
            assert measured["training"]["after"]["loss"] < measured["training"]["before"]["loss"], (model, controller)
            if config.controllers[controller].kind == "stair":
                assert measured["validation"]["after"]["loss"] < measured["validation"]["before"]["loss"], model


def test_every_check_passed_and_every_model_and_benchmark_has_its_rows(run: tuple[Config, RunPaths]) -> None:
    checks = pd.read_csv(run[1].checks)
    assert checks.passed.all()
    for model, benchmark in cells(run):
        assert f"{model}/{benchmark}" in set(checks.scope)


def test_the_table_is_the_one_of_the_page(run: tuple[Config, RunPaths]) -> None:
    """docs/tiny.md, made on another machine: its weights are the same, so rounding alone can move a cell."""

    def read(text: str) -> list[list[str]]:
        rows = [[cell.strip(" *") for cell in line.split("|")[1:-1]] for line in text.splitlines() if line[:1] == "|"]
        return [row for row in rows if row[0].startswith("Tiny ") or row[0] in ("Vanilla", "Native", "STAIR")]

    page, made = (
        read((FOLDER.parents[1] / "docs/tiny.md").read_text()),
        read(run[1].table("continuous_summary", ".md").read_text()),
    )
    assert len(page) == len(made) == 12
    for documented, row in zip(page, made, strict=True):
        assert documented[0] == row[0]
        for column, (expected, value) in enumerate(zip(documented[1:], row[1:], strict=True)):
            most = (2, 4)[column % 2]  # Avg@4, Pass@4
            assert (expected == value == "") or abs(float(expected) - float(value)) <= most, (documented, row)


def test_trained_parameters_are_those_of_the_weights(run: tuple[Config, RunPaths]) -> None:
    values = pd.read_csv(run[1].table("lora_comparison"))
    counts = values[values.metric == "trainable parameters"].set_index("condition")["value"]
    model = run[0].controllers["lora"].models[0]
    weights = load_file(run[1].weights(model, "stair"))
    adapter = load_file(run[1].controller(model, "lora") / "adapter_model.safetensors")
    normals, low_rank = (sum(tensor.size for tensor in each.values()) for each in (weights, adapter))
    assert list(counts) == [0, normals, low_rank, normals + low_rank]


def test_every_artifact_says_that_it_comes_from_tiny_models(run: tuple[Config, RunPaths]) -> None:
    config, paths = run
    of_rows = [each for each in exhibits(config) if each.rows is not None]
    for name in (each.name for each in of_rows if each.kind == "table"):
        for suffix in (".md", ".tex"):
            text = " ".join(paths.table(name, suffix).read_text().split())
            assert "Tiny models on" in text, (name, suffix)
        values = pd.read_csv(paths.table(name))
        assert list(values.columns) == [
            "artifact", "model", "benchmark", "condition", "turn", "group", "metric", "value", "unit",
        ]  # fmt: skip
        assert values.value.notna().all()
    for name in (each.name for each in exhibits(config) if each.kind == "figure"):
        assert all(paths.figure(name, suffix).stat().st_size > 0 for suffix in (".png", ".pdf", ".csv"))


@needs_latex
def test_every_table_compiles_alone(run: tuple[Config, RunPaths], tmp_path: Path) -> None:
    tables = [each for each in exhibits(run[0]) if each.kind == "table"]
    assert sum(each.in_paper for each in tables) == 17
    for each in tables:
        place = tmp_path / each.name
        place.mkdir()
        log = compiled(run[1].table(each.name, ".tex").read_text(), place)
        assert (place / "page.pdf").is_file() and "Missing character" not in log, each.name
        # The paper's design of a replay is two points wider than this page.
        wide = [float(points) for points in re.findall(r"Overfull .*? \(([\d.]+)pt too", log)]
        assert not wide or max(wide) < 5, each.name


def test_the_comparison_is_of_structure_only_and_every_claim_has_a_line(run: tuple[Config, RunPaths]) -> None:
    compared = pd.read_csv(run[1].comparison(), keep_default_na=False)
    assert len(compared) == 1085
    assert set(compared["verdict"]) <= {"structure only", "not run"}
    rows = compared["kind"].isin(["rate", "responses", "difference"])
    shared = compared["artifact"].isin(["tab:shared-t1", "tab:bank-prefix-accuracy"])
    # A group without responses has no accuracy.
    assert (compared[rows & ~shared]["verdict"] == "structure only").mean() > 0.98
    claims = pd.read_csv(run[1].claims(), keep_default_na=False)
    assert list(claims[claims["part"] == ""]["claim"]) == list(range(1, 17))
    assert claims["reason"].str.contains("replace those of the paper").all()
