"""A plan that a finished run has calibrated, beside that run's own seconds."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.pipeline.planning.calibration import calibrate, measured_seconds
from stair.pipeline.planning.claims import decidable
from stair.pipeline.planning.planned_jobs import planned_jobs
from stair.pipeline.planning.work import Calibration, CostModel
from stair.pipeline.run import Run
from tests.listed import listed
from tests.workflow.conftest import SMOKE, run_in


def seconds_by_rule(run: Run, learned: Calibration) -> dict[str, float]:
    found: dict[str, float] = defaultdict(float)
    for job in planned_jobs(CostModel(run, learned), listed("smoke")):
        found[job.rule] += job.work.seconds
    return found


def test_a_calibrated_plan_meets_the_runs_seconds_and_scales(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    learned = calibrate(folder, listed("smoke"))
    config, paths = load_run(folder), RunPaths(folder)
    planned = seconds_by_rule(Run(config, paths), learned)
    measured: dict[str, float] = defaultdict(float)
    for (rule, _), seconds in measured_seconds(Run(config, paths)).items():
        measured[rule] += seconds
    for rule, seconds in measured.items():
        assert planned[rule] == pytest.approx(seconds, rel=0.3), rule
    assert sum(planned.values()) == pytest.approx(sum(measured.values()), rel=0.3)

    evaluation = config.evaluation.model_copy(update={"samples": 2 * config.evaluation.samples})
    twin = seconds_by_rule(Run(config.model_copy(update={"evaluation": evaluation}), paths), learned)
    assert 1.2 < twin["evaluation_shard"] / planned["evaluation_shard"] <= 2.0
    assert twin["train_controller"] == planned["train_controller"]


def test_the_plan_lacks_what_the_runs_claims_lack(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    with open(folder / "claims.csv", encoding="utf-8") as file:
        not_run = {int(row["claim"]) for row in csv.DictReader(file) if row["part"] and row["verdict"] == "not run"}
    planned = decidable(Run(load_run(folder), RunPaths(folder)))
    assert {each.claim.number for each in planned if each.lacking} == not_run
    assert 0 < len(not_run) < len(planned)


def test_the_command_calibrates_and_writes_nothing(finished_run: Path) -> None:
    before = sorted(finished_run.rglob("*"))
    words = ("plan", "--run", str(SMOKE), "--calibrate", "results/smoke")
    total = next(line for line in run_in(finished_run, "stair", *words).stdout.splitlines() if line.startswith("all "))
    assert re.search(r" \d+\.\d+M ", total), "tokens, and no GPU-hours before them"
    assert sorted(finished_run.rglob("*")) == before


def test_an_unfinished_run_is_refused(tmp_path: Path, finished_run: Path) -> None:
    folder = tmp_path / "smoke"
    folder.mkdir()
    (folder / "config.resolved.yaml").write_bytes((finished_run / "results/smoke/config.resolved.yaml").read_bytes())
    with pytest.raises(ValueError, match="--calibrate needs a finished run"):
        calibrate(folder, listed("smoke"))
