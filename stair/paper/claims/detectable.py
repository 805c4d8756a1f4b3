"""What a run of some size detects of the paper's claims, from the rows that the paper's scores let one expect."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from math import ceil, sqrt
from typing import NamedTuple

from scipy import stats

from stair.config.model import Config
from stair.core import SHARED_T1, condition_key
from stair.paper import paper_labels
from stair.paper.absence import lacking
from stair.paper.claims.parts import Evidence, parts_of, seeds_of
from stair.paper.claims.statements import Claim, Values, paper_effects, read_claims
from stair.paper.comparison.printed import printed_values
from stair.paper.labels import Labels
from stair.statistics.grid import Gap, TurnKey
from stair.statistics.intervals import LEVEL
from stair.statistics.joint import joint_error
from stair.statistics.metrics import REFERENCE
from stair.statistics.named_random import named_generator
from stair.statistics.paired import POWER
from stair.statistics.simulated_runs import Expected, simulated_responses

_PROBLEMS = 250
"""The simulated rows have at least so many problems of each benchmark, in the run's proportions."""
_WIDTH = 80


class Detectable(NamedTuple):
    """What simulated rows of a run have of a claim."""

    error: float
    """The standard error of the joint effect of `parts`."""
    smallest: int
    """The problems of the smallest set; 0 without a part."""
    parts: tuple[int, ...]
    """The parts that the run has, by their places among the claim's."""
    gaps: tuple[str, ...]
    """Why it lacks the others, each reason once."""

    @property
    def effect(self) -> float:
        """The joint effect that the run shows in four of five cases."""
        return self.error * float(sum(stats.t.ppf(((1.0 + LEVEL) / 2.0, POWER), self.smallest - 1)))


def claim_lines(config: Config, problems: Mapping[str, int]) -> Iterator[str]:
    """What a run with so many problems of each benchmark detects of each claim, and what it lacks; at most 80 columns wide."""
    effects, claims = paper_effects(), read_claims()
    found = detectable(config, problems, [claim for claim in claims if has_rows(claim)], config.evaluation.samples)
    yield "Claims: the joint effect that this run shows in four of five cases, the paper's"
    yield "effect, and how many of the claim's parts the run has (docs/planning.md)."
    yield f"{'':40}{'detects':>10}{'paper':>11}{'parts':>8}"
    for claim in claims:
        line, gaps = f"{claim.number:2d} {claim.title:37}", list[str]()
        if (each := found.get(claim.number)) is not None:
            paper, gaps = effects[claim.number], list(each.gaps)
            parts = f"{len(each.parts)}/{len(paper.parts)}"
            if each.parts:
                joint = sum(paper.parts[place] for place in each.parts) / len(each.parts)
                line += f"{each.effect:>7.1f} {paper.unit:2}{joint:>+8.2f} {paper.unit:2}{parts:>8}"
            else:
                line += f"{parts:>29}"
        elif not has_rows(claim):
            gaps = [reason for model in _models(claim) if (reason := lacking(config, "evaluation", model))]
            line += "" if gaps else "decided by numbers of another study"
        yield line.rstrip()
        if gaps:
            more = f" (and {len(gaps) - 1} more)" if len(gaps) > 1 else ""
            yield from textwrap.wrap(gaps[0] + more, _WIDTH, initial_indent=" " * 5, subsequent_indent=" " * 5)


def has_rows(claim: Claim) -> bool:
    """Whether response rows decide a claim; the others need numbers of the replay or the runtime study."""
    return not any(isinstance(test, Values) for test in claim.tests)


def _models(claim: Claim) -> list[str]:
    return list(dict.fromkeys(test.model for test in claim.tests if isinstance(test, Values)))


def detectable(
    config: Config, problems: Mapping[str, int], claims: Sequence[Claim], samples: int
) -> dict[int, Detectable]:
    """By the claim's number, from simulated rows with so many problems of each benchmark."""
    least = min(problems.values(), default=0)
    if least < 2:
        return {}
    times = ceil(_PROBLEMS / least)
    many = {benchmark: times * count for benchmark, count in problems.items()}
    evaluation, shared = (
        simulated_responses(expected, many, samples, named_generator("planned rows", samples))
        for expected in expected_scores(config)
    )
    found = {}
    for claim in claims:
        parts = parts_of(claim, Evidence(config, evaluation, shared, {}))
        ratios = {place: part.ratios for place, part in enumerate(parts) if not isinstance(part.ratios, Gap)}
        gaps = tuple(dict.fromkeys(part.ratios.reason for part in parts if isinstance(part.ratios, Gap)))
        error, smallest = 0.0, 0
        if ratios:
            counts = {ratio.problems: len(ratio.numerators) // times for each in ratios.values() for ratio in each}
            _, deviations = joint_error(list(ratios.values()))
            error = sqrt(sum(each**2 / counts[name] for name, each in deviations.items()))
            smallest = min(counts.values())
        found[claim.number] = Detectable(error, smallest, tuple(ratios), gaps)
    return found


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
