"""Invariants of the evaluation schedule, of training sessions and of training pools, as frames of their rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from stair.core import TURNS
from stair.sessions.check import Check, checked, occurrences

_TURN_NUMBERS = range(1, TURNS + 1)


def schedule_checks(turns: pd.DataFrame, problems: Sequence[str], scope: str) -> list[Check]:
    """The evaluation schedule (appendix C.2)."""
    return [
        _once("turn columns are permutations", scope, turns, turn=_TURN_NUMBERS, problem_id=problems),
        _distinct(turns, scope),
    ]


def pool_checks(records: pd.DataFrame, excluded: Mapping[str, Collection[str]], scope: str) -> list[Check]:
    """A training pool (appendix B.4): `excluded` holds the problem ids of each benchmark that must not be trained on."""
    benchmark = records.problem_id.map({problem: key for key, problems in excluded.items() for problem in problems})
    split = records.groupby("problem_id").split.transform("first")
    return [
        checked("no problem of an excluded benchmark", scope, records.assign(benchmark=benchmark), benchmark.notna(),
                "record_id", "benchmark"),
        checked("validation problems are held out", scope, records, records.split != split, "record_id", "split"),
    ]  # fmt: skip


def rollout_checks(rollouts: pd.DataFrame, pool: pd.DataFrame, scope: str) -> list[Check]:
    """Training responses: each is to a record of the training pool, and to that record's problem."""
    return [_problems("responses are to records of the pool", rollouts, pool, scope)]


def training_checks(turns: pd.DataFrame, records: Iterable[str], pool: pd.DataFrame, scope: str) -> list[Check]:
    """Training sessions and their weights (appendices B.4 and B.5).

    Args:
        records: the records whose four responses must each occur once.
        pool: the training problems.
        scope: the model and split.
    """
    records = list(records)
    # w_r (appendix B.5): zero at T1, equal for the supervised responses of a problem, and S/Q together.
    supervised, problem = turns.turn > 1, turns.groupby("problem_id").weight
    equal = turns.groupby(["problem_id", supervised]).weight.transform("first")
    total = supervised.sum() / max(1, turns.problem_id.nunique())
    wrong = ((turns.weight != 0) & ~supervised) | (turns.weight != equal)
    wrong |= ~np.isclose(problem.transform("sum"), total, rtol=1e-9, atol=0)
    return [
        _problems("responses are of their record's problem", turns, pool, scope),
        _once("every response stands once", scope, turns, record_id=records, sample=range(TURNS)),
        _once("a record's responses are in different columns", scope, turns, record_id=records, turn=_TURN_NUMBERS),
        _distinct(turns, scope),
        checked("problems have equal total weight", scope, turns, wrong, "session_id", "turn", "problem_id", "weight"),
    ]


def _once(name: str, scope: str, frame: pd.DataFrame, **columns: Iterable[object]) -> Check:
    """Every combination of these values occurs once, and no other."""
    counts = occurrences(
        frame, pd.MultiIndex.from_product([list(each) for each in columns.values()], names=list(columns))
    )
    wrong = (counts.times != 1) | ~counts.expected
    return replace(checked(name, scope, counts, wrong, *columns, "times"), rows=len(frame))


def _distinct(turns: pd.DataFrame, scope: str) -> Check:
    problems = turns.groupby("session_id").problem_id
    wrong = (problems.transform("nunique") != TURNS) | (problems.transform("size") != TURNS)
    return checked("problems of a session are distinct", scope, turns, wrong, "session_id", "problem_id")


def _problems(name: str, frame: pd.DataFrame, pool: pd.DataFrame, scope: str) -> Check:
    """The problem of each row is that of its record in the pool."""
    of_pool = frame.record_id.map(dict(zip(pool.record_id, pool.problem_id, strict=True)))
    columns = ("record_id", "problem_id", "of_pool")
    return checked(name, scope, frame.assign(of_pool=of_pool), frame.problem_id != of_pool, *columns)
