"""Whether a small backbone is worth experimenting on: neither lost nor perfect, at T1 and with history."""

from __future__ import annotations

from pathlib import Path

from stair.backbones.load import load_model
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.conversation.renderer import Exchange, Renderer
from stair.engines.base import Request
from stair.engines.transformers import TransformersEngine
from stair.engines.transformers.engine import DTYPES
from stair.protocol.backbone import sampling_settings
from stair.records.seeds import hash_order, seed_of
from stair.scoring.item import ScoreItem
from stair.scoring.pool import score_many
from stair.tiny.datasets import benchmark_problems
from stair.tiny.problems import Problem, lettered

_SESSIONS = 48
TURNS = 4


def measure(config: Config, paths: RunPaths, model: str, folder: Path) -> dict[str, float]:
    """Native accuracies (fractions) at T1 to T4 of every generated benchmark, by `<benchmark> T<turn>`.

    One trajectory of a few sessions of the benchmark's own problems, under the evaluation's prompts and sampling.
    """
    settings = config.models[model]
    renderer = Renderer.load(folder, thinking=settings.thinking)
    network = load_model(folder, dtype=DTYPES[settings.dtype], device="cpu", attention="sdpa")
    engine = TransformersEngine(
        network,
        tokens=renderer.tokens,
        batch_width=config.transformers.batch_width,
        prefill_width=config.transformers.prefill_width,
        cache_block=config.transformers.cache_block,
    )
    accuracies = {}
    for key, benchmark in config.benchmarks.items():
        if benchmark.tiny is None:
            continue
        prompt = config.prompts[benchmark.prompt]
        sampling = settings.sampling_for(key)
        problems = [_shown(problem) for problem in benchmark_problems(key, benchmark.tiny)]
        columns = [
            hash_order(problems, "acceptance", key, turn, key=[p.text for p in problems]) for turn in range(TURNS)
        ]
        histories: list[list[Exchange]] = [[] for _ in range(min(_SESSIONS, len(problems)))]
        for turn, column in enumerate(columns, start=1):
            asked = dict(enumerate(column[: len(histories)]))
            requests = [
                Request(
                    key=str(number),
                    prompt_ids=tuple(renderer.prompt_ids(histories[number], prompt.replace("{problem}", problem.text))),
                    sampling=sampling_settings(sampling),
                    seed=seed_of("acceptance", key, turn, number),
                    max_new_tokens=sampling.max_new_tokens,
                    stop_ids=renderer.stop_ids,
                )
                for number, problem in asked.items()
            ]
            items = []
            for completion in engine.run(requests):
                number = int(completion.key)
                problem = asked[number]
                user = prompt.replace("{problem}", problem.text)
                histories[number].append(Exchange(user, renderer.visible_answer(completion.response_ids)))
                items.append(
                    ScoreItem(renderer.text(completion.response_ids), problem.answer, benchmark.kind, problem.text)
                )
            scores = score_many(items, workers=0)
            accuracies[f"{key} T{turn}"] = sum(score.correct for score in scores) / len(scores)
    return accuracies


def _shown(problem: Problem) -> Problem:
    """A multiple-choice problem with its options in an order of its own."""
    return lettered(problem, hash_order(range(4), "acceptance", problem.text)) if problem.incorrect else problem
