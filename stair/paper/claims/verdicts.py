"""What the tests of a claim say together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy import stats

from stair.paper.claims.parts import Part
from stair.paper.claims.statements import Claim
from stair.statistics.effects import Effect
from stair.statistics.grid import Gap
from stair.statistics.intervals import Interval

_LEVEL = 0.05


class Verdict(StrEnum):
    """What a run says of a claim."""

    HOLDS = "holds"
    FAILS = "does not hold"
    UNDECIDED = "undecided at this size"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Judged:
    """A claim with its tests."""

    claim: Claim
    parts: tuple[Part, ...]
    verdicts: tuple[Verdict, ...]
    """Each part's own verdict."""
    verdict: Verdict
    reason: str

    @property
    def as_stated(self) -> int:
        """How many parts' effects have the stated direction."""
        return sum(part.as_stated for part in self.parts)

    @property
    def weakest(self) -> Part | None:
        """The part that says least for the claim; None where nothing was run."""
        run = [part for part in self.parts if isinstance(part.effect, Effect)]
        return min(run, key=_evidence) if run else None


def judge(claim: Claim, parts: Sequence[Part]) -> Judged:
    """A claim holds where each part holds, which needs no correction for several tests.

    It does not hold where a part's effect has the other direction; there the level is divided by the number of parts.
    """
    run = [part.effect for part in parts if isinstance(part.effect, Effect)]
    missing = [part.effect.reason for part in parts if isinstance(part.effect, Gap)]
    verdicts = tuple(_verdict(part.effect, 1) for part in parts)
    together = [_verdict(effect, len(run)) for effect in run]
    reason = ""
    if Verdict.FAILS in together:
        verdict = Verdict.FAILS
    elif missing:
        verdict = Verdict.NOT_RUN
        reason = f"{len(missing)} of {len(parts)} parts: {missing[0]}" if run else missing[0]
    else:
        verdict = Verdict.HOLDS if all(each is Verdict.HOLDS for each in verdicts) else Verdict.UNDECIDED
    if len(parts) > 1 and run and not missing:
        held = sum(each is Verdict.HOLDS for each in verdicts)
        reason = f"{held} of {len(parts)} parts hold"
    return Judged(claim, tuple(parts), verdicts, verdict, reason)


def _verdict(effect: Effect | Gap, tests: int) -> Verdict:
    """One part's verdict; `tests` divides the level of the other direction."""
    if isinstance(effect, Gap):
        return Verdict.NOT_RUN
    interval = effect.interval
    if effect.p_value is None:
        holds, fails = interval.low > 0.0, _upper_end(interval, tests) < 0.0 or interval.estimate == interval.low == 0.0
    else:
        holds = interval.estimate > 0.0 and effect.p_value < _LEVEL
        fails = interval.estimate < 0.0 and effect.p_value * tests < _LEVEL
    return Verdict.HOLDS if holds else Verdict.FAILS if fails else Verdict.UNDECIDED


def _upper_end(interval: Interval, tests: int) -> float:
    """The upper end of an interval of normal errors, for a test at 5% divided by `tests`."""
    wider = stats.norm.ppf(1.0 - _LEVEL / (2.0 * tests)) / stats.norm.ppf(1.0 - _LEVEL / 2.0)
    return interval.estimate + float(wider) * (interval.high - interval.estimate)


def _evidence(part: Part) -> float:
    """From -1, all against the claim, to 1."""
    assert isinstance(part.effect, Effect)
    interval, p_value = part.effect.interval, part.effect.p_value
    if p_value is None:
        width = max(interval.high - interval.low, 1e-12)
        return max(-1.0, min(1.0, interval.estimate / width))
    sign = (interval.estimate > 0.0) - (interval.estimate < 0.0)
    return sign * (1.0 - p_value)
