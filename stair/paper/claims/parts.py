"""The effect of every test of a claim on a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from math import inf, isfinite

from stair.config.model import Config
from stair.config.run_sections import ClaimBounds
from stair.core import EVALUATION, SHARED_T1, condition_key
from stair.paper import paper_labels
from stair.paper.absence import lacking
from stair.paper.claims.statements import Bound, ChangedAnswers, Claim, Compare, Metric, Pooled, Shared, Values
from stair.paper.comparison.ours import Ours, elsewhere
from stair.paper.comparison.printed import PrintedPlace
from stair.paper.labels import Labels
from stair.statistics.effects import (
    Effect,
    Side,
    conditional_effect,
    conditional_ratio,
    difference_of_estimates,
    difference_of_gains,
    occurrence,
    paired_effect,
    paired_ratio,
)
from stair.statistics.grid import Gap, Responses
from stair.statistics.intervals import Interval
from stair.statistics.joint import Ratio
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.shared_t1_metrics import TURN
from stair.statistics.transitions import TRANSITIONS, transition_ratios

_FOLLOWER = "native"
_DIRECTIONS = tuple(name for name, was, became in TRANSITIONS if was != became)


@dataclass(frozen=True, eq=False)
class Part:
    """One test of a claim: what it compares, and the effect, positive where the claim says so."""

    name: str
    unit: str
    ratios: tuple[Ratio, ...] | Gap
    """The effect as sums over problems; empty for a number that another stage reports."""
    measure: Callable[[], Effect | Gap]

    @cached_property
    def effect(self) -> Effect | Gap:
        """The effect with its interval, or why the run does not have it. A plan needs no interval, which is slow to draw."""
        return self.measure()

    @classmethod
    def missing(cls, name: str, unit: str, gap: Gap) -> Part:
        """A part that the run does not have."""
        return cls(name, unit, gap, lambda: gap)

    @property
    def gap(self) -> str:
        """Why there is no effect, or no interval of it; empty if there are both."""
        if isinstance(self.effect, Gap):
            return self.effect.reason
        return "" if isfinite(self.effect.interval.low) else "too few histories for an interval"

    @property
    def as_stated(self) -> bool:
        """Whether the effect, without regard to its noise, has the stated direction."""
        return isinstance(self.effect, Effect) and self.effect.interval.estimate > 0.0


@dataclass(frozen=True)
class Evidence:
    """What a run has for claims."""

    config: Config
    responses: Responses
    """Responses of the evaluation."""
    shared: Responses
    """Responses of the study with a shared T1 history."""
    numbers: Mapping[PrintedPlace, Ours]
    """Numbers that tables and figures report."""

    @property
    def labels(self) -> Labels:
        """The run's labels."""
        return Labels.of(self.config)


def parts_of(claim: Claim, evidence: Evidence) -> list[Part]:
    """The effects of a claim's tests, in order; a gap where the run lacks what a test needs."""
    parts: list[Part] = []
    for test in claim.tests:
        match test:
            case Compare():
                parts += _compared(test, evidence)
            case Pooled():
                parts += _pooled(test, evidence)
            case ChangedAnswers():
                parts += _transitions(test, evidence)
            case Shared():
                parts += _shared(test, evidence)
            case Values():
                parts += _values(test, evidence)
    return parts


def _compared(test: Compare, evidence: Evidence) -> Iterator[Part]:
    labels, samples = evidence.labels, evidence.responses.samples
    for model in test.models:
        for metric in test.metrics:
            for span in test.spans:
                sides = _sides(test, evidence, model, test.benchmark, span)
                subject = f"{labels.model(model)}, {labels.benchmark(test.benchmark)}"
                name = f"{'Avg' if metric == 'average' else 'Pass'}@{samples}"
                end = f", {span}, {name}: {labels.condition(test.greater)} minus {labels.condition(test.less)}"
                for other in test.models_less:
                    less = [(-sign, side) for sign, side in _sides(test, evidence, other, test.benchmark, span)]
                    against = f"{labels.model(model)} against {labels.model(other)}, gains"
                    named = f"{against}, {labels.benchmark(test.benchmark)}{end}"
                    yield _paired(named, evidence, [*sides, *less], metric)
                for other in test.benchmarks_less:
                    named = f"{subject} against {labels.benchmark(other)}, gains{end}"
                    gain = _paired(named, evidence, sides, metric)
                    yield _difference(gain, _paired("", evidence, _sides(test, evidence, model, other, span), metric))
                if not (test.models_less or test.benchmarks_less):
                    yield _paired(subject + end, evidence, sides, metric)


def _paired(name: str, evidence: Evidence, terms: list[tuple[int, Side]], metric: Metric) -> Part:
    return _paired_part(name, evidence.responses, terms, metric == "pass", _absent(evidence, terms))


def _paired_part(
    name: str, responses: Responses, terms: list[tuple[int, Side]], passed: bool = False, absent: Gap | None = None
) -> Part:
    """The part of a paired difference."""
    ratio = absent or paired_ratio(responses, terms, passed=passed)
    if isinstance(ratio, Gap):
        return Part.missing(name, "pp", ratio)
    return Part(name, "pp", (ratio,), partial(paired_effect, responses, terms, passed=passed))


def _difference(gain: Part, other: Part) -> Part:
    """The first gain minus the second one, whose problems differ."""
    if isinstance(gain.ratios, Gap) or isinstance(other.ratios, Gap):
        return gain if isinstance(gain.ratios, Gap) else replace(other, name=gain.name)
    negative = (replace(ratio, sign=-ratio.sign) for ratio in other.ratios)
    return Part(gain.name, gain.unit, (*gain.ratios, *negative), lambda: difference_of_gains(gain.effect, other.effect))


def _sides(test: Compare, evidence: Evidence, model: str, benchmark: str, span: str) -> list[tuple[int, Side]]:
    later = LATER_TURNS if span == MEAN else (int(span[1:]),)
    return [
        (
            sign,
            Side(
                model,
                benchmark,
                seeds_of(evidence.config, condition, model, benchmark),
                (1,) if condition == REFERENCE else later,
            ),
        )
        for sign, condition in ((1, test.greater), (-1, test.less))
    ]


def seeds_of(config: Config, condition: str, model: str, benchmark: str, study: str = EVALUATION) -> tuple[str, ...]:
    """A study's condition, and those that differ from it by the seed of their controller alone, where they are run."""
    conditions = config.conditions_of(study)
    if condition not in conditions:
        return (condition,)
    chosen = conditions[condition]
    if chosen.controller is None:
        return (condition,)

    def identity(key: str) -> tuple[object, ...]:
        item = conditions[key]
        controller = None if item.controller is None else config.controllers[item.controller]
        trained = controller and controller.model_dump(exclude={"seed", "models"})
        return item.turns, item.first_turn, item.variant, item.intervention, item.repeats, trained

    alike = [
        key
        for key, item in conditions.items()
        if item.controller != chosen.controller
        and identity(key) == identity(condition)
        and (model, benchmark) in config.evaluated(condition_key(study, key))
    ]
    return (condition, *alike)


def _absent(evidence: Evidence, terms: list[tuple[int, Side]]) -> Gap | None:
    """The first model, benchmark or condition of a comparison that the run does not have."""
    places = ((side.model, side.benchmark, condition) for _, side in terms for condition in side.conditions)
    return _first_gap(lacking(evidence.config, EVALUATION, *place) for place in places)


def _first_gap(reasons: Iterable[str]) -> Gap | None:
    return next((Gap(reason) for reason in reasons if reason), None)


def _pooled(test: Pooled, evidence: Evidence) -> Iterator[Part]:
    config, labels = evidence.config, evidence.labels
    pooled = [(model, benchmark) for model in paper_labels.MODELS for benchmark in paper_labels.POOLED_BENCHMARKS]
    conditions = (REFERENCE, test.greater, test.less)
    absent = _first_gap(lacking(config, "evaluation", *pair, each) for pair in pooled for each in conditions)
    for group in test.groups:
        ratio = absent or conditional_ratio(evidence.responses, pooled, group, test.greater, test.less)
        name = f"pooled, {MEAN}, {group}: {labels.condition(test.greater)} minus {labels.condition(test.less)}"
        if isinstance(ratio, Gap):
            yield Part.missing(name, "pp", ratio)
        else:
            yield Part(name, "pp", (ratio,), partial(conditional_effect, ratio, group, test.greater, test.less))


def _transitions(test: ChangedAnswers, evidence: Evidence) -> Iterator[Part]:
    labels = evidence.labels
    sides = [(1, Side(test.model, test.benchmark, (c,), (1,))) for c in (REFERENCE, _FOLLOWER)]
    absent = _absent(evidence, sides)
    for turn in LATER_TURNS:
        ratios = absent or transition_ratios(evidence.responses, test.model, test.benchmark, turn)
        for direction in _DIRECTIONS:
            name = f"{labels.model(test.model)}, {labels.benchmark(test.benchmark)}, T{turn}: {direction}"
            ratio = ratios if isinstance(ratios, Gap) else ratios[direction]
            if isinstance(ratio, Gap):
                yield Part.missing(name, "%", ratio)
            else:
                yield Part(name, "%", (ratio,), partial(_occurrence, ratio))


def _occurrence(ratio: Ratio) -> Effect:
    return occurrence(int(ratio.numerators.sum() / 100.0), int(ratio.denominators.sum()))


def _shared(test: Shared, evidence: Evidence) -> Iterator[Part]:
    labels, shared = evidence.labels, evidence.shared
    there = shared.conditions(test.model, test.benchmark)

    def members(side: str) -> tuple[str, ...]:
        """The conditions of a side: its test-time seeds, each with all seeds of its controller."""
        of_side = (key for key in there if labels.name(key).averaged == side)
        seeds = (
            seed for key in of_side for seed in seeds_of(evidence.config, key, test.model, test.benchmark, SHARED_T1)
        )
        return tuple(key for key in dict.fromkeys(seeds) if key in there)

    for less in test.less:
        what = f"{labels.condition(test.greater)} minus {labels.condition(less)}"
        part = f"{labels.model(test.model)}, {labels.benchmark(test.benchmark)}, shared T1, T{TURN}: {what}"
        sides = {side: members(side) for side in (test.greater, less)}
        place = (test.model, test.benchmark)
        gap = _first_gap(lacking(evidence.config, SHARED_T1, *place, side) for side in sides)
        if gap is None and not all(sides.values()):
            without = next(side for side, conditions in sides.items() if not conditions)
            gap = Gap(f"the study with a shared T1 history has no rows of {labels.condition(without)}")
        terms = [
            (sign, Side(test.model, test.benchmark, sides[side], (TURN,)))
            for sign, side in ((1, test.greater), (-1, less))
        ]
        yield _paired_part(part, shared, terms, absent=gap)


def _values(test: Values, evidence: Evidence) -> Iterator[Part]:
    bounds = evidence.config.claims
    times = _number(test.times, bounds)
    for sides in test.sides():
        greater, less = (side if isinstance(side, str) else _number(side, bounds) for side in sides)
        for group in test.groups:
            absent = _first_gap([lacking(evidence.config, EVALUATION, test.model)])
            ends = [absent or _estimate(evidence, test.model, group, side) for side in (greater, less)]
            factor = f"{times:g} times " if times != 1.0 else ""
            part = ", ".join(filter(None, (group, f"{greater} minus {factor}{less}")))
            gap = next((end for end in ends if isinstance(end, Gap)), None)
            if gap is not None:
                yield Part.missing(part, "", gap)
                continue
            (ours, unit), (theirs, other) = (end for end in ends if not isinstance(end, Gap))
            yield Part(part, unit or other, (), partial(difference_of_estimates, ours, _scaled(theirs, times)))


def _number(number: float | Bound, bounds: ClaimBounds) -> float:
    """A plain number, or one of the configuration's bounds."""
    return float(getattr(bounds, number.bound)) if isinstance(number, Bound) else number


def _scaled(interval: Interval, factor: float) -> Interval:
    return Interval(interval.estimate * factor, interval.low * factor, interval.high * factor)


def _estimate(evidence: Evidence, model: str, group: str, side: str | float) -> tuple[Interval, str] | Gap:
    """A plain number, or a reported one with its interval and unit; an absent interval is infinite."""
    if not isinstance(side, str):
        return Interval(side, side, side), ""
    label = paper_labels.MODELS.get(model, model)
    for place, ours in evidence.numbers.items():
        if (place.model, place.group, place.metric) == (label, group, side) and ours.value is not None:
            low, high = -inf if ours.low is None else ours.low, inf if ours.high is None else ours.high
            return Interval(ours.value, low, high), place.unit
    lacking = PrintedPlace("", label, "", "", "", group, side, "")
    where = f" of {group}" if group else ""
    return Gap(f"no table or figure of the run gives {side!r}{where}{elsewhere(lacking, evidence.numbers)}")
