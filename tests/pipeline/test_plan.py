"""The plan of a configuration: exact sizes, costs that scale, claims that it can decide."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stair.config.paths import START, RunPaths
from stair.config.resolve import resolve
from stair.paper.claims.detectable import claim_lines
from stair.pipeline.plan import CLASSES, SPEEDS, Machine, Measured, Planner, Work, cost_lines

ROOT = Path(__file__).parents[2]


def planner_of(name: str, tmp_path: Path, measured: Measured | None = None, **changes: Any) -> Planner:
    config = resolve(ROOT, {"run": name, "results": str(tmp_path), **changes})
    return Planner(config, RunPaths.of(config), measured)


def works_of(name: str, tmp_path: Path, stage: str, model: str = "", **changes: Any) -> list[Work]:
    works = planner_of(name, tmp_path, **changes).works()
    return [work for work in works if work.stage == stage and model in (work.model, "")]


def lines_of(planner: Planner, gpus: int = 1, memory: float = 80) -> list[str]:
    return cost_lines(planner, Machine(2, gpus, memory))


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


def test_the_problems_of_a_local_file_are_those_of_the_file_or_are_said_to_be_assumed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    benchmarks = {"math500": {"tiny": None, "path": "ours.jsonl"}}
    planner = planner_of("smoke", tmp_path, benchmarks=benchmarks)
    assert "1,000 problems of benchmarks.math500: ours.jsonl does not exist" in " ".join(lines_of(planner))
    (tmp_path / "ours.jsonl").write_text("{}\n{}\n\n{}\n")
    monkeypatch.setenv(START, str(tmp_path))  # a run's jobs and display work in the run's folder
    assert planner.problems() == {"math500": 3} and "assumed" not in " ".join(lines_of(planner))


def test_hours_are_tokens_over_tokens_per_second(tmp_path: Path) -> None:
    once, twice = (works_of("paper", tmp_path, "evaluation", evaluation={"samples": n}) for n in (4, 8))
    assert sum(work.tokens for work in twice) == 2 * sum(work.tokens for work in once)
    assert sum(work.hours for work in twice) == pytest.approx(2 * sum(work.hours for work in once))
    (vanilla,) = (work for work in once if work[1:3] == ("qwen3-4b-instruct", "vanilla") and work.responses == 120)
    # AIME 2025, 6,000 tokens a response, in batches of 16 rows.
    assert vanilla.tokens == 120 * 6_000
    assert vanilla.hours == vanilla.tokens / (16 * SPEEDS["decoding"][CLASSES.index("4B")]) / 3600
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
    one, many = (next(line for line in lines_of(planner, gpus=gpus) if line.startswith("wall")) for gpus in (1, 4))
    chain = one.rpartition(" ")[2]
    assert one.startswith("wall time   1h") and " with 1 GPU; " in one
    assert many == f"wall time   {chain} with 4 GPUs; longest chain {chain}"
    assert "core" in next(line for line in lines_of(planner_of("tiny", tmp_path)) if line.startswith("wall"))


def test_more_workers_of_a_training_are_named_where_they_shorten_the_run(tmp_path: Path) -> None:
    """The hint is the plan of the run with this setting."""
    planner = planner_of("paper", tmp_path)
    (hint,) = (line.split() for line in lines_of(planner, gpus=8) if "training.workers" in line)
    wall = hint[0]
    with_hint = planner_of("paper", tmp_path, training={"workers": int(hint[3].strip(",").rpartition("=")[2])})
    assert any(line.startswith(f"wall time   {wall} ") for line in lines_of(with_hint, gpus=8))
    assert not any("training.workers" in line for line in (*lines_of(planner), *lines_of(with_hint, gpus=8)))


def test_a_job_that_does_not_fit_a_gpu_is_named_with_what_to_do(tmp_path: Path) -> None:
    def named(name: str, memory: float, **changes: Any) -> str:
        lines = lines_of(planner_of(name, tmp_path, **changes), memory=memory)
        return "\n".join(lines).partition("GPU memory")[2].partition("\ndisk")[0]

    large = named("paper", 48)
    assert "training qwen3.5-9b can need 64 GiB" in large and large.count("can need") == 1
    limit = {"rollout_sampling": {"max_new_tokens": int(re.findall("max_new_tokens to ([0-9]+)", large)[0])}}
    assert named("paper", 48, models={"qwen3.5-9b": limit}) == "", "the advice suffices"
    assert named("paper", 80) == "" and named("pilot", 24) == ""
    assert named("paper", 16).count("can need") == 5, "all trainings, and the weights of the 9B model"


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


def test_a_claim_has_what_the_run_shows_of_it_or_what_it_lacks(tmp_path: Path) -> None:
    paper, pilot = claims_of("paper", tmp_path), claims_of("pilot", tmp_path)
    assert not any("the run has" in line and line.startswith("Claim") for line in paper), "it lacks nothing"
    (head,) = (line for line in paper if line.startswith("claim "))
    assert head.split() == ["claim", "chance", "detectable", "paper", "samples"]
    # One of three models has 5 of the 15 parts, whose mean effect in the paper is 3.78 points.
    (eighth,) = (line for line in pilot if line.startswith(" 8 AIME 2025"))
    assert eighth.split()[-6:] == ["23%", "8.8", "pp", "+3.78", "pp", "none"]
    assert "Claim 8: 5 of 15 parts: the run has no model Qwen3.5-4B (and 1 more)" in pilot


def test_more_samples_than_suffice_have_a_chance_of_four_in_five(tmp_path: Path) -> None:
    """Claim 10 has a chance of 63% with four samples, and needs eleven."""
    config = resolve(ROOT, {"run": "paper", "evaluation": {"samples": 11}})
    lines = claim_lines(config, Planner(config, RunPaths.of(config)).problems())
    (tenth,) = (line for line in lines if line.startswith("10 "))
    assert 0.74 < int(tenth.split()[-6].rstrip("%")) / 100 < 0.86


def test_a_run_of_other_models_has_one_line_on_claims(tmp_path: Path) -> None:
    (line,) = claims_of("tiny", tmp_path)
    assert line.startswith("The paper's claims: no numbers")


@pytest.mark.parametrize("name", ["paper", "pilot", "tiny", "smoke"])
def test_a_plan_fits_a_terminal(name: str, tmp_path: Path) -> None:
    lines = lines_of(planner_of(name, tmp_path))
    assert max(map(len, lines)) <= 80
    if name in ("paper", "pilot"):
        assert max(map(len, claims_of(name, tmp_path))) <= 80


def test_the_page_has_the_pilots_costs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    assert "\n".join(lines_of(planner_of("pilot", tmp_path))) in page
