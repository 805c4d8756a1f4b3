"""Histories are chosen by name, and the T2 prompt is that of the evaluation."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path
from typing import Any

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.core import user_message
from stair.records.keys import ids_digest
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES
from stair.records.tables import write_table
from stair.sessions.renderer import Exchange, Renderer
from stair.stages.runtime.measure import TimedHistory
from stair.stages.runtime.saved_histories import first_long_ones, saved_histories
from stair.stages.runtime.shapes import random_history

ROOT = Path(__file__).parents[2]
MODEL = "qwen3.5-4b"
PROBLEMS = [f"p{number}" for number in range(6)]
SAMPLES = 4


def hashed(seed: str, name: str) -> bytes:
    """The hash of a name under a seed, written out: each part is typed and has its length before it."""
    parts = (f"s{seed}".encode(), f"s{name}".encode())
    return hashlib.sha256(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


def test_the_first_by_hash_are_chosen_among_the_long_ones() -> None:
    drawn = random.Random(0)
    entries = {f"s{n}-{k}": drawn.randrange(60_000) for n in range(50) for k in range(4)}
    entries["s0-0"] = 32_768
    chosen = first_long_ones(entries, longer_than=32_768, count=16, seed="runtime")
    expected = sorted((name for name in entries if entries[name] > 32_768), key=lambda name: hashed("runtime", name))
    assert chosen == expected[:16]
    names = list(entries)
    drawn.shuffle(names)
    again = {name: entries[name] for name in names}
    assert first_long_ones(again, longer_than=32_768, count=16, seed="runtime") == chosen
    assert first_long_ones(entries, longer_than=32_768, count=16, seed="other") != chosen
    assert "s0-0" not in first_long_ones(entries, longer_than=32_768, count=999, seed="runtime")


def test_as_many_as_there_are() -> None:
    assert first_long_ones({"a": 5, "b": 1}, longer_than=1, count=4, seed="x") == ["a"]


def test_random_histories_are_a_function_of_the_names() -> None:
    def of(name: str, seed: str = "runtime") -> TimedHistory:
        return random_history(name, 1250, prompt=16, question=4, vocabulary=50, seed=seed)

    one = of("random-1")
    assert one == of("random-1")
    assert one.entries == len(one.response) - 1 == 1250
    assert (len(one.prompt), one.span) == (16, (12, 16))
    assert len({one.prompt, of("random-2").prompt, of("random-1", "again").prompt}) == 3


@pytest.fixture
def config(tmp_path: Path) -> Config:
    runtime = {"histories": 3, "longer_than": 4}
    return resolve(ROOT, {"run": "tiny", "results": str(tmp_path), "runtime": runtime})


def saved(config: Config, renderer: Renderer, *, shuffled: bool = False, **changes: Any) -> RunPaths:
    """The tables that a study reads: six problems, a session for each, T1 answers of many lengths."""
    paths = RunPaths.of(config)
    prompt = config.prompts[config.benchmarks["math500"].prompt]
    users = {problem: user_message(prompt, f"What is {problem}?") for problem in PROBLEMS}
    write_table(
        paths.benchmark("math500"),
        BENCHMARK,
        [
            dict(problem_id=p, source_id=p, problem=f"What is {p}?", reference="1", kind="math", choices=None)
            for p in PROBLEMS
        ],
    )
    sessions = {f"s{n}": [PROBLEMS[n], PROBLEMS[(n + 1) % 6]] for n in range(6)}
    write_table(
        paths.evaluation_sessions("math500"),
        EVALUATION_SESSIONS,
        [
            dict(session_id=session, turn=turn, problem_id=problem)
            for session, problems in sessions.items()
            for turn, problem in enumerate(problems, start=1)
        ],
    )
    rows = []
    for number, (session, problems) in enumerate(sessions.items()):
        for sample in range(SAMPLES):
            body = renderer.tokenizer.encode("The sum is 3. " * (1 + (number + sample) % 5), add_special_tokens=False)
            response = [*body, renderer.stop_ids[0]]
            history = [Exchange(users[problems[0]], renderer.visible_answer(response))]
            for turn, ids in enumerate(
                (renderer.prompt_ids([], users[problems[0]]), renderer.prompt_ids(history, users[problems[1]])), start=1
            ):
                rows.append(
                    dict(
                        model=MODEL, benchmark="math500", condition="native", session_id=session, turn=turn,
                        sample=sample, problem_id=problems[turn - 1], seed=0, prompt_tokens=len(ids),
                        response_tokens=len(response), response="", finish_reason="stop",
                        prompt_ids_sha256=ids_digest(ids), response_ids=response, engine="transformers",
                        engine_version="1", attention="sdpa", dtype="float32", device="cpu", history_retokenised=False,
                        captured_tokens=None, bank_tokens=None, bank_sha256=None, bank_source=None, controlled_tokens=0,
                        readout_norm=0.0,
                    )
                    | changes
                )  # fmt: skip
    if shuffled:
        random.Random(1).shuffle(rows)
    write_table(paths.responses(MODEL, "math500", "native"), RESPONSES, rows)
    return paths


def test_a_history_is_a_saved_turn_with_the_prompt_that_followed_it(config: Config, renderer: Renderer) -> None:
    paths = saved(config, renderer)
    found = saved_histories(config, paths, MODEL, renderer)
    assert len(found) == 3
    for history in found:
        header = len(renderer.user_header)
        start, end = history.span
        assert end == len(history.prompt)
        assert history.prompt[start : start + header] == renderer.user_header
        assert renderer.user_header not in [history.prompt[i : i + header] for i in range(start + 1, end)]
        # The answer body: all but the stop token; the last body token has a state, because the stop token follows it.
        assert history.entries == len(history.response) - 1 == renderer.captured_tokens(history.response)
        assert history.entries > 4


def test_rows_in_another_order_give_the_same_histories(config: Config, renderer: Renderer) -> None:
    expected = saved_histories(config, saved(config, renderer), MODEL, renderer)
    assert saved_histories(config, saved(config, renderer, shuffled=True), MODEL, renderer) == expected


def test_a_prompt_that_changed_since_is_refused(config: Config, renderer: Renderer) -> None:
    paths = saved(config, renderer, prompt_ids_sha256="0" * 64)
    with pytest.raises(
        ValueError, match=r"native\.parquet: turn 1 of s\d-\d was given to another prompt.*responses again"
    ):
        saved_histories(config, paths, MODEL, renderer)


def test_a_thinking_models_bank_ends_before_the_last_marker(thinking_renderer: Renderer) -> None:
    end = thinking_renderer.end_of_thinking
    assert end is not None
    assert thinking_renderer.captured_tokens([5, 6, end, 7, thinking_renderer.stop_ids[0]]) == 2
    assert thinking_renderer.captured_tokens([5, 6, 7, 8]) == 3
