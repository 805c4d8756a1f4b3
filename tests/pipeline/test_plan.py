"""The plan of a configuration: exact sizes, costs that scale, claims that it can decide."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.claims.detectable import claim_lines
from stair.pipeline.plan import SPEEDS, Measured, Planner, Work, cost_lines

ROOT = Path(__file__).parents[2]


def planner_of(name: str, tmp_path: Path, measured: Measured | None = None, **changes: Any) -> Planner:
    config = resolve(ROOT, {"run": name, "results": str(tmp_path), **changes})
    return Planner(config, RunPaths.of(config), measured)


def works_of(name: str, tmp_path: Path, stage: str, model: str = "", **changes: Any) -> list[Work]:
    works = planner_of(name, tmp_path, **changes).works()
    return [work for work in works if work.stage == stage and model in (work.model, "")]


def test_the_papers_responses_are_counted_exactly(tmp_path: Path) -> None:
    def responses(model: str, shared: bool = False) -> float:
        works = works_of("paper", tmp_path, "evaluation", model)
        return sum(work.responses for work in works if ("/" in work.name) == shared)

    problems = 500 + 30 + 34 + 198
    # Vanilla one turn, Native and STAIR three more; on AIME 2025 two repeat conditions, and for Instruct two with LoRA.
    assert responses("qwen3.5-9b") == 4 * (problems * (1 + 3 + 3) + 30 * (3 + 3))
    assert responses("qwen3-4b-instruct") == 4 * (problems * 7 + 30 * (3 + 3 + 4 + 4))
    # t1, and 15 conditions that answer T2.
    assert responses("qwen3.5-4b", shared=True) == 120 * 16


def test_hours_are_tokens_over_tokens_per_second(tmp_path: Path) -> None:
    once, twice = (works_of("paper", tmp_path, "evaluation", evaluation={"samples": n}) for n in (4, 8))
    assert sum(work.tokens for work in twice) == 2 * sum(work.tokens for work in once)
    assert sum(work.hours for work in twice) == pytest.approx(2 * sum(work.hours for work in once))
    (vanilla,) = (work for work in once if work[1:3] == ("qwen3-4b-instruct", "vanilla") and work.responses == 120)
    # AIME 2025, 6,000 tokens a response, in batches of 16 rows.
    assert vanilla.tokens == 120 * 6_000
    assert vanilla.hours == vanilla.tokens / (16 * SPEEDS["decoding", "4B"].value) / 3600
    training = works_of("paper", tmp_path, "training", "qwen3-4b-instruct")[0]
    assert training.tokens == 1_941 * 8 * 4 * 3_500


def test_a_measured_speed_replaces_the_tables_and_no_other(tmp_path: Path) -> None:
    measured = Measured({("evaluation", "decoding", "4B"): 1.0}, {("qwen3-4b-instruct", "aime2025", ""): 50.0})
    works = planner_of("paper", tmp_path, measured).works()
    assert {work.speed for work in works if work[:2] == ("evaluation", "qwen3-4b-instruct")} == {16.0, 12.0}
    assert next(work for work in works if work[:3] == ("evaluation", "qwen3-4b-instruct", "lora")).tokens == 480 * 50
    assert {work.speed for work in works if work.stage == "training" and work.model == "qwen3-4b-instruct"} == {3_400}
    assert {work.speed for work in works if work[:2] == ("evaluation", "qwen3.5-4b")} == {16 * 110.0, 12 * 110.0}


def test_the_wall_time_is_that_of_the_gpus_or_of_the_longest_chain(tmp_path: Path) -> None:
    planner = planner_of("pilot", tmp_path)
    one, many = (next(line for line in cost_lines(planner, gpus) if line.startswith("With")) for gpus in (1, 100))
    chain = one.partition("takes ")[2].rstrip(".")
    assert (
        one.startswith("With 1 GPU: 1h") and many == f"With 100 GPUs: {chain}; the longest chain of jobs takes {chain}."
    )


@pytest.mark.parametrize("name", ["smoke-gpu", "pilot"])
def test_runs_are_planned_within_the_time_that_they_state(name: str, tmp_path: Path) -> None:
    hours = sum(work.hours for work in planner_of(name, tmp_path).works())
    assert hours <= {"smoke-gpu": 0.25, "pilot": 6.0}[name]


def test_disk_is_that_of_states_and_tokens(tmp_path: Path) -> None:
    disk = planner_of("paper", tmp_path).disk_bytes()
    assert disk["replayed states"] == 24_511_922_176  # tests/replay/test_printed_design.py counts them
    generated = (
        work for work in planner_of("paper", tmp_path).works() if work.stage not in ("training", "replay", "runtime")
    )
    assert disk["responses"] == pytest.approx(16 * sum(work.tokens for work in generated))


def claims_of(name: str, tmp_path: Path) -> list[str]:
    planner = planner_of(name, tmp_path)
    return list(claim_lines(resolve(ROOT, {"run": name}), planner.problems()))


def test_a_claim_has_the_effect_that_the_run_detects_or_what_it_lacks(tmp_path: Path) -> None:
    paper, pilot = claims_of("paper", tmp_path), claims_of("pilot", tmp_path)
    assert not any("the run" in line and line.startswith("     ") for line in paper), "it lacks nothing"
    place = next(number for number, line in enumerate(pilot) if line.startswith(" 8 AIME 2025"))
    # One of three models has 5 of the 15 parts, whose mean effect in the paper is 3.78 points.
    assert pilot[place].split()[-5:] == ["8.8", "pp", "+3.78", "pp", "5/15"]
    assert pilot[place + 1] == "     the run has no model Qwen3.5-4B (and 1 more)"


@pytest.mark.parametrize("name", ["paper", "pilot", "tiny", "smoke"])
def test_a_plan_fits_a_terminal(name: str, tmp_path: Path) -> None:
    lines = cost_lines(planner_of(name, tmp_path))
    assert max(map(len, lines)) <= 80
    if name in ("paper", "pilot"):
        assert max(map(len, claims_of(name, tmp_path))) <= 80


def test_the_page_has_the_pilots_costs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    assert "\n".join(cost_lines(planner_of("pilot", tmp_path))) in page
