"""A plan with the speeds and lengths of a finished run, beside that run's own seconds and tokens."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.paper.claims.detectable import detectable, has_rows
from stair.paper.claims.statements import read_claims
from stair.pipeline.plan import Planner, engine_seconds, measured
from tests.workflow.conftest import SMOKE, run_in


def test_a_plan_from_a_run_has_the_runs_seconds_and_tokens(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    config, paths = load_run(folder), RunPaths(folder)
    works = Planner(config, paths, measured(config, paths)).works()
    planned, spent = defaultdict[str, float](float), defaultdict[str, float](float)
    for work in works:
        planned[work.stage] += 3600 * work.hours
    for stage, _, seconds in engine_seconds(paths):
        spent[stage] += seconds
    assert planned == pytest.approx(spent)

    generated = json.loads(paths.provenance.read_text())["costs"]["generated"]["all"]
    answers = [work for work in works if work.stage in ("rollouts", "evaluation")]
    assert sum(work.responses for work in answers) == generated["responses"]
    assert sum(work.tokens for work in answers) == pytest.approx(generated["response_tokens"])


def test_the_plan_lacks_what_the_runs_claims_lack(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    config, paths = load_run(folder), RunPaths(folder)
    with open(folder / "claims.csv", encoding="utf-8") as file:
        not_run = {int(row["claim"]) for row in csv.DictReader(file) if row["part"] and row["verdict"] == "not run"}
    claims = [claim for claim in read_claims() if has_rows(claim)]
    planned = detectable(config, Planner(config, paths).problems(), claims)
    lacking = {number for number, each in planned.items() if each.gaps}
    assert lacking == not_run & set(planned)
    assert 0 < len(lacking) < len(planned)


def test_the_command_writes_nothing_and_refuses_an_unfinished_run(tmp_path: Path, finished_run: Path) -> None:
    before = sorted(finished_run.rglob("*"))
    lines = run_in(finished_run, "stair", "plan", "--run", str(SMOKE), "--from", "results/smoke").stdout.splitlines()
    assert any(line.startswith("all ") for line in lines)
    assert sorted(finished_run.rglob("*")) == before

    config = load_run(finished_run / "results" / "smoke")
    with pytest.raises(ValueError, match="--from needs a finished run"):
        measured(config, RunPaths(tmp_path))
