"""The native accuracy of a small backbone, which must lie between chance and perfect at T1 and with history."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from answer_grader import Item, Kind, grade_many

from stair.config.backbones import Model
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import TURNS, user_message
from stair.engines.base import Request
from stair.engines.transformers import TransformersEngine
from stair.models.device_and_dtype import DTYPES
from stair.models.load import load_model
from stair.records.seeds import hash_order, seed_of
from stair.sessions.backbone import sampling_settings
from stair.sessions.renderer import Exchange, Renderer
from stair.tiny.generated_sets import benchmark_problems
from stair.tiny.problems import Problem, lettered

_SESSIONS = 48


def measure(config: Config, paths: RunPaths, model: str, folder: Path) -> dict[str, float]:
    """Native accuracies (fractions) at T1 to T4 of every generated benchmark, by `<benchmark> T<turn>`.

    The same number of sessions of each benchmark's own problems, under the evaluation's prompts and sampling.
    """
    settings = config.models[model]
    renderer = Renderer.load(folder, thinking=settings.thinking)
    network = load_model(folder, dtype=DTYPES[settings.dtype], device="cpu", attention="sdpa")
    sessions = [
        _Session(key, benchmark.kind, config.prompts[benchmark.prompt], number, problems)
        for key, benchmark in config.benchmarks.items()
        if benchmark.tiny is not None
        for number, problems in enumerate(_sessions(key, benchmark.tiny))
    ]
    # A turn of all benchmarks is one batch, because a step of more rows costs hardly more.
    engine = TransformersEngine(
        network,
        tokens=renderer.tokens,
        batch_width=len(sessions),
        prefill_width=config.transformers.prefill_width,
        cache_block=config.transformers.cache_block,
    )
    verdicts: dict[str, list[bool]] = {
        f"{each.benchmark} T{turn + 1}": [] for each in sessions for turn in range(TURNS)
    }
    for turn in range(TURNS):
        session_of = {str(place): session for place, session in enumerate(sessions)}
        items, names = [], []
        for completion in engine.run(
            [_request(key, each, turn, settings, renderer) for key, each in session_of.items()]
        ):
            session = session_of[completion.key]
            problem = session.problems[turn]
            answer = renderer.visible_answer(completion.response_ids)
            session.history.append(Exchange(session.user(turn), answer))
            text = renderer.text(completion.response_ids)
            items.append(Item(text, problem.answer, session.kind, problem.text))
            names.append(f"{session.benchmark} T{turn + 1}")
        for name, verdict in zip(names, grade_many(items, workers=0), strict=True):
            verdicts[name].append(verdict.correct)
    return {name: sum(each) / len(each) for name, each in verdicts.items()}


@dataclass
class _Session:
    """Problems of a benchmark in one conversation."""

    benchmark: str
    kind: Kind
    prompt: str
    number: int
    problems: list[Problem]
    history: list[Exchange] = field(default_factory=list)

    def user(self, turn: int) -> str:
        return user_message(self.prompt, self.problems[turn].text)


def _sessions(benchmark: str, size: int) -> list[list[Problem]]:
    """The problems of a benchmark's sessions. Every turn has its own order, and a small benchmark repeats in further orders."""
    problems = [_with_options(problem) for problem in benchmark_problems(benchmark, size)]
    texts = [problem.text for problem in problems]
    sessions: list[list[Problem]] = []
    for repetition in range(-(-_SESSIONS // size)):
        columns = [hash_order(problems, "acceptance", benchmark, turn, repetition, key=texts) for turn in range(TURNS)]
        sessions += [list(row) for row in zip(*columns, strict=True)]
    return sessions[:_SESSIONS]


def _request(key: str, session: _Session, turn: int, settings: Model, renderer: Renderer) -> Request:
    sampling = settings.sampling_for(session.benchmark)
    return Request(
        key=key,
        prompt_ids=tuple(renderer.prompt_ids(session.history, session.user(turn))),
        sampling=sampling_settings(sampling),
        seed=seed_of("acceptance", session.benchmark, turn + 1, session.number),
        max_new_tokens=sampling.max_new_tokens,
        stop_ids=renderer.stop_ids,
    )


def _with_options(problem: Problem) -> Problem:
    """A multiple-choice problem with its options in an order of its own."""
    return lettered(problem, hash_order(range(4), "acceptance", problem.text)) if problem.incorrect else problem
