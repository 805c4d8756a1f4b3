"""A stage with a complete log seals again, without a model and torch. It names what is missing or beyond the context."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stair.records.manifest import manifest_path
from stair.records.worklog import WorkLog, WorkLogWriter
from tests.workflow.conftest import ROOT, SMOKE, run_in

MODEL = "qwen3-4b-instruct"

PROGRAM = """
import json, sys
from stair.cli.main import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["stair", *words]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code
assert "torch" not in sys.modules
"""


def without_torch(folder: Path, *commands: tuple[str, ...]) -> str:
    """The output of commands, one after another in one process, none of which imports torch."""
    return run_in(folder, sys.executable, "-c", PROGRAM, json.dumps(commands)).stdout


def test_complete_logs_are_sealed_again_to_the_same_bytes(copied_run: Path) -> None:
    """A shard with nothing to do needs no model either."""
    words = ("--run", "results/smoke", "--model", MODEL)
    cell = ("--benchmark", "math500", "--condition", "stair")
    files = [
        copied_run / "results/smoke" / f"{name}.parquet"
        for name in (f"rollouts/{MODEL}", f"responses/{MODEL}/math500/stair")
    ]
    before, costs = [file.read_bytes() for file in files], [*map(generating, files)]
    for file in files:
        file.unlink()
    without_torch(
        copied_run,
        *((rule, *words) for rule in ("rollout-shard", "seal-rollouts")),
        *((rule, *words, *cell) for rule in ("evaluation-shard", "seal-evaluation")),
    )
    assert [file.read_bytes() for file in files] == before
    assert [*map(generating, files)] == costs and all(cost["generated"] for cost in costs)


def generating(file: Path) -> dict[str, Any]:
    """The facts of a seal about the attempts behind it."""
    facts = json.loads(manifest_path(file).read_text())
    return {name: facts[name] for name in ("generated_by", "generated_on", "generating_seconds", "generated")}


def lose(results: Path, work: str, key: str) -> None:
    """Takes one record out of a log, and the shards' markers away, as if its generation had failed."""
    log = WorkLog(results / work / "log")
    records = dict(log.items())
    for path in log.folder.glob("*.log"):
        path.unlink()
    with WorkLogWriter(results / work / "log", "shard-0-of-1") as writer:
        for other, record in records.items():
            if other != key:
                writer.append(other, record)
    with WorkLogWriter(results / work / "failed", "shard-0-of-1") as writer:
        writer.append(key, {"response": "this one", "reason": "CUDA out of memory"})
    for marker in (results / work).glob("shard-*.done"):
        marker.unlink()


def key_of(results: Path, work: str, row: dict[str, Any]) -> str:
    """The key of a row's response, which must be the only one of these tokens."""
    log = WorkLog(results / work / "log")
    (key,) = [key for key, record in log.items() if list(record.get("response_ids", ())) == row["response_ids"]]
    return key


def unique(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """The first row whose tokens no other has."""
    counts = Counter(tuple(row["response_ids"]) for row in rows)
    return next(row for row in rows if counts[tuple(row["response_ids"])] == 1)


def test_a_missing_t1_is_missing_in_every_condition_that_reuses_it(copied_run: Path) -> None:
    results = copied_run / "results/smoke"
    responses = results / f"responses/{MODEL}/math500"
    before = {name: pq.read_table(responses / f"{name}.parquet").to_pylist() for name in ("vanilla", "native", "stair")}
    lost = unique(before["vanilla"])
    work = f"work/evaluation/{MODEL}/math500/vanilla"
    lose(results, work, key_of(results, work, lost))
    run_in(copied_run, "stair", "config", "--run", str(SMOKE), "--write", "--set", "accept_missing=true")
    words = ("--run", "results/smoke", "--model", MODEL, "--benchmark", "math500", "--condition")
    # No shard needs a model: what is missing is not asked for.
    rules = ("evaluation-shard", "seal-evaluation")
    commands = [(rule, *words, condition) for condition in before for rule in rules]
    told = without_torch(copied_run, *commands)
    assert told.count(": 1 missing, as accept_missing allows") == 1, "Vanilla's"
    assert told.count(": 4 missing, as accept_missing allows") == 2
    for condition in before:
        rows = pq.read_table(responses / f"{condition}.parquet").to_pylist()
        place = (lost["session_id"], lost["sample"])
        assert rows == [row for row in before[condition] if (row["session_id"], row["sample"]) != place]
        run_in(copied_run, "stair", "score-condition", *words, condition)
    run_in(copied_run, "stair", "check", "--run", "results/smoke")
    run_in(copied_run, "stair", "table", "--run", "results/smoke", "--table", "continuous_summary")
    text = (results / "tables/continuous_summary.md").read_text()
    assert not re.search(r"\d\.\d\d", text), "no cell is reported: every trajectory needs its T1"
    assert "T1: 1 of 32 responses missing" in text and "(CUDA out of memory)" in text


def test_a_training_response_that_is_missing_drops_its_record(copied_run: Path) -> None:
    results = copied_run / "results/smoke"
    path = results / f"rollouts/{MODEL}.parquet"
    before = pq.read_table(path).to_pylist()
    lost = unique(before)
    lose(results, f"work/rollouts/{MODEL}", key_of(results, f"work/rollouts/{MODEL}", lost))
    run_in(copied_run, "stair", "config", "--run", str(SMOKE), "--write", "--set", "accept_missing=true")
    where = ("--run", "results/smoke", "--model", MODEL)
    shards = [("rollout-shard", *where, "--shard", shard, "--of", "2") for shard in "01"]
    told = without_torch(copied_run, *shards, ("seal-rollouts", *where))
    assert pq.read_table(path).to_pylist() == [row for row in before if row != lost]
    (gap,) = json.loads((results / f"rollouts/{MODEL}.parquet.manifest.json").read_text())["missing"]
    assert (gap["record_id"], gap["sample"], gap["reason"]) == (lost["record_id"], lost["sample"], "CUDA out of memory")
    note = "1 missing, as accept_missing allows; the manifest names each with its reason"
    assert f"{path.relative_to(copied_run)}: {note}\n" in told
    run_in(copied_run, "stair", "training-sessions", "--run", "results/smoke", "--model", MODEL)
    dropped = (results / f"sessions/dropped/{MODEL}.csv").read_text()
    assert lost["record_id"] in dropped and "3 responses, not 4" in dropped


def test_manifests_and_scored_rows_count_the_positions_beyond_the_context(finished_run: Path) -> None:
    """The smoke run stays within its context; tests/sessions has counts above zero."""
    results = finished_run / "results/smoke"
    context = json.loads((ROOT / "backbones/tiny-qwen3-4b/config.json").read_text())["max_position_embeddings"]
    for condition in ("vanilla", "native", "stair"):
        name = f"{MODEL}/math500/{condition}.parquet"
        rows, scored = (pq.read_table(results / stage / name).to_pylist() for stage in ("responses", "evaluation"))
        manifest = json.loads((results / f"responses/{name}.manifest.json").read_text())
        expected = None
        if condition == "stair":
            read = [row for row in rows if row["bank_tokens"] and row["controlled_tokens"]]
            largest = max(row["bank_tokens"] + row["prompt_tokens"] for row in read) - 1
            assert largest + 1 < context
            expected = {"context": context, "largest": largest, "responses": 0, "queries": 0, "entries": 0}
        assert manifest["auxiliary_positions"] == expected
        assert [row["bank_tokens"] for row in scored] == [row["bank_tokens"] for row in rows]
        assert {row["beyond_context"] for row in scored} == {0 if condition == "stair" else None}
