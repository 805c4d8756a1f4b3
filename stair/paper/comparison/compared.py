"""Each printed value beside ours: the difference, the interval, the verdict and its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import sqrt

from stair.paper import paper_labels
from stair.paper.comparison.ours import Ours, elsewhere
from stair.paper.comparison.printed import EXACT, SAMPLED, Kind, Printed, PrintedPlace
from stair.paper.comparison.run_facts import RunFacts
from stair.statistics.paired import FALSE_DISCOVERIES, false_discoveries
from stair.statistics.printed_comparison import Key, replication

_EQUAL = 1e-9
"""Relative difference that binary floating point can give to equal numbers."""


class Verdict(StrEnum):
    """The result of a comparison."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NOT_RUN = "not run"
    NONE = "no verdict"
    STRUCTURE = "structure only"


@dataclass(frozen=True)
class Compared:
    """A printed value beside ours."""

    printed: Printed
    verdict: Verdict
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    """Where the paper's value falls, with 95%, if both runs follow one truth."""
    p_value: float | None = None
    """The p-value of one truth, not corrected for the other comparisons."""
    reason: str = ""

    @property
    def difference(self) -> float | None:
        """Ours minus the paper's; none where models or data are not the paper's."""
        return None if self.ours is None or self.verdict is Verdict.STRUCTURE else self.ours - self.printed.value


def compare(printed: Sequence[Printed], ours: Mapping[PrintedPlace, Ours], facts: RunFacts) -> list[Compared]:
    """Every printed value beside ours, in the order of `printed`."""
    numbers = [place for place, number in ours.items() if number.value is not None]
    compared = [_compared(each, ours.get(each.place), facts, numbers) for each in printed]
    # One number can stand in several tables; it is one comparison.
    tested = {_number(c.printed.place): c.p_value for c in compared if c.p_value is not None}
    called = dict(zip(tested, false_discoveries(list(tested.values())), strict=True))
    return [
        each if each.p_value is None else _decided(each, bool(called[_number(each.printed.place)])) for each in compared
    ]


def _compared(printed: Printed, ours: Ours | None, facts: RunFacts, numbers: Sequence[PrintedPlace]) -> Compared:
    """One value; of a sampled number the p-value, on which all sampled numbers decide together."""
    place, kind = printed.place, printed.kind
    foreign = facts.stands_in(place)
    if ours is None or ours.value is None:
        return Compared(printed, Verdict.NOT_RUN, reason=f"{facts.absent(place)}{elsewhere(place, numbers)}")
    if foreign is not None:
        return Compared(printed, Verdict.STRUCTURE, ours.value, reason=f"the run has this number; {foreign}")
    if kind in EXACT:
        equal = abs(ours.value - printed.value) <= printed.rounding / 2 + _EQUAL * abs(printed.value)
        return Compared(printed, Verdict.AGREES if equal else Verdict.DIFFERS, ours.value, reason="by equality")
    if kind is Kind.HARDWARE:
        return Compared(printed, Verdict.NONE, ours.value, ours.low, ours.high, reason="depends on the hardware")
    if kind is Kind.REPLAY:
        return _replayed(printed, ours)
    assert kind in SAMPLED, kind
    if (other := facts.other_problems(place)) is not None:
        return Compared(printed, Verdict.NONE, ours.value, reason=other)
    study = facts.shared_spreads if place.artifact in paper_labels.SHARED else facts.spreads
    spread = study.get(spread_key(place))
    if spread is None:
        return Compared(printed, Verdict.NONE, ours.value, reason="these rows give no replication interval")
    interval = replication(ours.value, printed.value, spread, rounding=printed.rounding)
    return Compared(printed, Verdict.AGREES, ours.value, interval.low, interval.high, interval.p_value)


def _replayed(printed: Printed, ours: Ours) -> Compared:
    """The comparison by the run's block interval, widened to that of a difference of two such runs."""
    assert ours.value is not None
    if ours.low is None or ours.high is None:
        return Compared(printed, Verdict.NONE, ours.value, reason="the run gives no block interval")
    half = printed.rounding / 2 + _EQUAL * abs(printed.value)
    low = ours.value - sqrt(2.0) * (ours.value - ours.low) - half
    high = ours.value + sqrt(2.0) * (ours.high - ours.value) + half
    verdict = Verdict.AGREES if low <= printed.value <= high else Verdict.DIFFERS
    return Compared(printed, verdict, ours.value, low, high, reason="by the block interval times sqrt(2)")


def _decided(compared: Compared, differs: bool) -> Compared:
    assert compared.p_value is not None
    alone = compared.p_value < FALSE_DISCOVERIES
    if differs:
        return replace(compared, verdict=Verdict.DIFFERS, reason="by the replication interval")
    more = ", outside alone, inside with at most 5% false discoveries over all sampled numbers" if alone else ""
    return replace(compared, reason=f"by the replication interval{more}")


def spread_key(place: PrintedPlace) -> Key:
    """The key of a place's spread: keys in place of labels."""
    condition = paper_labels.CONDITION_KEYS.get(place.condition, place.condition)
    return (
        paper_labels.MODEL_KEYS.get(place.model, place.model),
        paper_labels.BENCHMARK_KEYS.get(place.benchmark, place.benchmark),
        paper_labels.evaluated_as(condition),
        place.turn,
        place.group,
        place.metric.removesuffix(" over Native"),
    )


def _number(place: PrintedPlace) -> tuple[bool, Key]:
    """What identifies a sampled number, wherever it is printed."""
    return place.artifact in paper_labels.SHARED, spread_key(place)
