"""The histories of a trained model's runtime study: saved T1 turns, chosen by their names (appendix C.4)."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.runtime import Runtime
from stair.core import user_message
from stair.records.keys import ids_digest
from stair.records.rows import BenchmarkProblem, ScheduledTurn
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES
from stair.records.seeds import hash_order
from stair.records.tables import rows_as
from stair.sessions.renderer import Exchange, Renderer, control_span
from stair.stages.runtime.measure import TimedHistory


class _SavedTurn(NamedTuple):
    """The columns of a response row that decide which histories are measured."""

    session_id: str
    sample: int
    turn: int
    prompt_ids_sha256: str
    response_ids: array[int]


def first_long_ones(entries: Mapping[str, int], *, longer_than: int, count: int, seed: str) -> list[str]:
    """The first `count` names with more than `longer_than` entries, in the order of their hashes under `seed`; fewer if there are
    fewer. Names and lengths alone decide.
    """
    return hash_order((name for name, length in entries.items() if length > longer_than), seed)[:count]


def saved_histories(config: Config, paths: RunPaths, model: str, renderer: Renderer) -> list[TimedHistory]:
    """The chosen histories of a run, fewer than configured if fewer banks are long enough.

    Raises:
        ValueError: a table cannot be read, or a saved turn answers another prompt.
    """
    settings = config.runtime
    assert settings is not None
    path = paths.responses(model, settings.benchmark, settings.condition)
    entries: dict[str, int] = {}
    prompts: dict[tuple[str, int], str] = {}
    for saved in rows_as(path, RESPONSES, _SavedTurn):
        name = f"{saved.session_id}-{saved.sample}"
        if saved.turn <= 2:
            prompts[name, saved.turn] = saved.prompt_ids_sha256
        if saved.turn == 1:
            entries[name] = renderer.captured_tokens(saved.response_ids)
    chosen = first_long_ones(
        entries, longer_than=settings.longer_than, count=settings.histories, seed=settings.seed
    )  # fmt: skip
    wanted, responses, places = set(chosen), {}, {}
    for saved in rows_as(path, RESPONSES, _SavedTurn):
        if saved.turn == 1 and (name := f"{saved.session_id}-{saved.sample}") in wanted:
            responses[name], places[name] = tuple(saved.response_ids), saved.session_id
    users, problems = _conversations(config, paths, settings)
    histories = []
    for name in chosen:
        first, second = (users[problem] for problem in problems[places[name]][:2])
        history = [Exchange(first, renderer.visible_answer(responses[name]))]
        both = tuple(renderer.prompt_ids([], first)), tuple(renderer.prompt_ids(history, second))
        for turn, ids in enumerate(both, start=1):
            if prompts.get((name, turn), ids_digest(ids)) != ids_digest(ids):
                raise ValueError(
                    f"{path}: turn {turn} of {name} was given to another prompt than its problems and the template give "
                    "now; make the responses again"
                )
        span = control_span(both[1], renderer.user_header)
        histories.append(TimedHistory(name, both[0], responses[name], both[1], span, entries[name]))
    return histories


def _conversations(config: Config, paths: RunPaths, settings: Runtime) -> tuple[dict[str, str], dict[str, list[str]]]:
    """User messages by problem, and problems by session in turn order."""
    prompt = config.prompts[config.benchmarks[settings.benchmark].prompt]
    users = {
        row.problem_id: user_message(prompt, row.problem)
        for row in rows_as(paths.benchmark(settings.benchmark), BENCHMARK, BenchmarkProblem)
    }
    problems: dict[str, list[str]] = defaultdict(list)
    for turn in rows_as(paths.evaluation_sessions(settings.benchmark), EVALUATION_SESSIONS, ScheduledTurn):
        problems[turn.session_id].append(turn.problem_id)
    return users, problems
