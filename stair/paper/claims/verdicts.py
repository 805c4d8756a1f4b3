"""What the parts of a claim say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import inf, isfinite

from scipy import stats

from stair.paper.claims.parts import Part
from stair.paper.claims.statements import Claim
from stair.statistics.effects import Effect
from stair.statistics.grid import Gap
from stair.statistics.intervals import LEVEL, Interval
from stair.statistics.joint import joint_error, joint_interval
from stair.statistics.paired import POWER, deciding_problems

_ERRORS = float(stats.norm.ppf((1.0 + LEVEL) / 2.0))
STANDARD_ERRORS = "standard errors"
_MOST = 10.0
"""A part's effect in standard errors counts at most this much, so that one precise part does not outweigh the others."""


class ClaimVerdict(StrEnum):
    """What a run says of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided"
    PARTLY_RUN = "partly run"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Judged:
    """A claim with its parts."""

    claim: Claim
    parts: tuple[Part, ...]
    verdicts: tuple[ClaimVerdict, ...]
    """Each part's own verdict."""
    joint: Effect | None
    """The mean effect of the parts that were run; None without any."""
    unit: str
    """The unit of `joint`."""
    verdict: ClaimVerdict
    reason: str

    @property
    def as_stated(self) -> int:
        """How many parts' effects have the stated direction."""
        return sum(part.as_stated for part in self.parts)


def judge(claim: Claim, parts: Sequence[Part]) -> Judged:
    """The verdict on a claim, from the joint effect of its parts.

    The claim holds if the interval of the joint effect is above zero. It does not hold if this interval is below zero, or if a
    part has the other direction at a level divided by the number of parts.
    """
    run = [part for part in parts if isinstance(part.effect, Effect)]
    missing = [part.effect.reason for part in parts if isinstance(part.effect, Gap)]
    joint, unit = joint_effect(run) if run else (None, "")
    against = [part.name for part in run if _verdict(part.effect, len(run)) is ClaimVerdict.FAILS]
    if missing:
        verdict = ClaimVerdict.FAILS if against else ClaimVerdict.PARTLY_RUN if run else ClaimVerdict.NOT_RUN
        reason = f"{len(missing)} of {len(parts)} parts: {missing[0]}" if run else missing[0]
    else:
        assert joint is not None
        verdict = ClaimVerdict.FAILS if against else _verdict(joint, 1)
        reason = next((f"{part.name}: {part.gap}" for part in run if part.gap), "")
    if against:
        reason = "; ".join(filter(None, (reason, f"the other direction: {against[0]}")))
    return Judged(claim, tuple(parts), tuple(_verdict(part.effect, 1) for part in parts), joint, unit, verdict, reason)


def joint_effect(parts: Sequence[Part]) -> tuple[Effect, str]:
    """The mean effect of parts that were run, with its unit; of a single part, its own effect.

    Of response rows: whole problems are resampled for all parts at once. Of numbers that other stages report: the mean of the
    effects, each divided by its standard error. Their units differ and their errors are dependent in an unknown way, so the
    interval is that of equal errors, the widest one.
    """
    if len(parts) == 1 and isinstance(parts[0].effect, Effect):
        return parts[0].effect, parts[0].unit
    ratios = [part.ratios for part in parts if not isinstance(part.ratios, Gap)]
    if all(ratios):
        interval = joint_interval(ratios)
        estimate, deviations = joint_error(ratios)
        counts = {ratio.problems: len(ratio.numerators) for each in ratios for ratio in each}
        if len(counts) == 1:
            count, deviation = min(counts.values()), min(deviations.values())
            deciding = deciding_problems(deviation, interval.estimate) if count > 1 else None
            return Effect(interval, problems=count, deciding=deciding), parts[0].unit
        error = sum(deviations[name] ** 2 / count for name, count in counts.items()) ** 0.5
        return Effect(interval, deciding_factor=_factor(estimate / error if error else 0.0)), parts[0].unit
    scores = [_standard_errors(part.effect.interval) for part in parts if isinstance(part.effect, Effect)]
    score = sum(scores) / len(scores)
    if not all(map(isfinite, scores)):
        return Effect(Interval(score, -inf, inf)), STANDARD_ERRORS
    return Effect(Interval(score, score - _ERRORS, score + _ERRORS), deciding_factor=_factor(score)), STANDARD_ERRORS


def _factor(score: float) -> float | None:
    """How many times as many problems would show an effect of so many standard errors."""
    return ((_ERRORS + float(stats.norm.ppf(POWER))) / score) ** 2 if score else None


def _standard_errors(interval: Interval) -> float:
    """The estimate in standard errors, at most `_MOST`; not a number if the error is unknown."""
    half = interval.estimate - interval.low if interval.estimate > 0.0 else interval.high - interval.estimate
    if not isfinite(half):
        return float("nan")
    if half == 0.0:
        return _MOST * ((interval.estimate > 0.0) - (interval.estimate < 0.0))
    return max(-_MOST, min(_MOST, interval.estimate / half * _ERRORS))


def _verdict(effect: Effect | Gap, tests: int) -> ClaimVerdict:
    """One effect's verdict; `tests` divides the level of the other direction."""
    if isinstance(effect, Gap):
        return ClaimVerdict.NOT_RUN
    interval = effect.interval
    if effect.p_value is None:
        holds, fails = interval.low > 0.0, _upper_end(interval, tests) < 0.0
    else:
        holds = interval.estimate > 0.0 and effect.p_value < 1.0 - LEVEL
        fails = interval.estimate < 0.0 and effect.p_value * tests < 1.0 - LEVEL
    return ClaimVerdict.HOLDS if holds else ClaimVerdict.FAILS if fails else ClaimVerdict.UNDECIDED


def _upper_end(interval: Interval, tests: int) -> float:
    """The upper end of an interval of normal errors, for a test at 5% divided by `tests`."""
    wider = stats.norm.ppf(1.0 - (1.0 - LEVEL) / (2.0 * tests)) / _ERRORS
    return interval.estimate + float(wider) * (interval.high - interval.estimate)
