"""The facts of a run that a comparison needs: whose models and data it has, and why numbers are missing."""

from __future__ import annotations

from functools import cached_property

import pandas as pd

from stair.config.model import Config
from stair.core import EVALUATION, SHARED_T1
from stair.paper import paper_labels
from stair.paper.absence import lacking
from stair.paper.comparison.printed import SAMPLED, PrintedPlace, kind_of
from stair.paper.labels import Labels
from stair.paper.tables.accuracy import BASES
from stair.stages.data.cleaning_steps import BENCHMARK_PROBLEMS
from stair.statistics.grid import Gap, Responses
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.printed_comparison import (
    Key,
    Spread,
    replication_spreads,
    shared_t1_spreads,
    truncated_spreads,
)


def model_stands_in(config: Config, model: str) -> str | None:
    """Why a model of the run is not the paper's model of its key: of another repository, or of another label.

    A local folder is taken to hold the paper's weights where the configuration gives it the paper's label.
    """
    settings, label = config.models[model], paper_labels.MODELS.get(model)
    if label is None:
        return f"{model} is not in the paper"
    if settings.label != label:
        return f"{model} is {settings.label!r}, not {label!r}"
    if settings.repository not in (None, paper_labels.REPOSITORIES[model]):
        return f"{model} comes from {settings.repository}, not {paper_labels.REPOSITORIES[model]}"
    return None


def benchmark_stands_in(config: Config, benchmark: str) -> str | None:
    """Why a benchmark of the run is not the paper's benchmark of its key: generated, or of another label."""
    settings, label = config.benchmarks[benchmark], paper_labels.BENCHMARKS.get(benchmark)
    if settings.tiny is not None:
        return f"{benchmark} is generated"
    if label is None:
        return f"{benchmark} is not in the paper"
    return None if settings.label == label else f"{benchmark} is {settings.label!r}, not {label!r}"


def stand_ins(config: Config) -> tuple[str, ...]:
    """Everything in a run that stands for a model or benchmark of the paper, each with the reason."""
    models = (model_stands_in(config, key) for key in config.models if key in paper_labels.MODELS)
    benchmarks = (benchmark_stands_in(config, key) for key in config.benchmarks if key in paper_labels.BENCHMARKS)
    return tuple(reason for reason in (*models, *benchmarks) if reason is not None)


class RunFacts:
    """What a comparison needs of a run beside its numbers.

    `responses` are the evaluation's; `shared` and `rows` those of the study with a shared T1 history, as grids and as they are.
    """

    def __init__(self, config: Config, responses: Responses, shared: Responses, rows: pd.DataFrame) -> None:
        self._config, self._responses, self._shared, self._rows = config, responses, shared, rows
        self._problems = {**shared.problems, **responses.problems}
        self._mathematical = [key for key, item in config.benchmarks.items() if item.mathematical]

    @cached_property
    def spreads(self) -> dict[Key, Spread]:
        """The spreads of the evaluation's sampled numbers."""
        return replication_spreads(self._responses, pooled=self._mathematical, gains=BASES)

    @cached_property
    def shared_spreads(self) -> dict[Key, Spread]:
        """The spreads of the study with a shared T1 history."""
        name_of = Labels.of(self._config).name
        return shared_t1_spreads(self._shared, name_of) | truncated_spreads(self._rows, name_of)

    def stands_in(self, place: PrintedPlace) -> str | None:
        """Why a place's models or data are not the paper's; of a pooled number, the first such model or benchmark."""
        models = [paper_labels.MODEL_KEYS[place.model]] if place.model else list(paper_labels.MODELS)
        benchmarks = [paper_labels.BENCHMARK_KEYS[place.benchmark]] if place.benchmark else []
        if not place.model:
            benchmarks = self._mathematical
        reasons = [model_stands_in(self._config, key) for key in models if key in self._config.models]
        reasons += [benchmark_stands_in(self._config, key) for key in benchmarks if key in self._config.benchmarks]
        return next((reason for reason in reasons if reason is not None), None)

    def other_problems(self, place: PrintedPlace) -> str | None:
        """Why sampled numbers of a benchmark, or pooled ones, are not of the paper's problems."""
        if place.artifact == paper_labels.POOLED:
            return self._pooled_otherwise()
        key = paper_labels.BENCHMARK_KEYS.get(place.benchmark, "")
        count = len(self._problems.get(key, ()))
        expected = BENCHMARK_PROBLEMS.get(key)
        return f"{count} problems; the paper has {expected}" if count and count != expected else None

    def _pooled_otherwise(self) -> str | None:
        """Why the pooled numbers are over other models, benchmarks or problems than the paper's."""
        mathematical = self._mathematical
        for names, expected in (
            (list(self._config.models), list(paper_labels.MODELS)),
            (mathematical, list(paper_labels.POOLED_BENCHMARKS)),
        ):
            if set(names) != set(expected):
                return f"pooled over {', '.join(names)}; the paper pools {', '.join(expected)}"
        counts = {key: len(self._problems.get(key, ())) for key in mathematical}
        return next(
            (
                f"{count} problems of {key}; the paper has {BENCHMARK_PROBLEMS[key]}"
                for key, count in counts.items()
                if count and count != BENCHMARK_PROBLEMS[key]
            ),
            None,
        )

    def absent(self, place: PrintedPlace) -> str:
        """Why the run has no number at a place."""
        model = paper_labels.MODEL_KEYS.get(place.model, "")
        benchmark = paper_labels.BENCHMARK_KEYS.get(place.benchmark, "")
        if reason := lacking(self._config, EVALUATION, model, benchmark):
            return reason
        condition = paper_labels.CONDITION_KEYS.get(place.condition, "")
        if model and benchmark and condition:
            if place.artifact in paper_labels.SHARED:
                reason = lacking(self._config, SHARED_T1, model, benchmark, condition)
            elif kind_of(place.artifact, place.metric, place.unit) in SAMPLED:
                if reason := lacking(self._config, EVALUATION, model, benchmark, condition):
                    return reason
                reason = self._gap(model, benchmark, condition, place.turn) or ""
        return reason or "no table or figure of the run gives this number"

    def _gap(self, model: str, benchmark: str, condition: str, turn: str) -> str | None:
        """The first reason of an incomplete grid behind a number."""
        turns = [1] if condition == REFERENCE else list(LATER_TURNS) if turn == MEAN else [int(turn[1:])]
        grids = [self._responses.grid(model, benchmark, condition, each) for each in turns]
        return next((grid.reason for grid in grids if isinstance(grid, Gap)), None)
