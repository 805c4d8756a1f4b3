"""The plan of a configuration: exact sizes, costs that scale, claims that it can decide."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.pipeline.planning.claims import Decidable, decidable
from stair.pipeline.planning.planned_jobs import PlannedJob, longest_chain, planned_jobs, wall_seconds
from stair.pipeline.planning.run_plan import Plan, cost_lines, make_plan
from stair.pipeline.planning.work import Calibration, CostModel, Work
from stair.pipeline.run import Run
from tests.listed import job as listed_job
from tests.listed import listed

ROOT = Path(__file__).parents[2]


def run_of(name: str, tmp_path: Path, **changes: Any) -> Run:
    config = resolve(ROOT, {"run": name, "results": str(tmp_path), **changes})
    return Run(config, RunPaths.of(config))


def plan_of(name: str, tmp_path: Path, **changes: Any) -> Plan:
    return make_plan(run_of(name, tmp_path, **changes).config, listed(name))


def responses(run: Run, stage: str, model: str) -> float:
    jobs = planned_jobs(CostModel(run), listed("paper"))
    return sum(job.work.responses for job in jobs if (job.stage, job.model) == (stage, model))


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
    assert max(line.gpu_gib for line in plan.lines) < 79


def test_gpu_memory_is_that_of_responses_at_their_limits(tmp_path: Path) -> None:
    """Of the longest turn of a session, and of the longest history of the replay."""

    def memory(stage: str, **limits: int) -> float:
        model = {name: {"max_new_tokens": limit} for name, limit in limits.items()}
        plan = plan_of("paper", tmp_path, models={"qwen3-4b-instruct": model})
        return next(line.gpu_gib for line in plan.lines if (line.stage, line.model) == (stage, "qwen3-4b-instruct"))

    trained = [memory("training", rollout_sampling=limit) for limit in (4_096, 8_192, 16_384)]
    # LoRA's activations grow with all text; weights and the reserve are below 11 GiB.
    assert trained[2] - trained[1] == pytest.approx(2 * (trained[1] - trained[0]), rel=0.01)
    assert 33 < trained[2] < 79
    assert memory("replay", evaluation_sampling=4_096) < memory("replay", evaluation_sampling=16_384) < 79


def test_a_job_comes_after_the_jobs_that_make_its_inputs(tmp_path: Path) -> None:
    """Shards share the work of their output equally; a download is no job of the plan."""
    place = {"model": "qwen3.5-4b", "benchmark": "aime2025", "condition": "vanilla"}
    shards = [
        listed_job("evaluation_shard", ("b.parquet", "/hub/model"), (f"{n}.json",), **place, shard=str(n), of="2")
        for n in range(2)
    ]
    jobs = [
        listed_job("fetch_hub", outputs=("/hub/model",)),
        listed_job("benchmark", ("/data/b.jsonl",), ("b.parquet",), benchmark="aime2025"),
        *shards,
        listed_job("seal_evaluation", ("b.parquet", "0.json", "1.json"), ("r.parquet",), **place),
    ]
    learned = Calibration({("benchmark", ""): 2.0, ("seal_evaluation", "qwen3.5-4b"): 3.0})
    planned = planned_jobs(CostModel(run_of("paper", tmp_path), learned), jobs)
    assert [job.rule for job in planned] == ["benchmark", "seal_evaluation", *["evaluation_shard"] * 2]
    assert [job.after for job in planned] == [set(), {0, 2, 3}, {0}, {0}]
    assert [(job.stage, job.model) for job in planned] == [("data", ""), *[("evaluation", "qwen3.5-4b")] * 3]
    assert [job.work.responses for job in planned] == [0, 0, 60, 60]
    assert (planned[0].work.seconds, planned[1].work.seconds) == (2 * 6.0, 3 * 6.0)


def test_wall_time_follows_from_the_chain_and_the_gpus() -> None:
    def job(seconds: float, gpus: int, *after: int) -> PlannedJob:
        return PlannedJob("r", "s", "", Work(seconds), gpus, 1, frozenset(after))

    jobs = [job(1, 0), job(10, 1, 0), job(10, 1, 0), job(4, 1, 0), job(2, 0, 1, 2, 3)]
    assert longest_chain(jobs) == 13
    assert [wall_seconds(jobs, gpus) for gpus in (1, 2, 3)] == [27, 17, 13]
    assert wall_seconds([job(5, 4)], 1) == 5


@cache
def claims_of(name: str, samples: int | None = None) -> dict[int, Decidable]:
    """A run's claims by their numbers; the simulated rows behind them take seconds."""
    return claims_with(name, **({"evaluation": {"samples": samples}} if samples else {}))


def claims_with(name: str, **changes: Any) -> dict[int, Decidable]:
    return {each.claim.number: each for each in decidable(run_of(name, Path("results"), **changes))}


def test_claims_need_their_models() -> None:
    paper, pilot = claims_of("paper"), claims_of("pilot")
    assert not any(each.lacking for each in paper.values())
    assert {number for number, each in paper.items() if each.size is None} == {4, 5, 6, 15}
    assert (
        "qwen3.5-4b" in pilot[8].lacking and "[qwen3-4b-instruct, qwen3.5-4b, qwen3.5-9b on aime2025]" in pilot[8].text
    )
    size = pilot[8].size
    assert size is not None and size.parts == 5, "one of three models"
    assert size.paper == pytest.approx((3.33 + 3.33 + 4.17 + 3.61 + 4.44) / 5, abs=0.01)
    assert f"of the parts that this run has (5): {size.shown:.0%}; {size.detectable:.1f} pp; +3.78 pp" in pilot[8].text


def test_the_samples_of_a_claim_are_the_fewest_that_detect_it() -> None:
    paper = claims_of("paper")
    for number in (8, 13):
        size = paper[number].size
        assert size is not None and size.samples is not None
        assert (size.shown >= 0.8) == (size.samples <= 4)
        enough = claims_of("paper", size.samples)[number].size
        assert enough is not None
        # The simulated rows of another number of samples are other rows.
        assert enough.detectable == pytest.approx(enough.paper, rel=0.25)
    none = paper[1].size
    assert none is not None and none.samples is None, "500 problems differ too much for 1.25 points"


def test_a_replay_at_other_layers_does_not_decide_the_papers_claims() -> None:
    def lacking(**replay: Any) -> dict[int, str]:
        # The claims of the replay need no other benchmark.
        found = claims_with("paper", replay=replay, select={"benchmarks": ["math500"]})
        return {number: each.lacking for number, each in found.items()}

    other = lacking(layers=[3, 11, 19], analysis={"neighborhoods": [8, 16], "reported_layer": 19})
    assert "replay.layers does not list 27" in other[6]
    assert "neighborhoods does not list 32" in other[5]
    assert not other[4]
    assert "reported_layer is not 19" in lacking(analysis={"reported_layer": 11})[4]


def test_a_replays_disk_is_the_size_of_its_states(tmp_path: Path) -> None:
    (line,) = (line for line in plan_of("paper", tmp_path).lines if line.stage == "replay")
    assert line.disk_gb == pytest.approx(24.511922176)  # tests/replay/test_printed_design.py counts them


def test_a_replays_seconds_are_those_of_its_cells_references_and_prefixes(tmp_path: Path) -> None:
    costs = CostModel(run_of("paper", tmp_path))
    shards = [job for job in planned_jobs(costs, listed("paper")) if job.stage == "replay" and job.work.gpu_bytes]
    assert len(shards) == 8
    shape, histories, response = costs.shape("qwen3-4b-instruct"), 2 * 128, 1040
    # Padded to 800 tokens each; before them, three turns of 150 tokens and a response.
    tokens = (49_152 + 12_288 + 256) * 800 + histories * 3 * (150 + response)
    passes = (49_152 + 12_288 + 256) / 16 + histories * 3
    seconds = costs.prefill(shape, tokens) + passes * shape.layers * costs.layer_step(shape)
    assert sum(job.work.seconds for job in shards) == pytest.approx(8 * costs.start(shape) + seconds)


def test_the_page_has_the_pilots_costs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "planning.md").read_text(encoding="utf-8")
    assert "\n".join(cost_lines(make_plan(run_of("pilot", tmp_path).config, listed("pilot")))) in page
