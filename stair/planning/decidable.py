"""Which of the paper's claims a configuration can decide, and how small an effect it detects."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from stair.config.model import Config
from stair.graph.outputs import shared_t1_run
from stair.graph.run import Run
from stair.planning.sizes import problems_of
from stair.reporting import paper_labels
from stair.reporting.claims.statements import Claim, Compare, Pooled, Shared, Transitions, Values, read_claims
from stair.reporting.comparison.printed import printed_values
from stair.statistics.paired import detectable_difference, planned_deviation

_REFERENCE = "vanilla"
_LATER = 3
"""Turns of a T2-T4 mean."""


@dataclass(frozen=True)
class Detectable:
    """A part of a claim about response rows."""

    part: str
    problems: int
    detectable: float
    """Points of Avg@k that the run shows in four of five cases."""
    paper: float
    """The paper's effect."""


@dataclass(frozen=True)
class Decidable:
    """A claim, beforehand."""

    claim: Claim
    lacking: str
    """The first thing that the configuration does not have; empty if it has all."""
    parts: tuple[Detectable, ...]

    @property
    def too_small(self) -> int:
        """Parts whose effect in the paper is smaller than the run detects."""
        return sum(part.detectable > part.paper for part in self.parts)


def decidable(run: Run) -> list[Decidable]:
    """Every claim of claims.yaml, in its order."""
    scores = _printed_scores()
    found = []
    for claim in read_claims():
        lacking = next(filter(None, (_lacking(run, test) for test in claim.tests)), "")
        parts = [part for test in claim.tests for part in _parts(run, test, scores)]
        found.append(Decidable(claim, lacking, tuple(parts)))
    return found


def _lacking(run: Run, test: Compare | Pooled | Transitions | Shared | Values) -> str:
    config = run.config
    match test:
        case Compare():
            return _no_rows(config, (*test.models, *test.models_less), (test.benchmark,), (test.greater, test.less))
        case Pooled():
            models, benchmarks = paper_labels.MODELS, paper_labels.POOLED_BENCHMARKS
            return _no_rows(config, models, benchmarks, (test.greater, test.less, _REFERENCE))
        case Transitions():
            return _no_rows(config, (test.model,), (test.benchmark,), (_REFERENCE, "native"))
        case Shared():
            study = shared_t1_run(run).config
            if not study.conditions:
                return "the run has no study with a shared T1 history"
            families = {key: item.family or key for key, item in study.conditions.items()}
            for side in (test.greater, *test.less):
                keys = [key for key, family in families.items() if side in (key, family)]
                if not any((test.model, test.benchmark) in study.evaluated(key) for key in keys):
                    return f"the study with a shared T1 history has no {side} of {test.model} on {test.benchmark}"
            return ""
        case Values():
            stage = "runtime" if "paired median" in str(test.greater) else "replay"
            section = config.runtime if stage == "runtime" else config.replay
            return "" if section is not None and test.model in section.models else f"no {stage} of {test.model}"


def _no_rows(
    config: Config,
    models: Iterable[str],
    benchmarks: Iterable[str],
    conditions: tuple[str, ...],
) -> str:
    for model in models:
        for benchmark in benchmarks:
            for condition in conditions:
                if condition not in config.conditions:
                    return f"the run has no condition {condition}"
                if (model, benchmark) not in config.evaluated(condition):
                    return f"the run has no {condition} of {model} on {benchmark}"
    return ""


def _parts(
    run: Run, test: Compare | Pooled | Transitions | Shared | Values, scores: dict[tuple[str, ...], tuple[float, float]]
) -> Iterator[Detectable]:
    """Avg@k parts that the configuration has, with the paper's Avg@4 and Pass@4 as the expectation.

    Pooled effects, gains of gains, transitions, Pass@k and reported numbers have no size beforehand.
    """
    if isinstance(test, Compare) and not test.models_less and "average" in test.metrics:
        for model in test.models:
            if _no_rows(run.config, (model,), (test.benchmark,), (test.greater, test.less)):
                continue
            for span in test.spans:
                keys = [
                    ("turns", model, test.benchmark, side, "T1" if side == _REFERENCE else span)
                    for side in (test.greater, test.less)
                ]
                turns = _LATER if span == "T2-T4" else 1
                yield from _detectable(run, test.benchmark, f"{model}, {span}", keys, scores, turns)
    if isinstance(test, Shared) and not _lacking(run, test):
        for less in test.less:
            keys = [("shared", test.model, test.benchmark, side, "T2") for side in (test.greater, less)]
            yield from _detectable(run, test.benchmark, f"{test.model}, against {less}", keys, scores, 1)


def _detectable(
    run: Run,
    benchmark: str,
    part: str,
    keys: Sequence[tuple[str, ...]],
    scores: dict[tuple[str, ...], tuple[float, float]],
    turns: int,
) -> Iterator[Detectable]:
    if any(key not in scores for key in keys):
        return
    (greater, greater_pass), (less, less_pass) = (scores[key] for key in keys)
    problems, samples = problems_of(run, benchmark), run.config.evaluation.samples
    try:
        # The spread of rates over problems, from the paper's four samples; then this run's samples and turns.
        four = planned_deviation((greater + less) / 2.0, (greater_pass + less_pass) / 2.0, 4)
    except ValueError:
        return
    deviation = four * math.sqrt(4.0 / (samples * turns))
    yield Detectable(part, problems, detectable_difference(deviation, problems), greater - less)


def _printed_scores() -> dict[tuple[str, ...], tuple[float, float]]:
    """The paper's Avg@4 and Pass@4 by kind of table, model, benchmark, condition and turn, all as keys."""
    models, benchmarks = paper_labels.MODEL_KEYS, paper_labels.BENCHMARK_KEYS
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for printed in printed_values():
        place = printed.place
        kind = "turns" if "turns" in place.artifact else "shared"
        shared = (paper_labels.SHARED_T1, paper_labels.BANK_PREFIXES)
        condition = paper_labels.CONDITION_KEYS.get(place.condition)
        known = place.model in models and place.benchmark in benchmarks and condition is not None
        if place.metric not in ("Avg@4", "Pass@4") or not known or (kind == "shared" and place.artifact not in shared):
            continue
        assert condition is not None
        key = (kind, models[place.model], benchmarks[place.benchmark], condition, place.turn)
        found.setdefault(key, {})[place.metric] = printed.value
    return {key: (two["Avg@4"], two["Pass@4"]) for key, two in found.items() if len(two) == 2}
