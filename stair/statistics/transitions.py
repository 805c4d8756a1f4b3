"""How answers change between Vanilla and Native's later turns (table `native_accuracy`)."""

import numpy as np
import numpy.typing as npt

from stair.statistics.grid import Gap, Grid, Responses
from stair.statistics.joint import Ratio
from stair.statistics.metrics import LATER_TURNS, REFERENCE
from stair.statistics.values import Value

TRANSITIONS = (
    ("wrong to correct", False, True),
    ("correct to wrong", True, False),
    ("correct to correct", True, True),
    ("wrong to wrong", False, False),
)
"""Each name, whether Vanilla's answer was correct, and whether Native's is."""
_CONDITION = "native"


def answer_transitions(responses: Responses, model: str, benchmark: str) -> list[Value]:
    """Native's later responses against Vanilla's T1 response to the same problem and sample.

    Four counts and the net change (wrong to correct minus correct to wrong, in percent of all pairs) for each turn.
    Raises ValueError where matched responses have different seeds.
    """
    values = []
    for turn in LATER_TURNS:
        changes = _changes(responses, model, benchmark, turn)
        counts = changes if isinstance(changes, Gap) else {name: int(pairs.sum()) for name, pairs in changes.items()}
        for name, _, _ in TRANSITIONS:
            count = counts if isinstance(counts, Gap) else counts[name]
            values.append(Value(model, benchmark, _CONDITION, f"T{turn}", "", name, count, "responses"))
        net = counts if isinstance(counts, Gap) else _net_change(counts)
        values.append(Value(model, benchmark, _CONDITION, f"T{turn}", "", "net change", net, "pp"))
    return values


def transition_shares(responses: Responses, model: str, benchmark: str) -> list[Value]:
    """What each direction adds to the net change of `answer_transitions`, in percent of all pairs of a turn.

    Wrong to correct is positive, correct to wrong negative.
    """
    by_turn: dict[str, dict[str, float | Gap]] = {}
    for each in answer_transitions(responses, model, benchmark):
        by_turn.setdefault(each.turn, {})[each.metric] = each.value
    values = []
    for turn, counts in by_turn.items():
        net = counts.pop("net change")
        pairs = sum(count for count in counts.values() if not isinstance(count, Gap))
        for sign, name in ((1, "wrong to correct"), (-1, "correct to wrong")):
            count = counts[name]
            share = count if isinstance(count, Gap) else sign * 100.0 * count / pairs
            values.append(Value(model, benchmark, _CONDITION, turn, "", f"{name} contribution", share, "%"))
        values.append(Value(model, benchmark, _CONDITION, turn, "", "net change", net, "pp"))
    return values


def transition_ratios(responses: Responses, model: str, benchmark: str, turn: int) -> dict[str, Ratio] | Gap:
    """The share of pairs at one turn with each of `TRANSITIONS`, in percent; sums over problems."""
    changes = _changes(responses, model, benchmark, turn)
    if isinstance(changes, Gap):
        return changes
    return {
        name: Ratio(benchmark, 100.0 * pairs.sum(axis=1), np.full(len(pairs), float(pairs.shape[1])))
        for name, pairs in changes.items()
    }


def require_equal_seeds(one: Grid, other: Grid) -> None:
    """Matched responses are generated from the same seed (appendix C.2)."""
    if one.seeds is None or other.seeds is None:
        return
    different = np.argwhere(one.seeds != other.seeds)
    if len(different):
        row, column = different[0]
        raise ValueError(
            f"problem {one.problems[row]!r}, sample {column}: seeds {one.seeds[row, column]} and "
            f"{other.seeds[row, column]} differ between conditions that should be matched"
        )


def _changes(responses: Responses, model: str, benchmark: str, turn: int) -> dict[str, npt.NDArray[np.bool_]] | Gap:
    """[problems, samples] for each of `TRANSITIONS`, which pairs have it."""
    before, after = responses.grid(model, benchmark, REFERENCE, 1), responses.grid(model, benchmark, _CONDITION, turn)
    if isinstance(before, Gap):
        return before
    if isinstance(after, Gap):
        return after
    require_equal_seeds(before, after)
    return {name: (before.correct == was) & (after.correct == became) for name, was, became in TRANSITIONS}


def _net_change(counts: dict[str, int]) -> float:
    return 100.0 * (counts["wrong to correct"] - counts["correct to wrong"]) / sum(counts.values())
