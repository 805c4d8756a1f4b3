"""Which of the paper's claims a configuration can decide, and how small an effect it detects."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stair.paper import paper_labels
from stair.paper.claims.statements import Claim, Compare, Shared, Test, read_claims
from stair.paper.comparison.printed import printed_values
from stair.pipeline.planning.lacking import first_lacking, no_rows, scope
from stair.pipeline.planning.sizes import problems_of
from stair.pipeline.run import Run
from stair.statistics.metrics import LATER_TURNS, REFERENCE
from stair.statistics.paired import detectable_difference, planned_deviation


@dataclass(frozen=True)
class Detectable:
    """A part of a claim about response rows."""

    part: str
    problems: int
    detectable: float
    """Points of Avg@k that the run shows in four of five cases."""
    paper: float
    """The paper's effect."""
    samples: int
    """The fewest samples of each problem with which the run detects the paper's effect."""


@dataclass(frozen=True)
class Decidable:
    """A claim, beforehand."""

    claim: Claim
    lacking: str
    """The first thing that the configuration does not have; empty if it has all."""
    needs: tuple[str, ...]
    """The models and benchmarks of its tests: a run of these alone can test it."""
    parts: tuple[Detectable, ...]

    @property
    def too_small(self) -> int:
        """Parts whose effect in the paper is smaller than the run detects."""
        return sum(part.detectable > part.paper for part in self.parts)

    @property
    def samples(self) -> int:
        """The fewest samples of each problem with which the run detects every effect of `parts`."""
        return max(part.samples for part in self.parts)


def decidable(run: Run) -> list[Decidable]:
    """Every claim of claims.yaml, in its order."""
    scores = _printed_scores()
    found = []
    for claim in read_claims():
        lacking = next(filter(None, (first_lacking(run, test) for test in claim.tests)), "")
        needs = tuple(dict.fromkeys(scope(test) for test in claim.tests))
        parts = [part for test in claim.tests for part in _parts(run, test, scores)]
        found.append(Decidable(claim, lacking, needs, tuple(parts)))
    return found


def _parts(run: Run, test: Test, scores: dict[tuple[str, ...], tuple[float, float]]) -> Iterator[Detectable]:
    """Avg@k parts that the configuration has, with the paper's Avg@4 and Pass@4 as the expectation.

    Pooled effects, gains of gains, transitions, Pass@k and reported numbers have no size beforehand.
    """
    if isinstance(test, Compare) and not (test.models_less or test.benchmarks_less) and "average" in test.metrics:
        for model in test.models:
            if no_rows(run.config, (model,), (test.benchmark,), (test.greater, test.less)):
                continue
            for span in test.spans:
                keys = [
                    ("turns", model, test.benchmark, side, "T1" if side == REFERENCE else span)
                    for side in (test.greater, test.less)
                ]
                turns = [len(LATER_TURNS) if key[-1] == "T2-T4" else 1 for key in keys]
                yield from _detectable(run, test.benchmark, f"{model}, {span}", keys, scores, turns)
    if isinstance(test, Shared) and not first_lacking(run, test):
        for less in test.less:
            keys = [("shared", test.model, test.benchmark, side, "T2") for side in (test.greater, less)]
            yield from _detectable(run, test.benchmark, f"{test.model}, against {less}", keys, scores, (1, 1))


def _detectable(
    run: Run,
    benchmark: str,
    part: str,
    keys: Sequence[tuple[str, ...]],
    scores: dict[tuple[str, ...], tuple[float, float]],
    turns: Sequence[int],
) -> Iterator[Detectable]:
    if any(key not in scores for key in keys):
        return
    (greater, greater_pass), (less, less_pass) = (scores[key] for key in keys)
    problems, samples = problems_of(run, benchmark), run.config.evaluation.samples
    try:
        # The spread of rates over problems, from the paper's four samples; then each condition's turns and this run's samples.
        four = planned_deviation((greater + less) / 2.0, (greater_pass + less_pass) / 2.0, 4)
    except ValueError:
        return
    single = detectable_difference(four * math.sqrt(2.0 * sum(1.0 / count for count in turns)), problems)
    effect = greater - less
    yield Detectable(part, problems, single / math.sqrt(samples), effect, math.ceil((single / effect) ** 2))


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
