"""Which of the paper's claims a configuration can decide, by the rows that the paper's scores let one expect."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import NamedTuple

from scipy import stats

from stair.config.model import Config
from stair.paper import paper_labels
from stair.paper.claims.parts import Evidence, parts_of, seeds_of
from stair.paper.claims.statements import (
    Claim,
    Compare,
    Pooled,
    Shared,
    Test,
    Transitions,
    Values,
    paper_effects,
    read_claims,
)
from stair.paper.comparison.printed import printed_values
from stair.paper.labels import Labels
from stair.pipeline.planning.sizes import problems_of
from stair.pipeline.run import Run
from stair.statistics.grid import Gap, TurnKey
from stair.statistics.intervals import LEVEL
from stair.statistics.joint import joint_error
from stair.statistics.metrics import REFERENCE
from stair.statistics.named_random import named_generator
from stair.statistics.paired import POWER
from stair.statistics.simulated_runs import Expected, simulated_responses

_PROBLEMS = 250
"""The simulated rows have at least so many problems of each benchmark, in the run's proportions."""
_SAMPLES = 16
"""Samples in a second simulation, which separates the spread that more samples reduce from the spread between problems."""


@dataclass(frozen=True)
class Size:
    """The joint effect of a claim's parts, and what a run of this size detects of it."""

    parts: int
    """The parts that the run has; `paper` is their joint effect."""
    paper: float
    unit: str
    detectable: float
    """The effect that the run shows in four of five cases."""
    shown: float
    """The probability that the run shows the paper's effect."""
    samples: int | None
    """The fewest samples of each problem that raise `shown` to four of five; None if no number suffices."""


@dataclass(frozen=True)
class Decidable:
    claim: Claim
    lacking: str
    """The first thing that the configuration does not have; empty if it has all."""
    needs: tuple[str, ...]
    """The models and benchmarks of its tests: a run of these alone can test it."""
    size: Size | None
    """None for numbers of the replay and the runtime study, and for a run without any of its parts."""

    @property
    def text(self) -> str:
        size = self.size
        verdict = f"cannot be decided: {self.lacking}" if self.lacking else "" if size else "can be tested"
        if size is not None:
            samples = "no number of samples suffices"
            if size.samples is not None:
                samples = f"{size.samples} sample{'s' if size.samples > 1 else ''}"
            sizes = f"{size.shown:.0%}; {size.detectable:.1f} {size.unit}; {size.paper:+.2f} {size.unit}; {samples}"
            verdict += f"\n     of the parts that this run has ({size.parts}): {sizes}" if self.lacking else sizes
        return f"{self.claim.number:2d} {self.claim.title}: {verdict}\n     [{'; '.join(self.needs)}]"


def claims_text(claims: Iterable[Decidable]) -> str:
    """The claims that a run can decide, for `stair plan`."""
    head = """Claims, by the mean effect over their parts: how often a run of this size shows the paper's effect; the effect that
it shows in four of five cases; the paper's effect; the samples of each problem that suffice for the paper's effect.
A run of the models and benchmarks in brackets can test the claim."""
    return "\n".join([head, *(each.text for each in claims)])


def decidable(run: Run) -> list[Decidable]:
    """Every claim of claims.yaml, in its order."""
    claims = read_claims()
    sizes = _sizes(run, [claim for claim in claims if not any(isinstance(test, Values) for test in claim.tests)])
    return [
        Decidable(
            claim,
            next(filter(None, (_first_lacking(run, test) for test in claim.tests)), ""),
            tuple(dict.fromkeys(map(_scope, claim.tests))),
            sizes.get(claim.number),
        )
        for claim in claims
    ]


def _sizes(run: Run, claims: Sequence[Claim]) -> dict[int, Size]:
    """What the run detects of each claim, by its number."""
    effects, samples = paper_effects(), run.config.evaluation.samples
    few, many = joint_errors(run, claims, samples), joint_errors(run, claims, _SAMPLES)
    found = {}
    for number, planned in few.items():
        paper = sum(effects[number].parts[part] for part in planned.parts) / len(planned.parts)
        quantile = float(stats.t.ppf((1.0 + LEVEL) / 2.0, planned.smallest - 1))
        detects = quantile + float(stats.t.ppf(POWER, planned.smallest - 1))
        # The variance: a part between problems, and a part that the samples reduce.
        variance, least = planned.error**2, many[number].error ** 2
        reduced = max(0.0, (variance - least) / (1.0 / samples - 1.0 / _SAMPLES)) if samples < _SAMPLES else 0.0
        room = (paper / detects) ** 2 - (variance - reduced / samples)
        found[number] = Size(
            len(planned.parts),
            paper,
            effects[number].unit,
            detects * planned.error,
            float(stats.nct.sf(quantile, planned.smallest - 1, paper / planned.error)) if planned.error else 1.0,
            max(1, ceil(reduced / room)) if room > 0.0 else None,
        )
    return found


class JointError(NamedTuple):
    """The standard error of the joint effect of a claim's parts that a run has."""

    error: float
    smallest: int
    """The problems of the smallest set."""
    parts: tuple[int, ...]
    """Their places among the claim's parts."""


def joint_errors(run: Run, claims: Sequence[Claim], samples: int) -> dict[int, JointError]:
    """By the claim's number, from simulated rows."""
    problems = {benchmark: problems_of(run, benchmark) for benchmark in run.config.benchmarks}
    if not problems or min(problems.values()) < 2:
        return {}
    times = ceil(_PROBLEMS / min(problems.values()))
    many = {benchmark: times * count for benchmark, count in problems.items()}
    evaluation, shared = (
        simulated_responses(expected, many, samples, named_generator("planned rows", samples))
        for expected in expected_scores(run.config)
    )
    found = {}
    for claim in claims:
        parts = enumerate(parts_of(claim, Evidence(run.config, evaluation, shared, {})))
        ratios = {place: part.ratios for place, part in parts if not isinstance(part.ratios, Gap)}
        if ratios:
            counts = {ratio.problems: len(ratio.numerators) // times for each in ratios.values() for ratio in each}
            _, deviations = joint_error(list(ratios.values()))
            error = sqrt(sum(each**2 / counts[name] for name, each in deviations.items()))
            found[claim.number] = JointError(error, min(counts.values()), tuple(ratios))
    return found


Scores = dict[TurnKey, Expected]


def expected_scores(config: Config) -> tuple[Scores, Scores]:
    """The paper's Avg@4 and Pass@4 of every condition and turn: of the evaluation, and of the study with a shared T1 history.

    A condition that differs from one of the paper's by a seed has the same scores.
    """
    evaluation, shared, study = Scores(), Scores(), config.shared_t1()
    labels = Labels.of(config)
    families: dict[str, list[str]] = {}
    for key in study.conditions:
        families.setdefault(labels.name(key).averaged, []).append(key)
    for (kind, model, benchmark, condition, turn), scores in _printed_scores().items():
        if model not in config.models or benchmark not in config.benchmarks:
            continue
        if kind == "turns" and condition in config.conditions and turn in ("T1", "T2", "T3", "T4"):
            evaluation |= {
                TurnKey(model, benchmark, key, int(turn[1:])): scores
                for key in seeds_of(config, condition, model, benchmark)
                if (model, benchmark) in config.evaluated(key)
            }
        if kind == "shared":
            shared |= {
                TurnKey(model, benchmark, key, 2): scores
                for key in families.get(condition, ())
                if (model, benchmark) in study.evaluated(key)
            }
    for place in [place for place in evaluation if place.condition == REFERENCE]:
        # The conditions with the reference's T1 repeat its responses.
        evaluation |= {
            place._replace(condition=condition): evaluation[place]
            for condition in ("native", "stair")
            if place._replace(condition=condition, turn=2) in evaluation
        }
    return evaluation, shared


def _printed_scores() -> dict[tuple[str, ...], Expected]:
    """The paper's Avg@4 and Pass@4 by kind of table, model, benchmark, condition and turn, all as keys."""
    models, benchmarks = paper_labels.MODEL_KEYS, paper_labels.BENCHMARK_KEYS
    found: dict[tuple[str, ...], dict[str, float]] = {}
    for printed in printed_values():
        place = printed.place
        kind = "turns" if "turns" in place.artifact else "shared"
        condition = paper_labels.CONDITION_KEYS.get(place.condition)
        known = place.model in models and place.benchmark in benchmarks and condition is not None
        if (
            place.metric not in ("Avg@4", "Pass@4")
            or not known
            or (kind == "shared" and place.artifact not in paper_labels.SHARED)
        ):
            continue
        assert condition is not None
        key = (kind, models[place.model], benchmarks[place.benchmark], condition, place.turn)
        found.setdefault(key, {})[place.metric] = printed.value
    return {key: Expected(two["Avg@4"], two["Pass@4"]) for key, two in found.items() if len(two) == 2}


def _places(test: Test) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    match test:
        case Compare():
            models, benchmarks = (*test.models, *test.models_less), (test.benchmark, *test.benchmarks_less)
            return models, benchmarks, (test.greater, test.less)
        case Pooled():
            return tuple(paper_labels.MODELS), paper_labels.POOLED_BENCHMARKS, (test.greater, test.less, REFERENCE)
        case Transitions():
            return (test.model,), (test.benchmark,), (REFERENCE, "native")
        case Shared():
            return (test.model,), (test.benchmark,), (test.greater, *test.less)
        case Values():
            return (test.model,), (), ()


def _scope(test: Test) -> str:
    models, benchmarks, _ = _places(test)
    if isinstance(test, Values):
        return f"{_stage(test)} of {test.model}"
    return f"{', '.join(models)} on {', '.join(benchmarks)}"


def _first_lacking(run: Run, test: Test) -> str:
    """The first thing that a test needs and the configuration does not have; empty if it has all."""
    config = run.config
    match test:
        case Shared():
            study = run.shared_t1.config
            if not study.conditions:
                return "the run has no study with a shared T1 history"
            families = {key: item.family or key for key, item in study.conditions.items()}
            for side in (test.greater, *test.less):
                keys = [key for key, family in families.items() if side in (key, family)]
                if not any((test.model, test.benchmark) in study.evaluated(key) for key in keys):
                    return f"the study with a shared T1 history has no {side} of {test.model} on {test.benchmark}"
            return ""
        case Values():
            stage = _stage(test)
            section = config.runtime if stage == "runtime" else config.replay
            if section is None or test.model not in section.models:
                return f"no {stage} of {test.model}"
            numbers = {side for sides in test.sides() for side in sides if isinstance(side, str)}
            return next(filter(None, (_no_number(run, test.model, number) for number in sorted(numbers))), "")
        case _:
            return _no_rows(config, *_places(test))


def _no_rows(config: Config, models: Iterable[str], benchmarks: Iterable[str], conditions: Iterable[str]) -> str:
    """The first condition of a model on a benchmark that the configuration does not have; empty if it has all."""
    for model in models:
        for benchmark in benchmarks:
            for condition in conditions:
                if condition not in config.conditions:
                    return f"the run has no condition {condition}"
                if (model, benchmark) not in config.evaluated(condition):
                    return f"the run has no {condition} of {model} on {benchmark}"
    return ""


def _stage(test: Values) -> str:
    return "runtime" if "paired median" in str(test.greater) else "replay"


def _no_number(run: Run, model: str, number: str) -> str:
    """Why the replay's tables and figures will not report a number; empty if they will."""
    found = re.search(r"layer (\d+)", number)
    if found is None:
        return ""
    replay, layer = run.replay, int(found[1])
    if (analysis := replay.analysis) is None:
        return f"replay.analysis is null, so {number!r} is not computed"
    size = re.search(r"\bk=(\d+)", number)
    if size is not None and int(size[1]) not in analysis.neighborhoods:
        return f"replay.analysis.neighborhoods does not list {size[1]}"
    if number.startswith("incremental R2"):
        # Other reads than the assistant's are fitted at the first layer.
        layers = replay.layers if "earlier-assistant read" in number else replay.layers[:1]
        return "" if layer in layers else f"replay.layers does not list {layer} for {number!r}"
    everywhere = number.startswith(("attention mass", "median state displacement")) and "approximate" not in number
    if everywhere or (size is not None and int(size[1]) == analysis.neighborhoods[0] and "whitening" not in number):
        return "" if layer < run.shape(model).layers else f"{model} has no layer {layer}"
    return "" if layer == analysis.reported_layer else f"replay.analysis.reported_layer is not {layer}"
