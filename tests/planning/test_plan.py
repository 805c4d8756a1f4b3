"""The plan of a configuration: exact sizes, costs that scale, claims that it can decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.graph.run import Run
from stair.planning.assumptions import assumptions_table
from stair.planning.jobs import PlannedJob, longest_chain, planned_jobs, wall_seconds
from stair.planning.run_plan import Plan, make_plan
from stair.planning.text import plan_text
from stair.planning.work import CostModel

ROOT = Path(__file__).parents[2]


def run_of(name: str, tmp_path: Path, **changes: Any) -> Run:
    config = resolve(ROOT, {"run": name, "results": str(tmp_path), **changes})
    return Run(config, RunPaths.of(config))


def plan_of(name: str, tmp_path: Path, **changes: Any) -> Plan:
    return make_plan(run_of(name, tmp_path, **changes).config)


def responses(run: Run, stage: str, model: str) -> float:
    return sum(job.responses for job in planned_jobs(CostModel(run)) if (job.stage, job.model) == (stage, model))


def test_the_papers_responses_are_counted_exactly(tmp_path: Path) -> None:
    run = run_of("paper", tmp_path)
    problems = 500 + 30 + 34 + 198
    # Vanilla one turn, Native and STAIR three more; on AIME 2025 two repeat conditions, and for Instruct two with LoRA.
    assert responses(run, "evaluation", "qwen3.5-9b") == 4 * (problems * (1 + 3 + 3) + 30 * (3 + 3))
    assert responses(run, "evaluation", "qwen3-4b-instruct") == 4 * (problems * 7 + 30 * (3 + 3 + 4 + 4))
    # t1, and 15 conditions that answer T2.
    assert responses(run, "controls", "qwen3.5-4b") == 120 * 16


def test_twice_the_samples_cost_twice_the_tokens(tmp_path: Path) -> None:
    once, twice = (plan_of("paper", tmp_path, evaluation={"samples": n}) for n in (4, 8))
    for stage, factor in (("evaluation", 2.0), ("controls", 2.0), ("rollouts", 1.0)):
        tokens = [sum(line.tokens for line in plan.lines if line.stage == stage) for plan in (once, twice)]
        assert tokens[1] == pytest.approx(factor * tokens[0]), stage
    hours = [sum(line.gpu_hours for line in plan.lines if line.stage == "evaluation") for plan in (once, twice)]
    assert 1.8 * hours[0] < hours[1] < 2.0 * hours[0]  # starts do not double


@pytest.mark.parametrize(("name", "hours"), [("smoke-gpu", 0.25), ("pilot", 6.0)])
def test_runs_are_planned_within_the_time_that_they_state(name: str, hours: float, tmp_path: Path) -> None:
    plan = plan_of(name, tmp_path)
    assert plan.wall_hours <= hours
    assert max(line.gpu_gb for line in plan.lines) < 80


def test_wall_time_follows_from_the_chain_and_the_gpus() -> None:
    def job(seconds: float, gpus: int, *after: int) -> PlannedJob:
        return PlannedJob("r", "s", "", seconds, gpus, 1, 0.0, 0.0, 0.0, 0.0, after)

    jobs = [job(1, 0), job(10, 1, 0), job(10, 1, 0), job(4, 1, 0), job(2, 0, 1, 2, 3)]
    assert longest_chain(jobs) == 13
    assert [wall_seconds(jobs, gpus) for gpus in (1, 2, 3)] == [27, 17, 13]
    assert wall_seconds([job(5, 4)], 1) == 5


def test_claims_need_their_models_and_smaller_effects_need_more_samples(tmp_path: Path) -> None:
    paper, pilot = plan_of("paper", tmp_path), plan_of("pilot", tmp_path)
    assert not any(claim.lacking for claim in paper.claims)
    aime = pilot.claims[7]
    assert "qwen3.5-4b" in aime.lacking
    mean = {part.part: part for part in aime.parts}["qwen3-4b-instruct, T2-T4"]
    assert (mean.problems, mean.paper) == (30, pytest.approx(3.62, abs=0.02))
    more = plan_of("pilot", tmp_path, evaluation={"samples": 16}).claims[7]
    assert {p.part: p for p in more.parts}[mean.part].detectable == pytest.approx(mean.detectable / 2.0)
    assert f"{mean.part}: {mean.detectable:.1f}; {mean.paper:+.2f}" in plan_text(pilot)


def test_the_page_lists_the_assumptions() -> None:
    assert assumptions_table() in (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
