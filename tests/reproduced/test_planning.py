"""A plan of each model of the finished tiny run, learned from the other two, beside that model's own seconds.

`make reproduce` comes first; then `make test-reproduced`.
"""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, load_run
from stair.pipeline.planning.calibration import calibrate, measured_seconds
from stair.pipeline.planning.claims import decidable
from stair.pipeline.planning.planned_jobs import planned_jobs
from stair.pipeline.planning.work import Calibration, CostModel
from stair.pipeline.run import Run
from tests.listed import listed

pytestmark = pytest.mark.reproduced
FOLDER = Path(__file__).parents[2] / "results" / "tiny"


@pytest.mark.parametrize("model", ["qwen3-4b-instruct", "qwen3.5-4b", "qwen3.5-9b"])
def test_a_model_is_planned_from_the_others_within_a_factor_of_two(model: str, tmp_path: Path) -> None:
    """The model's seconds are removed before calibration. Its mean lengths stay: the run's settings decide them.

    On a machine without other work the plan is within 30%. Other work beside one model's jobs alone changes that.
    """
    assert (FOLDER / "claims.csv").is_file(), "the tiny run has not ended: run `make reproduce` first"
    shutil.copytree(FOLDER / "work" / "timings", tmp_path / "work" / "timings")
    for name in (RESOLVED, "provenance.json"):
        shutil.copy(FOLDER / name, tmp_path / name)
    removed = list((tmp_path / "work" / "timings").glob(f"*/{model}"))
    removed += (tmp_path / "work" / "timings").glob(f"*/{model}.tsv")
    assert len(removed) >= 10
    for path in removed:
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    run = Run(load_run(FOLDER), RunPaths(FOLDER))
    learned, measured = calibrate(tmp_path, listed("tiny")), measured_seconds(run)
    assert not any(key[1] == model for key in learned.factors)
    shared = {rule for rule, other in learned.factors if other}
    jobs = planned_jobs(CostModel(run, learned), listed("tiny"))
    planned = sum(job.work.seconds for job in jobs if job.model == model and job.rule in shared)
    seconds = sum(measured[rule, model] for rule in shared if (rule, model) in measured)
    assert seconds / 2 < planned < 2 * seconds


def test_the_plan_lacks_what_the_claims_lack_and_counts_the_tokens() -> None:
    run = Run(load_run(FOLDER), RunPaths(FOLDER))
    with open(FOLDER / "claims.csv", encoding="utf-8") as file:
        not_run = {int(row["claim"]) for row in csv.DictReader(file) if row["part"] and row["verdict"] == "not run"}
    assert {each.claim.number for each in decidable(run) if each.lacking} == not_run

    generated = json.loads((FOLDER / "provenance.json").read_text())["costs"]["generated"]["all"]
    jobs = planned_jobs(CostModel(run, Calibration(means=calibrate(FOLDER, listed("tiny")).means)), listed("tiny"))
    assert sum(job.work.responses for job in jobs) == generated["responses"]
    assert sum(job.work.tokens for job in jobs) == pytest.approx(generated["response_tokens"], rel=0.001)
