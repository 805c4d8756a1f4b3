"""Invariants of the evaluation schedule, of training sessions and of training pools."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isclose

from stair.core import TURNS
from stair.records.rows import Rollout, ScheduledTurn, SourceRecord, TrainingTurn
from stair.sessions.check import Check, verdict

_TURN_NUMBERS = list(range(1, TURNS + 1))


def schedule_checks(turns: Sequence[ScheduledTurn], problems: Sequence[str], scope: str) -> list[Check]:
    """The evaluation schedule (appendix C.2)."""
    return [
        verdict("turn columns are permutations", scope, len(turns), _permutations(turns, problems)),
        verdict("problems of a session are distinct", scope, len(turns), _distinct(turns)),
    ]


def pool_checks(records: Sequence[SourceRecord], excluded: Mapping[str, Collection[str]], scope: str) -> list[Check]:
    """A training pool (appendix B.4): `excluded` holds the problem ids of each benchmark that must not be trained on."""
    return [
        verdict("no problem of an excluded benchmark", scope, len(records), _leaks(records, excluded)),
        verdict("validation problems are held out", scope, len(records), _split(records)),
    ]


def rollout_checks(rollouts: Sequence[Rollout], pool: Sequence[SourceRecord], scope: str) -> list[Check]:
    """Training responses: each is to a record of the training pool, and to that record's problem."""
    offenders = _wrong_problems(rollouts, pool)
    return [verdict("responses are to records of the pool", scope, len(rollouts), offenders)]


def training_checks(
    turns: Sequence[TrainingTurn], responses: Sequence[tuple[str, int]], pool: Sequence[SourceRecord], scope: str
) -> list[Check]:
    """Training sessions and their weights (appendices B.4 and B.5).

    Args:
        responses: the (record, sample) of each response, which must occur once.
        pool: the training problems.
        scope: the model and split.
    """
    return [
        verdict("responses are of their record's problem", scope, len(turns), _wrong_problems(turns, pool)),
        verdict("every response stands once", scope, len(turns), _once(turns, responses)),
        verdict("a record's responses stand in different columns", scope, len(turns), _columns(turns)),
        verdict("problems of a session are distinct", scope, len(turns), _distinct(turns)),
        verdict("problems have equal total weight", scope, len(turns), _weights(turns)),
    ]


def _leaks(records: Sequence[SourceRecord], excluded: Mapping[str, Collection[str]]) -> Iterator[str]:
    for benchmark, problems in excluded.items():
        yield from (f"record {one.record_id} is of {benchmark}" for one in records if one.problem_id in problems)


def _split(records: Sequence[SourceRecord]) -> Iterator[str]:
    splits: dict[str, str] = {}
    for one in records:
        if one.split != (first := splits.setdefault(one.problem_id, one.split)):
            yield f"record {one.record_id} is in {one.split}, another of its problem in {first}"


def _permutations(turns: Sequence[ScheduledTurn], problems: Sequence[str]) -> Iterator[str]:
    columns: dict[int, list[str]] = defaultdict(list)
    for one in turns:
        columns[one.turn].append(one.problem_id)
    if sorted(columns) != _TURN_NUMBERS:
        yield f"turns are {sorted(columns)}"
    for turn, column in columns.items():
        if sorted(column) != sorted(problems):
            wrong = (Counter(column) - Counter(problems)) + (Counter(problems) - Counter(column))
            yield f"turn {turn}: {next(iter(wrong))} does not occur exactly once"


def _distinct(turns: Sequence[ScheduledTurn] | Sequence[TrainingTurn]) -> Iterator[str]:
    for session, problems in schedule_of(turns).items():
        if len(problems) != TURNS or len(set(problems)) != TURNS:
            yield f"{session} holds {problems}"


def _once(turns: Sequence[TrainingTurn], responses: Sequence[tuple[str, int]]) -> Iterator[str]:
    counts = Counter((one.record_id, one.sample) for one in turns)
    for record, sample in responses:
        if (count := counts.pop((record, sample), 0)) != 1:
            yield f"record {record} sample {sample} occurs {count} times"
    yield from (f"record {record} sample {sample} is no response of this split" for record, sample in counts)


def _wrong_problems(
    responses: Sequence[Rollout] | Sequence[TrainingTurn], pool: Sequence[SourceRecord]
) -> Iterator[str]:
    problems = {record.record_id: record.problem_id for record in pool}
    for one in responses:
        if one.record_id not in problems:
            yield f"record {one.record_id} is not in the pool"
        elif one.problem_id != problems[one.record_id]:
            yield f"record {one.record_id} is of {one.problem_id}, in the pool of {problems[one.record_id]}"


def _columns(turns: Sequence[TrainingTurn]) -> Iterator[str]:
    columns: dict[str, list[int]] = defaultdict(list)
    for one in turns:
        columns[one.record_id].append(one.turn)
    for record, numbers in columns.items():
        if sorted(numbers) != _TURN_NUMBERS:
            yield f"record {record} is at turns {sorted(numbers)}"


def _weights(turns: Sequence[TrainingTurn]) -> Iterator[str]:
    """The weight of a supervised response of problem q is (S/Q) / (3 C_q / 4), that of a T1 is zero."""
    totals: dict[str, float] = defaultdict(float)
    candidates = Counter(one.problem_id for one in turns)
    supervised = sum(one.turn > 1 for one in turns)
    for one in turns:
        share = (supervised / len(candidates)) / (3 * candidates[one.problem_id] / 4) if one.turn > 1 else 0.0
        if not isclose(one.weight, share, rel_tol=1e-9):
            yield f"{one.session_id}, T{one.turn} has the weight {one.weight}, expected {share}"
        totals[one.problem_id] += one.weight
    for problem, total in totals.items():
        if not isclose(total, supervised / len(totals), rel_tol=1e-9):
            yield f"{problem} has total weight {total}, expected S/Q = {supervised / len(totals)}"


def schedule_of(turns: Sequence[ScheduledTurn] | Sequence[TrainingTurn]) -> Mapping[str, list[str]]:
    sessions: dict[str, list[str]] = defaultdict(list)
    ordered = sorted((one.session_id, one.turn, one.problem_id) for one in turns)
    for session, _, problem in ordered:
        sessions[session].append(problem)
    return sessions
