"""Avg@k and Pass@k by turn, their T2-T4 means, and the differences between conditions."""

from collections.abc import Callable, Sequence

from stair.core import TURNS
from stair.statistics.grid import Gap, Grid, Responses
from stair.statistics.values import Value

LATER_TURNS = tuple(range(2, TURNS + 1))
MEAN = "T2-T4"
REFERENCE = "vanilla"
"""The condition that answers every problem once, without history."""

Metric = Callable[[Grid], float]


def avg_at_k(grid: Grid) -> float:
    """The share of correct responses, in percent."""
    return 100.0 * int(grid.correct.sum()) / grid.correct.size


def pass_at_k(grid: Grid) -> float:
    """The share of problems with at least one correct response, in percent."""
    return 100.0 * int(grid.correct.any(axis=1).sum()) / len(grid.problems)


def metric_names(samples: int) -> dict[str, Metric]:
    """`Avg@k` and `Pass@k` under the names that tables use."""
    return {f"Avg@{samples}": avg_at_k, f"Pass@{samples}": pass_at_k}


def at_turn(metric: Metric, responses: Responses, model: str, benchmark: str, condition: str, turn: int) -> float | Gap:
    """The metric of one turn in percent, or the gap of its grid."""
    grid = responses.grid(model, benchmark, condition, turn)
    return grid if isinstance(grid, Gap) else metric(grid)


def over_later_turns(metric: Metric, responses: Responses, model: str, benchmark: str, condition: str) -> float | Gap:
    """The mean over T2, T3 and T4, which must all be complete."""
    return mean([at_turn(metric, responses, model, benchmark, condition, turn) for turn in LATER_TURNS])


def mean(values: Sequence[float | Gap]) -> float | Gap:
    """The mean, or the first gap."""
    total = 0.0
    for value in values:
        if isinstance(value, Gap):
            return value
        total += value
    return total / len(values)


def difference(value: float | Gap, reference: float | Gap) -> float | Gap:
    """The value minus the reference, or the first gap."""
    if isinstance(value, Gap):
        return value
    return reference if isinstance(reference, Gap) else value - reference


def gains(responses: Responses, condition: str, base: str, *, model: str, benchmark: str) -> list[Value]:
    """The T2-T4 means of a condition minus those of its base, in percentage points, computed before rounding."""
    values = []
    for name, metric in metric_names(responses.samples).items():
        gain = difference(
            over_later_turns(metric, responses, model, benchmark, condition),
            over_later_turns(metric, responses, model, benchmark, base),
        )
        values.append(Value(model, benchmark, condition, MEAN, "", f"{name} gain", gain, "pp"))
    return values
