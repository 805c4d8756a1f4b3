"""What a run of some size detects of the paper's claims, from the rows that the paper's scores let one expect."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil, sqrt
from textwrap import wrap
from typing import NamedTuple

from scipy import stats

from stair.config.model import Config
from stair.core import SHARED_T1, condition_key
from stair.paper import paper_labels
from stair.paper.absence import lacking
from stair.paper.claims.parts import Evidence, parts_of, seeds_of
from stair.paper.claims.statements import Claim, Values, paper_effects, read_claims
from stair.paper.comparison.printed import printed_values
from stair.paper.comparison.run_facts import stand_ins
from stair.paper.labels import Labels
from stair.records.text_tables import aligned
from stair.statistics.grid import Gap, TurnKey
from stair.statistics.intervals import LEVEL
from stair.statistics.joint import Ratio, joint_error
from stair.statistics.metrics import REFERENCE
from stair.statistics.named_random import named_generator
from stair.statistics.paired import POWER
from stair.statistics.simulated_runs import Expected, simulated_responses

_PROBLEMS = 250
"""The simulated rows have at least so many problems of each benchmark, in the run's proportions."""
_TIMES = 4
"""How many times the run's samples the second set of rows has."""
_WIDTH = 80


class Detectable(NamedTuple):
    """What simulated rows of a run have of a claim."""

    error: float
    """The standard error of the joint effect of `parts`."""
    sampling: float
    """The part of its square that more samples reduce, times the samples."""
    smallest: int
    """The problems of the smallest set; 0 without a part."""
    parts: tuple[int, ...]
    """The parts that the run has, by their places among the claim's."""
    gaps: tuple[str, ...]
    """Why it lacks the others, each reason once."""

    @property
    def effect(self) -> float:
        """The joint effect that the run shows in four of five cases."""
        return self.error * (self._quantile + float(stats.t.ppf(POWER, self.smallest - 1)))

    def chance(self, effect: float) -> float:
        """How often such a run shows a joint effect of this size."""
        return float(stats.nct.sf(self._quantile, self.smallest - 1, effect / self.error)) if self.error else 1.0

    def samples(self, effect: float, samples: int) -> int | None:
        """The fewest samples of each problem with which it shows the effect in four of five cases; None if no number suffices."""
        least = self.error**2 - self.sampling / samples
        room = (effect * self.error / self.effect) ** 2 - least if self.error else 1.0
        return max(1, ceil(self.sampling / room)) if room > 0.0 else None

    @property
    def _quantile(self) -> float:
        return float(stats.t.ppf((1.0 + LEVEL) / 2.0, self.smallest - 1))


def claim_lines(
    config: Config, problems: Mapping[str, int], watched: Callable[[list[Claim]], Iterable[Claim]] = iter
) -> Iterator[str]:
    """What a run with so many problems of each benchmark shows of each claim, and what it lacks; at most 80 columns wide.

    Args:
        watched: the claims, of which a terminal shows how many are done.
    """
    if stand_ins(config) or not config.models.keys() & paper_labels.MODELS.keys():
        yield "The paper's claims: no numbers, because models or data are not the paper's."
        return
    effects, claims = paper_effects(), read_claims()
    found = detectable(config, problems, watched([claim for claim in claims if has_rows(claim)]))
    rows, lacks = [("claim", "chance", "detectable", "paper", "samples")], defaultdict[str, list[str]](list)
    for claim in claims:
        each, paper, number = found.get(claim.number), effects.get(claim.number), str(claim.number)
        if each is None or paper is None or not each.parts:
            lacks[_absence(config, claim, each)].append(number)
            continue
        joint = sum(paper.parts[place] for place in each.parts) / len(each.parts)
        sizes = (f"{each.effect:.1f} {paper.unit:2}", f"{joint:+.2f} {paper.unit:2}")
        samples = str(each.samples(joint, config.evaluation.samples) or "none")
        rows.append((f"{number:>2} {claim.title}", f"{each.chance(joint):.0%}", *sizes, samples))
        if each.gaps:
            lacks[f"{len(each.parts)} of {len(paper.parts)} parts: {_first(each.gaps)}"].append(number)
    if len(rows) > 1:
        yield "The paper's claims about accuracy, on a run of this size (docs/planning.md)"
        yield ""
        yield from aligned(rows, left=1)
        yield ""
        yield "chance      how often such a run shows the paper's effect"
        yield "detectable  the effect that it shows in four of five cases"
        yield "paper       the paper's effect, the mean over the parts that the run has"
        yield "samples     of each problem, for a chance of 80%; none: no number suffices"
        yield ""
    for reason, numbers in lacks.items():
        yield from wrap(f"{'Claims' if numbers[1:] else 'Claim'} {', '.join(numbers)}: {reason}", _WIDTH)


def _absence(config: Config, claim: Claim, found: Detectable | None) -> str:
    """Why a claim has no numbers here."""
    if found is not None:
        return _first(found.gaps)
    models = (test.model for test in claim.tests if isinstance(test, Values))
    gaps = filter(None, (lacking(config, "evaluation", model) for model in models))
    return next(gaps, "decided by numbers of the replay or the runtime study")


def _first(gaps: Sequence[str]) -> str:
    return gaps[0] + (f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else "")


def has_rows(claim: Claim) -> bool:
    """Whether response rows decide a claim; the others need numbers of the replay or the runtime study."""
    return not any(isinstance(test, Values) for test in claim.tests)


def detectable(config: Config, problems: Mapping[str, int], claims: Iterable[Claim]) -> dict[int, Detectable]:
    """By the claim's number, from simulated rows with so many problems of each benchmark."""
    least, samples = min(problems.values(), default=0), config.evaluation.samples
    if least < 2:
        return {}
    times = ceil(_PROBLEMS / least)
    many = {benchmark: times * count for benchmark, count in problems.items()}
    scores = expected_scores(config)

    def evidence(count: int) -> Evidence:
        evaluation, shared = (
            simulated_responses(each, many, count, named_generator("planned rows", count)) for each in scores
        )
        return Evidence(config, evaluation, shared, {})

    # Rows with more samples separate the spread between problems from the one that samples reduce.
    few, more = evidence(samples), evidence(_TIMES * samples)
    found = {}
    for claim in claims:
        parts = [part.ratios for part in parts_of(claim, few)]
        places = tuple(place for place, ratios in enumerate(parts) if not isinstance(ratios, Gap))
        gaps = tuple(dict.fromkeys(ratios.reason for ratios in parts if isinstance(ratios, Gap)))
        error, smallest = _error(parts, times)
        least_error, _ = _error([part.ratios for part in parts_of(claim, more)], times)
        sampling = max(0.0, error**2 - least_error**2) * samples * _TIMES / (_TIMES - 1)
        found[claim.number] = Detectable(error, sampling, smallest, places, gaps)
    return found


def _error(parts: Sequence[tuple[Ratio, ...] | Gap], times: int) -> tuple[float, int]:
    """The standard error of the joint effect with one of `times` problems, and the problems of the smallest set."""
    ratios = [each for each in parts if not isinstance(each, Gap)]
    if not ratios:
        return 0.0, 0
    counts = {ratio.problems: len(ratio.numerators) // times for each in ratios for ratio in each}
    _, deviations = joint_error(ratios)
    return sqrt(sum(each**2 / counts[name] for name, each in deviations.items())), min(counts.values())


Scores = dict[TurnKey, Expected]


def expected_scores(config: Config) -> tuple[Scores, Scores]:
    """The paper's Avg@4 and Pass@4 of every condition and turn: of the evaluation, and of the study with a shared T1 history.

    A condition that differs from one of the paper's by a seed has the same scores.
    """
    evaluation, shared = Scores(), Scores()
    labels = Labels.of(config)
    families: dict[str, list[str]] = {}
    for key in config.conditions_of(SHARED_T1):
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
                if (model, benchmark) in config.evaluated(condition_key(SHARED_T1, key))
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
