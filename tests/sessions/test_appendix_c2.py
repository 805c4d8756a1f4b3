"""Appendix C.2 of the paper: sessions and sampling. A test for each sentence that can be tested, named after it."""

from __future__ import annotations

import importlib
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.engines.identity import attention_path
from stair.records.keys import ids_digest
from stair.records.schemas import BENCHMARK, RESPONSES, SCORED
from stair.records.seeds import seed_of
from stair.records.tables import read_table, write_table
from stair.sessions.renderer import Exchange
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from tests.scored import score
from tests.sessions.conftest import Finished
from tests.sessions.protocol_cases import PROBLEMS, Rows

BENCHMARKS = ("math500", "aime2025", "amc23", "gpqa_diamond")
THINKING = ("qwen3.5-4b", "qwen3.5-9b")


@pytest.fixture(scope="module")
def paper() -> Config:
    return resolve(Path(__file__).parents[2], {"run": "paper"})


OWN = {"condition", "session_id", "bank_tokens", "captured_tokens"}
"""What a reused first turn may say of its own."""


def without_own(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in OWN}


def schedule(count: int) -> Rows:
    return evaluation_sessions([f"p{number}" for number in range(count)], "bench", "sessions")


def trajectories(rows: Rows) -> dict[tuple[str, int], Rows]:
    found: dict[tuple[str, int], Rows] = defaultdict(list)
    for row in rows:
        found[row["session_id"], row["sample"]].append(row)
    return found


def test_the_assignments_are_fixed_across_models_and_conditions(finished: Finished) -> None:
    """A schedule has neither a model's nor a condition's name in it, and all conditions follow it."""
    columns = {"session_id", "turn", "problem_id"}
    assert all(not {"model", "condition"} & set(row) and columns <= set(row) for row in schedule(5))
    places = [
        [(row["session_id"], row["turn"], row["sample"], row["problem_id"]) for row in finished.rows[condition]]
        for condition in ("native", "stair", "own_first")
    ]
    assert places[0] == places[1] == places[2]


def test_each_session_is_run_along_four_trajectories(paper: Config, finished: Finished) -> None:
    assert paper.evaluation.samples == 4
    samples = defaultdict(set)
    for row in finished.rows["native"]:
        samples[row["session_id"]].add(row["sample"])
    assert {frozenset(found) for found in samples.values()} == {frozenset(range(finished.study.samples))}


@pytest.mark.parametrize("condition", ["native", "stair"])
def test_each_problem_has_four_sampled_responses_per_turn(paper: Config, finished: Finished, condition: str) -> None:
    """One of each trajectory; the small study has two."""
    assert paper.evaluation.samples == 4
    samples = Counter((row["problem_id"], row["turn"], row["sample"]) for row in finished.rows[condition])
    wanted = {(problem, turn, sample) for problem in PROBLEMS for turn in range(1, 5) for sample in range(2)}
    assert samples == Counter(wanted)


@pytest.mark.parametrize("condition", ["native", "stair"])
def test_a_later_turn_retains_the_responses_of_its_own_trajectory(finished: Finished, condition: str) -> None:
    """Of its own and of no other: with another trajectory's answers the prompt is another, wherever they differ."""
    renderer, found = finished.study.renderer, trajectories(finished.rows[condition])
    crossed = 0
    for (session, sample), rows in found.items():
        others = found[session, 1 - sample]
        for row in rows[1:]:
            users = [PROBLEMS[each["problem_id"]].user for each in rows[: row["turn"]]]
            answers, theirs = (
                [renderer.visible_answer(each["response_ids"]) for each in source[: row["turn"] - 1]]
                for source in (rows, others)
            )
            own, other = (
                renderer.prompt_ids([Exchange(*pair) for pair in zip(users, said, strict=False)], users[-1])
                for said in (answers, theirs)
            )
            assert row["prompt_ids_sha256"] == ids_digest(own)
            if answers != theirs:
                assert row["prompt_ids_sha256"] != ids_digest(other)
                crossed += 1
    assert crossed > 0


def test_seeds_depend_on_benchmark_problem_and_sample_alone(finished: Finished) -> None:
    """So a problem and sample have one seed at every position and under every condition."""
    seeds = defaultdict(set)
    for condition in ("vanilla", "native", "stair", "own_first"):
        for row in finished.rows[condition]:
            seeds[row["problem_id"], row["sample"]].add(row["seed"])
    assert {len(found) for found in seeds.values()} == {1}
    assert len(set.union(*seeds.values())) == len(seeds), "no two problems or samples share one"
    assert seed_of("evaluation", "a", "p", 0) != seed_of("evaluation", "b", "p", 0)


def test_vanilla_evaluates_every_problem_independently(finished: Finished) -> None:
    renderer = finished.study.renderer
    rows = finished.rows["vanilla"]
    assert {row["turn"] for row in rows} == {1}
    for row in rows:
        assert row["prompt_ids_sha256"] == ids_digest(renderer.prompt_ids([], PROBLEMS[row["problem_id"]].user))


@pytest.mark.parametrize("condition", ["native", "stair"])
def test_vanillas_saved_responses_are_the_shared_t1(finished: Finished, condition: str) -> None:
    saved = {(row["problem_id"], row["sample"]): without_own(row) for row in finished.rows["vanilla"]}
    first = [row for row in finished.rows[condition] if row["turn"] == 1]
    assert len(first) == 5 * 2
    assert all(without_own(row) == saved[row["problem_id"], row["sample"]] for row in first)
    asked = {request.prompt_ids for request in finished.engines[condition].requests.values()}
    opening = {tuple(finished.study.renderer.prompt_ids([], PROBLEMS[row["problem_id"]].user)) for row in first}
    assert not asked & opening, "nothing was generated for a T1 that is reused"


def test_each_condition_continues_from_its_own_generated_history(finished: Finished) -> None:
    """A later prompt of STAIR's is Native's just where their visible histories are; problems and seeds are the same."""
    native, stair = trajectories(finished.rows["native"]), trajectories(finished.rows["stair"])
    visible = finished.study.renderer.visible_answer
    parted = 0
    for place, rows in native.items():
        for turn in (3, 4):
            ours, theirs = (
                [visible(row["response_ids"]) for row in found[place][: turn - 1]] for found in (native, stair)
            )
            one, other = rows[turn - 1], stair[place][turn - 1]
            assert (one["prompt_ids_sha256"] == other["prompt_ids_sha256"]) == (ours == theirs)
            assert (one["seed"], one["problem_id"]) == (other["seed"], other["problem_id"])
            parted += ours != theirs
    assert parted > 0


def test_native_and_stair_are_scored_against_the_same_reference_answers(finished: Finished, tmp_path: Path) -> None:
    """A problem has one reference, which no response row carries: another one changes the verdicts of both alike."""
    assert "reference" not in {*RESPONSES.names, *SCORED.names}
    paths = RunPaths(tmp_path)
    for condition in ("native", "stair"):
        rows = [row | {"response": r"It is \boxed{B}."} for row in finished.rows[condition]]
        write_table(paths.responses("m", "gpqa_diamond", condition), RESPONSES, rows)
    for letters in ("ABABA", "BBABC"):
        problems = [
            dict(problem_id=key, source_id=key, problem="Which?", reference=letter, kind="choice", choices=list("wxyz"))
            for key, letter in zip(PROBLEMS, letters, strict=True)
        ]
        write_table(paths.benchmark("gpqa_diamond"), BENCHMARK, problems)
        for condition in ("native", "stair"):
            score(paths, "m", "gpqa_diamond", condition)
            for row in read_table(paths.scored("m", "gpqa_diamond", condition), SCORED):
                assert row["correct"] == (letters[list(PROBLEMS).index(row["problem_id"])] == "B")


def test_generation_uses_flash_attention_2_where_it_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """And the ordinary attention elsewhere: the path follows from the environment, and every row says which it was."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    assert attention_path("auto", "bfloat16", "cuda") == "sdpa"
    (tmp_path / "flash_attn").mkdir()
    (tmp_path / "flash_attn" / "__init__.py").touch()
    importlib.invalidate_caches()
    assert attention_path("auto", "bfloat16", "cuda") == "sdpa", "another package has a module of this name"
    (described := tmp_path / "flash_attn-2.8.3.dist-info").mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n")
    (described / "top_level.txt").write_text("flash_attn\n")
    importlib.invalidate_caches()
    for device in ("auto", "cuda"):
        assert attention_path("auto", "bfloat16", device) == "flash_attention_2"
    assert attention_path("auto", "bfloat16", "cpu") == attention_path("auto", "float32", "cuda") == "sdpa"
    assert attention_path("sdpa", "bfloat16", "cuda") == "sdpa"


def test_the_9b_model_runs_in_bf16(paper: Config) -> None:
    assert paper.models["qwen3.5-9b"].dtype == "bfloat16"


@pytest.mark.parametrize(
    ("model", "temperature", "top_p", "presence"),
    [("qwen3-4b-instruct", 0.7, 0.8, 0.0), *((model, 1.0, 0.95, 1.5) for model in THINKING)],
)
def test_the_recorded_decoding_settings(
    paper: Config, model: str, temperature: float, top_p: float, presence: float
) -> None:
    for benchmark in BENCHMARKS:
        found = paper.models[model].sampling_for(benchmark)
        assert (found.temperature, found.top_p, found.top_k) == (temperature, top_p, 20)
        assert (found.presence_penalty, found.min_p, found.repetition_penalty) == (presence, 0.0, 1.0)


def test_the_output_limits_by_model_and_benchmark(paper: Config) -> None:
    limits = {
        model: {benchmark: paper.models[model].sampling_for(benchmark).max_new_tokens for benchmark in BENCHMARKS}
        for model in paper.models
    }
    assert set(limits["qwen3-4b-instruct"].values()) == {16_384}
    for model in THINKING:
        assert limits[model] == {"math500": 81_920, "aime2025": 81_920, "amc23": 32_768, "gpqa_diamond": 32_768}


@pytest.mark.parametrize("condition", ["vanilla", "native", "stair"])
def test_output_limits_count_newly_generated_tokens(finished: Finished, condition: str) -> None:
    """Nine in the small study, whatever the prompt's length and the turn."""
    at_limit = [row for row in finished.rows[condition] if row["finish_reason"] == "length"]
    assert at_limit
    assert {row["response_tokens"] for row in at_limit} == {9}
    assert max(row["response_tokens"] for row in finished.rows[condition]) == 9


def test_no_system_message_is_added(finished: Finished) -> None:
    renderer = finished.study.renderer
    for request in finished.engines["native"].requests.values():
        text = renderer.tokenizer.decode(request.prompt_ids)
        assert text.startswith("<|im_start|>user\n")
        assert "<|im_start|>system" not in text


def test_thinking_is_off_for_instruct_and_on_for_the_others(paper: Config, finished: Finished) -> None:
    assert {key: model.thinking for key, model in paper.models.items()} == {
        "qwen3-4b-instruct": False, "qwen3.5-4b": True, "qwen3.5-9b": True,
    }  # fmt: skip
    renderer = finished.study.renderer
    for request in finished.engines["native"].requests.values():
        opened = renderer.tokenizer.decode(request.prompt_ids).endswith("<|im_start|>assistant\n<think>\n")
        assert opened == renderer.thinking


def test_the_prompts_read_as_the_paper_has_them(paper: Config) -> None:
    assert paper.prompts["math"] == (
        "Solve the following problem. Show your reasoning, and put the final answer inside \\boxed{}.\nProblem: {problem}"
    )
    assert paper.prompts["choice"] == (
        "Answer the following multiple-choice question. Reason carefully. Put your final answer, consisting of only the "
        "choice letter, inside \\boxed{}, for example \\boxed{C}.\nQuestion:\n{problem}"
    )
    assert {key: item.prompt for key, item in paper.benchmarks.items()} == {
        "math500": "math", "aime2025": "math", "amc23": "math", "gpqa_diamond": "choice",
    }  # fmt: skip
