"""A variant of a run generates only what differs; the rest is reused from another run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stair.config.resolve import load_run
from stair.pipeline.verify import Receipts, faults
from stair.records.files import write_json
from stair.records.manifest import with_checksum
from stair.records.schemas import RESPONSES
from stair.records.tables import read_table
from stair.records.worklog import WorkLog, WorkLogWriter
from tests.docs.extend_page import put, steps
from tests.workflow.conftest import RESULTS, SMOKE, contents, jobs_of, run_in, snakemake

pytestmark = pytest.mark.timeout(300)
MODEL = "qwen3-4b-instruct"


def variant(folder: Path, changes: str = "", reuse: str = "[smoke]") -> Path:
    """An overlay like the smoke run's, which reuses it."""
    overlay = folder / "variant.yaml"
    overlay.write_text(f"{SMOKE.read_text()}\nreuse: {reuse}\n{changes}")
    return overlay


def logs(results: Path, stage: str) -> list[Path]:
    """The logs with responses that a run has generated itself."""
    return [*(results / "work" / stage).glob("**/log/*.log")]


def test_the_same_run_under_another_name_generates_nothing_and_takes_no_damaged_controller(
    finished_run: Path, copied_run: Path
) -> None:
    """The damaged one is trained again, to the same weights."""
    weights = copied_run / f"results/smoke/controllers/{MODEL}/bank_free/controller.safetensors"
    sound, times = weights.read_bytes(), weights.stat()
    weights.write_bytes(sound[:-1] + b"?")
    overlay, targets = variant(copied_run), ("training", "scores", "replay")
    for value in ("1", "2"):  # an error where it is read, and no response of this benchmark can be in it
        with WorkLogWriter(copied_run / "results/smoke/work/evaluation" / MODEL / "another/native/log", value) as log:
            log.append("key", {"value": value})
    snakemake(copied_run, *targets, run=overlay)
    weights.write_bytes(sound)
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    smoke, again = finished_run / "results/smoke", copied_run / "results/variant"
    made = [pattern for pattern in RESULTS if not pattern.startswith("tables")]
    assert contents(again, *made) == contents(smoke, *made)
    assert logs(again, "rollouts") == logs(again, "evaluation") == []
    assert jobs_of(snakemake(copied_run, "-n")) == {}, "the other run is as it was, its files' times too"
    log = (again / "logs" / "training" / MODEL / "stair.log").read_text()
    assert "reused from the run 'smoke'" in log
    stair, bank_free = (
        json.loads((again / f"controllers/{MODEL}/{name}/folder.manifest.json").read_text())
        for name in ("stair", "bank_free")
    )
    assert stair["copied_from"] == "the run 'smoke'" and "copied_from" not in bank_free
    assert list(faults(load_run(again), Receipts(again))) == []
    assert jobs_of(snakemake(copied_run, "-n", *targets, run=overlay)) == {}


def test_another_temperature_for_one_of_two_benchmarks_leaves_the_other_alone(copied_run: Path) -> None:
    both, again = copied_run / "both.yaml", copied_run / "again.yaml"
    text = SMOKE.read_text().replace("benchmarks: [math500]", "benchmarks: [math500, aime2025]")
    text = text.replace("benchmarks:\n", "benchmarks:\n  aime2025: {tiny: 5, rows: 5}\n")
    text = text.replace("conditions: [vanilla, native, stair]", "conditions: [vanilla, native]")
    both.write_text(text + "\nreuse: [smoke]\n")
    changes = "evaluation_changes: {aime2025: {temperature: 0.9}}"
    text = text.replace("rollout_sampling", f"{changes}\n    rollout_sampling")
    again.write_text(text + "\nreuse: [both, smoke]\n")
    for overlay in (both, again):
        run_in(copied_run, "stair", "reproduce", "--run", str(overlay), "--target", "evaluation")

    first, second = (copied_run / "results" / name for name in ("both", "again"))
    assert logs(second, f"evaluation/{MODEL}/math500") == []
    known = set().union(*(WorkLog(folder).keys() for folder in (first / "work/evaluation").glob("**/log")))
    for log in map(WorkLog, sorted((second / f"work/evaluation/{MODEL}/aime2025").glob("*/log"))):
        assert not {key for key, record in log.items() if "response_ids" in record} & known
    same, other = "responses/*/math500/*.parquet", "responses/*/aime2025/*.parquet"
    assert contents(second, same) == contents(first, same)
    assert len(contents(second, other)) == len(contents(first, other)) == 2
    assert contents(second, other) != contents(first, other)


def test_a_run_of_fewer_conditions_ends_with_tables_that_say_what_is_not_there(copied_run: Path) -> None:
    overlay = copied_run / "fewer.yaml"
    kept = "{controllers: [bank_free], conditions: [vanilla, native], controls: [t1, native, bank_free]}"
    overlay.write_text(f"extends: {SMOKE}\nreuse: [smoke]\nselect: {kept}\nreplay: null\n")
    run_in(copied_run, "stair", "reproduce", "--run", str(overlay))
    tables = copied_run / "results" / "fewer" / "tables"
    for suffix in (".md", ".tex", ".csv"):
        assert (tables / f"comparisons{suffix}").is_file()
    assert "has not all the conditions" in (tables / "comparisons.md").read_text()
    assert len((tables / "comparisons.csv").read_text().splitlines()) == 1, "the columns' names"
    assert "| Native |" in (tables / "continuous_summary.md").read_text()
    assert jobs_of(snakemake(copied_run, "-n", run=overlay)) == {}


def test_a_controller_of_other_code_is_trained_again_and_compared_with_the_old_one(copied_run: Path) -> None:
    """The overlay of docs/extend.md. The code is the same, so the old manifest names another."""
    old = copied_run / f"results/smoke/controllers/{MODEL}/stair/folder.manifest.json"
    write_json(old, with_checksum(json.loads(old.read_text()) | {"source": "other code"}))
    (overlay,) = steps("Change a stage")
    put(overlay, copied_run)
    run_in(copied_run, "stair", "reproduce", "--run", overlay.file, "--target", "evaluation")
    changed = copied_run / "results" / "changed"
    manifests = [
        json.loads((changed / f"controllers/{MODEL}/{name}/folder.manifest.json").read_text())
        for name in ("stair", "before")
    ]
    assert "copied_from" not in manifests[0]
    assert manifests[1]["copied_from"].endswith(f"results/smoke/controllers/{MODEL}/stair")
    assert logs(changed, "rollouts") == []
    assert logs(changed, "evaluation") == [], "trained to the same weights, so no response is new"
    responses = changed / f"responses/{MODEL}/math500"
    tokens = [read_table(responses / f"{name}.parquet", RESPONSES, ("response_ids",)) for name in ("stair", "before")]
    assert list(tokens[0]) == list(tokens[1])


@pytest.mark.parametrize(
    ("reuse", "message"),
    [("[absent]", "reuse: there is no run 'absent'"), ("[variant]", "reuse: 'variant' is this run itself")],
)
def test_a_run_that_cannot_be_reused_is_one_line(finished_run: Path, tmp_path: Path, reuse: str, message: str) -> None:
    (tmp_path / "results/variant").mkdir(parents=True)
    (tmp_path / "results/variant/config.resolved.yaml").write_text("")
    done = run_in(tmp_path, "stair", "reproduce", "--run", str(variant(tmp_path, reuse=reuse)), check=False)
    assert done.returncode == 2
    assert message in done.stderr
