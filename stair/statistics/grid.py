"""Complete grids: every problem of a benchmark with every sample exactly once at one turn.

A turn's score is reported only from a complete grid (appendix C.3). An incomplete one is a `Gap` with its
reason, which travels through every number computed from it; it is never a smaller denominator.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

COLUMNS = ("model", "benchmark", "condition", "session_id", "turn", "sample", "problem_id", "correct")
"""The columns of scored response rows that metrics need. `seed` is checked where it is present."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A number that cannot be reported, and why."""

    reason: str


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """The responses of one model, benchmark and condition at one turn.

    Rows are problems in the order of `problems`, columns are samples.
    """

    problems: tuple[str, ...]
    correct: npt.NDArray[np.bool_]
    """[problems, samples]"""
    sessions: npt.NDArray[np.object_]
    """[problems, samples], session identities"""
    seeds: npt.NDArray[np.object_] | None
    """[problems, samples], None where the rows have no seeds"""


class TurnKey(NamedTuple):
    """The model, benchmark, condition and turn (1 to 4) of a grid."""

    model: str
    benchmark: str
    condition: str
    turn: int

    def __str__(self) -> str:
        return f"{self.model}, {self.benchmark}, {self.condition}, T{self.turn}"


Reasons = dict[TurnKey, dict[tuple[str, int], str]]
"""Why responses are missing, by (problem, sample) of a grid."""


@dataclass(frozen=True)
class Responses:
    """Scored response rows as grids."""

    grids: Mapping[TurnKey, Grid | Gap]
    samples: int
    problems: Mapping[str, tuple[str, ...]] = field(repr=False)
    """benchmark to its problem identities, sorted"""

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        *,
        problems: Mapping[str, Collection[str]] | None = None,
        samples: int = 4,
        reasons: Reasons | None = None,
    ) -> "Responses":
        """Reads scored response rows, which must have `COLUMNS`.

        `problems` names each benchmark's problems; without it, they are all that occur in any row of the benchmark, or among the
        missing responses. `reasons` says why responses are missing, where that is known.
        Raises ValueError for missing columns, a response that occurs twice, an unknown problem or sample, or a null `correct`.
        """
        absent = [column for column in COLUMNS if column not in frame.columns]
        if absent:
            raise ValueError(f"response rows lack the columns {', '.join(absent)}")
        if frame["correct"].isna().any():
            raise ValueError("response rows without a verdict: `correct` is null")
        # A problem without any response must not shrink the denominator.
        named = {(key.benchmark, problem) for key, gaps in (reasons or {}).items() for problem, _ in gaps}
        problem_ids = {
            str(benchmark): tuple(
                sorted(
                    problems[str(benchmark)]
                    if problems
                    else {*rows["problem_id"].unique(), *(problem for of, problem in named if of == benchmark)}
                )
            )
            for benchmark, rows in frame.groupby("benchmark", sort=False)
        }
        grids: dict[TurnKey, Grid | Gap] = {}
        lacking: dict[tuple[str, ...], dict[TurnKey, _Lacking]] = {}
        for names, rows in frame.groupby(["model", "benchmark", "condition", "turn"], sort=False):
            model, benchmark, condition, turn = (str(name) for name in names)
            key = TurnKey(model, benchmark, condition, int(turn))
            grid = _grid(key, rows, problem_ids[key.benchmark], samples, (reasons or {}).get(key, {}))
            if isinstance(grid, _Lacking):
                lacking.setdefault(key[:3], {})[key] = grid
                grids[key] = Gap("")  # its place; the reason follows
            else:
                grids[key] = grid
        for turns in lacking.values():
            grids |= dict.fromkeys(turns, _gap_of(turns))
        return cls(grids, samples, problem_ids)

    def grid(self, model: str, benchmark: str, condition: str, turn: int) -> Grid | Gap:
        """The grid of one turn; a condition without any response has the same gap at every turn."""
        key = TurnKey(model, benchmark, condition, turn)
        if grid := self.grids.get(key):
            return grid
        absent = condition not in self.conditions(model, benchmark)
        return Gap(f"{', '.join(key[:3]) if absent else key}: no responses")

    @property
    def models(self) -> list[str]:
        """Models with rows, in the order of the rows; so are benchmarks and conditions."""
        return unique(key.model for key in self.grids)

    def benchmarks(self, model: str) -> list[str]:
        """Benchmarks with rows of a model."""
        return unique(key.benchmark for key in self.grids if key.model == model)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every model with each of its benchmarks."""
        return [(model, benchmark) for model in self.models for benchmark in self.benchmarks(model)]

    def conditions(self, model: str, benchmark: str) -> list[str]:
        """Conditions with rows of a model on a benchmark."""
        return unique(key.condition for key in self.grids if (key.model, key.benchmark) == (model, benchmark))

    def turns(self, model: str, benchmark: str, condition: str) -> list[int]:
        """Turns with rows, complete or not, ascending."""
        return sorted(key.turn for key in self.grids if key[:3] == (model, benchmark, condition))


def unique(names: Iterable[str]) -> list[str]:
    """The distinct names in the order of their first occurrence."""
    return list(dict.fromkeys(names))


@dataclass(frozen=True)
class _Lacking:
    """The missing responses of an incomplete grid."""

    count: str
    """`1 of 48`."""
    first: str
    """Its first missing response, with the reason where that is known."""


def _gap_of(turns: Mapping[TurnKey, _Lacking]) -> Gap:
    """One gap for all incomplete turns of a condition.

    A trajectory lacks all turns from its first missing one on, so the first turn has the cause of most.
    """
    first, *later = sorted(turns, key=lambda key: key.turn)
    return Gap(
        f"{first}: {turns[first].count} responses missing, {turns[first].first}"
        + "".join(f"; T{key.turn}: {turns[key].count}" for key in later)
    )


def _grid(
    key: TurnKey,
    rows: pd.DataFrame,
    problems: tuple[str, ...],
    samples: int,
    reasons: Mapping[tuple[str, int], str],
) -> Grid | _Lacking:
    problem = pd.Index(problems).get_indexer(pd.Index(rows["problem_id"]))
    sample = rows["sample"].to_numpy(dtype=np.int64)
    if (problem < 0).any():
        raise ValueError(
            f"{key}: {rows['problem_id'].iloc[int(np.argmax(problem < 0))]!r} is no problem of the benchmark"
        )
    if ((sample < 0) | (sample >= samples)).any():
        raise ValueError(f"{key}: a sample outside 0 to {samples - 1}")
    count = np.zeros((len(problems), samples), dtype=np.int64)
    np.add.at(count, (problem, sample), 1)
    if (count > 1).any():
        row, column = np.argwhere(count > 1)[0]
        raise ValueError(f"{key}: problem {problems[row]!r}, sample {column} occurs {count[row, column]} times")
    if (count == 0).any():
        row, column = np.argwhere(count == 0)[0]
        missing = int((count == 0).sum())
        why = reasons.get((problems[row], int(column)))
        return _Lacking(
            f"{missing} of {count.size}",
            f"first problem {problems[row]!r}, sample {column}" + (f" ({why})" if why else ""),
        )
    correct = np.zeros(count.shape, dtype=np.bool_)
    correct[problem, sample] = rows["correct"].to_numpy(dtype=np.bool_)
    sessions = np.empty(count.shape, dtype=np.object_)
    sessions[problem, sample] = rows["session_id"].to_numpy(dtype=np.object_)
    seeds = None
    if "seed" in rows.columns and not rows["seed"].isna().any():
        seeds = np.empty(count.shape, dtype=np.object_)
        seeds[problem, sample] = rows["seed"].to_numpy(dtype=np.object_)
    return Grid(problems, correct, sessions, seeds)
