"""Simulated response rows of a run, from the scores that are expected of it.

Each problem has a success rate in every condition and turn. Over the problems of a benchmark, the rates of one condition and
turn follow the beta distribution that has the expected Avg@k and Pass@k. A problem that is easy once is usually easy again:
normal scores, mapped to rates, are correlated over the conditions and turns of one model, and less over models.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy import optimize, special, stats

from stair.statistics.grid import Grid, Responses, TurnKey
from stair.statistics.intervals import Floats

WITHIN_MODEL = 0.9
BETWEEN_MODELS = 0.6
"""Correlations of the normal scores, between conditions or turns of one model and between models (docs/planning.md)."""


class Expected(NamedTuple):
    """The scores that are expected of one model, benchmark, condition and turn, in percent."""

    average: float
    passed: float


def simulated_responses(
    expected: Mapping[TurnKey, Expected],
    problems: Mapping[str, int],
    samples: int,
    generator: np.random.Generator,
    *,
    expected_samples: int = 4,
) -> Responses:
    """Grids of `samples` answers to `problems` of each benchmark.

    `expected` are scores with `expected_samples` samples. At turn 1, the conditions with the same expected scores of one model
    share their answers, as the conditions with Vanilla's T1 do. The problems of a turn stand in sessions in a random order.
    """
    names = {benchmark: tuple(f"{number:05d}" for number in range(count)) for benchmark, count in problems.items()}
    easy: dict[tuple[str, ...], Floats] = {}
    sessions: dict[tuple[str, int], np.ndarray] = {}
    first: dict[tuple[object, ...], np.ndarray] = {}
    grids: dict[TurnKey, Grid] = {}
    for key, scores in expected.items():
        count = problems[key.benchmark]
        for of in ((key.benchmark,), (key.benchmark, key.model)):
            if of not in easy:
                easy[of] = generator.standard_normal(count)
        if (key.benchmark, key.turn) not in sessions:
            order = generator.permutation(count) if key.turn > 1 else np.arange(count)
            sessions[key.benchmark, key.turn] = np.array([f"session {place}" for place in order], dtype=np.object_)
        opened = (key.model, key.benchmark, scores)
        if key.turn == 1 and opened in first:
            correct = first[opened]
        else:
            normal = np.sqrt(BETWEEN_MODELS) * easy[key.benchmark,]
            normal = normal + np.sqrt(WITHIN_MODEL - BETWEEN_MODELS) * easy[key.benchmark, key.model]
            normal += np.sqrt(1.0 - WITHIN_MODEL) * generator.standard_normal(count)
            rates = rates_of(scores, normal, expected_samples)
            correct = generator.random((count, samples)) < rates[:, None]
            if key.turn == 1:
                first[opened] = correct
        place = np.repeat(sessions[key.benchmark, key.turn][:, None], samples, axis=1)
        grids[key] = Grid(names[key.benchmark], correct, place, None)
    return Responses(grids, samples, names)


def rates_of(expected: Expected, normal: Floats, samples: int) -> Floats:
    """[problems] The success rates at these normal scores. All are equal if the problems do not differ."""
    mean = expected.average / 100.0
    if mean in (0.0, 1.0):
        return np.full_like(normal, mean)
    return np.interp(normal, _POINTS, _quantiles(expected, samples))


# Few points, interpolated: the inverse of the beta distribution is slow.
_POINTS = np.linspace(-5.0, 5.0, 401)


@cache
def _quantiles(expected: Expected, samples: int) -> Floats:
    """The success rates at `_POINTS`."""
    mean, total = expected.average / 100.0, concentration(expected, samples)
    return np.asarray(stats.beta.ppf(stats.norm.cdf(_POINTS), mean * total, (1.0 - mean) * total))


def concentration(expected: Expected, samples: int) -> float:
    """The sum of both parameters of the beta distribution of success rates; large if all problems are alike.

    A Pass@k that no distribution with this Avg@k reaches counts as the nearest that one does.
    """
    mean = expected.average / 100.0
    reached = min(max(expected.passed / 100.0, mean), 1.0 - (1.0 - mean) ** samples)

    def excess(logarithm: float) -> float:
        total = np.exp(logarithm)
        alpha, beta = mean * total, (1.0 - mean) * total
        return float(1.0 - np.exp(special.betaln(alpha, beta + samples) - special.betaln(alpha, beta))) - reached

    low, high = -12.0, 12.0
    if excess(low) >= 0.0:
        return float(np.exp(low))
    if excess(high) <= 0.0:
        return float(np.exp(high))
    return float(np.exp(optimize.brentq(excess, low, high)))
