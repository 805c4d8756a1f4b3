"""What a run gives to others holds no text that may not be published, and still gives every table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, dump, resolve
from stair.paper.withheld_text import publishable, text_digest
from stair.pipeline.archive import export
from stair.pipeline.jobs import settings_of
from stair.records.keys import file_digest
from stair.records.manifest import Origin, manifest_path, name_in_run, read_manifest, write_manifest
from stair.records.schemas import SCORED
from stair.records.tables import read_table, write_table
from tests.sealed import reseal

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"
SECRET = "The question asks which quokka hums, so"


def row(benchmark: str, number: int) -> dict[str, Any]:
    return dict(
        model=MODEL, benchmark=benchmark, condition="vanilla", session_id=f"s-p{number}", turn=1, sample=0,
        problem_id=f"p{number}", seed=number, prompt_tokens=5, response_tokens=7,
        response=f"{SECRET} the answer is \\boxed{{C}}.", finish_reason="stop",
        bank_tokens=None, beyond_context=None, answer="C", verdict="correct", correct=True,
    )  # fmt: skip


def quoting(benchmark: str, number: int) -> dict[str, Any]:
    """A row whose boxed answer quotes the question."""
    return row(benchmark, number) | {"answer": f"C: {SECRET}", "verdict": "wrong", "correct": False}


@pytest.fixture
def run(tmp_path: Path) -> tuple[Config, RunPaths]:
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path / "results")})
    paths = RunPaths.of(config)
    for benchmark in ("math500", "gpqa_diamond"):
        rows = [*(row(benchmark, number) for number in range(4)), quoting(benchmark, 4)]
        write_table(file := paths.scored(MODEL, benchmark, "vanilla"), SCORED, rows)
        wildcards = {"model": MODEL, "benchmark": benchmark, "condition": "vanilla"}
        record(config, paths, file, "score_condition", wildcards, [])
    paths.resolved.write_text(dump(config))
    table = paths.table("continuous_summary")
    table.parent.mkdir()
    table.write_text("artifact\n")
    rows = [paths.scored(MODEL, benchmark, "vanilla") for benchmark in ("math500", "gpqa_diamond")]
    record(config, paths, table, "table", {"table": "continuous_summary"}, rows)
    return config, paths


def record(
    config: Config, paths: RunPaths, file: Path, rule: str, wildcards: dict[str, str], inputs: list[Path]
) -> None:
    """Writes the manifest of an output, as its job would."""
    digests = {name_in_run(source, paths.folder): file_digest(source) for source in inputs}
    origin = Origin.now(digests, settings_of(config, rule, wildcards), "0" * 64)
    write_manifest(paths.folder, [file], rule=rule, wildcards=wildcards, origin=origin)


def test_text_is_withheld_where_it_must_be_and_nothing_else_is(run: tuple[Config, RunPaths], tmp_path: Path) -> None:
    config, paths = run
    assert not config.benchmarks["gpqa_diamond"].publish_text, "the configuration says so"
    out = tmp_path / "out"
    assert export(config, paths, out) == 10
    closed = read_table(out / "evaluation" / MODEL / "gpqa_diamond" / "vanilla.parquet", SCORED)
    assert [one["response"][:7] for one in closed] == ["sha256:"] * 5
    assert [{**one, "response": ""} for one in closed[:4]] == [
        {**row("gpqa_diamond", n), "response": ""} for n in range(4)
    ]
    assert closed[4]["answer"].startswith("sha256:")
    opened = read_table(out / "evaluation" / MODEL / "math500" / "vanilla.parquet", SCORED)
    assert opened == [*(row("math500", n) for n in range(4)), quoting("math500", 4)]
    assert (out / "tables" / "continuous_summary.csv").is_file()
    manifests = [read_manifest(path) for path in sorted(out.rglob("*.manifest.json"))]
    assert [one.content.get("text_withheld", False) for one in manifests] == [True, False, False]
    for name, digest in manifests[-1].inputs.items():
        assert file_digest(out / name) == digest, "the table's manifest has the digest of the rows in the archive"
    assert (out / RESOLVED).is_file()
    for path in out.rglob("*"):
        if path.is_file() and "math500" not in path.parts:
            content = str(pq.read_table(path).to_pylist()) if path.suffix == ".parquet" else path.read_text()
            assert SECRET not in content, path


def test_training_problems_are_left_out_and_their_counts_stay(run: tuple[Config, RunPaths], tmp_path: Path) -> None:
    """Also in the archive of an unpacked archive."""
    config, paths = run
    pool = [paths.training_pool(MODEL), paths.cleaning(MODEL)]
    pool[0].parent.mkdir(parents=True)
    for file in pool:
        file.write_text(SECRET)
    wildcards = {"model": MODEL}
    origin = Origin.now({}, settings_of(config, "training_pool", wildcards), "0" * 64)
    write_manifest(paths.folder, pool, rule="training_pool", wildcards=wildcards, origin=origin)
    for name in ("first", "second"):
        export(config, paths, out := tmp_path / name)
        names = [file.name for file in out.rglob(f"data/training/{MODEL}*")]
        assert sorted(names) == [f"{MODEL}.cleaning.json", f"{MODEL}.parquet.manifest.json"]
        paths = RunPaths(out)


def test_an_export_that_fails_leaves_nothing_in_the_way(run: tuple[Config, RunPaths], tmp_path: Path) -> None:
    config, paths = run
    file = paths.scored(MODEL, "gpqa_diamond", "vanilla")
    whole, table = file.read_bytes(), paths.table("continuous_summary")
    for shown in (manifest_path(table), table):
        shown.unlink()
    pq.write_table(pq.read_table(file).drop_columns("verdict"), file)
    reseal(file)
    out = tmp_path / "exports" / "out"
    with pytest.raises(ValueError, match="does not have the columns of scored rows"):
        export(config, paths, out)
    assert not out.parent.exists()
    file.write_bytes(whole)
    reseal(file)
    assert export(config, paths, out) == 10
    assert list(out.parent.iterdir()) == [out]


def test_a_folder_with_something_in_it_and_a_run_without_scores_are_refused(
    run: tuple[Config, RunPaths], tmp_path: Path
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("")
    with pytest.raises(ValueError, match="is not empty"):
        export(*run, tmp_path / "full")
    with pytest.raises(ValueError, match="has no scored rows"):
        export(run[0], RunPaths(tmp_path / "nothing"), tmp_path / "out")


def test_rows_lose_their_text_where_it_may_not_be_published() -> None:
    rows = [
        {"benchmark": "open", "response": "It is 4.", "answer": "4", "response_ids": [1, 2], "seed": 7},
        {"benchmark": "closed", "response": "The quokka, so C.", "answer": "C", "response_ids": [1, 2], "seed": 8},
        {"benchmark": "closed", "response": "So.", "answer": "C: the quokka", "response_ids": [], "seed": 8},
        {"benchmark": "closed", "response": "So.", "answer": r"\text{(c)}", "response_ids": [], "seed": 8},
        {"benchmark": "closed", "response": "So.", "answer": None, "response_ids": [], "seed": 8},
    ]
    published = list(publishable(rows, {"closed"}))
    assert [row["answer"] for row in published[2:]] == [text_digest("C: the quokka"), "C", None]
    assert published[:2] == [
        rows[0],
        {
            "benchmark": "closed",
            "response": text_digest("The quokka, so C."),
            "answer": "C",
            "response_ids": [],
            "seed": 8,
        },
    ]
