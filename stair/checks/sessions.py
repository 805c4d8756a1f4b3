"""Invariants of schedules: of the evaluation's, of training sessions, and of the problems that these are made from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isclose

from stair.protocol.check import Check, Row, verdict


def schedule_checks(rows: Sequence[Row], problems: Sequence[str], scope: str) -> list[Check]:
    """The evaluation schedule (appendix C.2)."""
    return [
        verdict("turn columns are permutations", scope, len(rows), _permutations(rows, problems)),
        verdict("problems of a session are distinct", scope, len(rows), _distinct(rows)),
    ]


def pool_checks(rows: Sequence[Row], excluded: Mapping[str, Collection[str]], scope: str) -> list[Check]:
    """A training pool (appendix B.4): `excluded` holds the problem ids of each benchmark that must not be trained on."""
    return [
        verdict("no problem of an excluded benchmark", scope, len(rows), _leaks(rows, excluded)),
        verdict("validation problems are held out", scope, len(rows), _split(rows)),
    ]


def rollout_checks(rows: Sequence[Row], pool: Sequence[Row], scope: str) -> list[Check]:
    """Training responses: each is to a record of the training pool, and to that record's problem."""
    problems = {row["record_id"]: row["problem_id"] for row in pool}
    return [verdict("responses are to records of the pool", scope, len(rows), _strange(rows, problems))]


def training_checks(
    rows: Sequence[Row], responses: Sequence[tuple[str, int]], pool: Sequence[Row], scope: str
) -> list[Check]:
    """Training sessions and their weights (appendices B.4 and B.5).

    Args:
        rows: the sessions.
        responses: the (record, sample) that must stand once each.
        pool: the training problems that they come from.
        scope: of which model and split.
    """
    problems = {row["record_id"]: row["problem_id"] for row in pool}
    return [
        verdict("responses are of their record's problem", scope, len(rows), _strange(rows, problems)),
        verdict("every response stands once", scope, len(rows), _once(rows, responses)),
        verdict("a record's responses stand in different columns", scope, len(rows), _columns(rows)),
        verdict("problems of a session are distinct", scope, len(rows), _distinct(rows)),
        verdict("problems have equal total weight", scope, len(rows), _weights(rows)),
    ]


def _leaks(rows: Sequence[Row], excluded: Mapping[str, Collection[str]]) -> Iterator[str]:
    for benchmark, problems in excluded.items():
        yield from (f"record {row['record_id']} is of {benchmark}" for row in rows if row["problem_id"] in problems)


def _split(rows: Sequence[Row]) -> Iterator[str]:
    splits: dict[str, str] = {}
    for row in rows:
        if row["split"] != (first := splits.setdefault(row["problem_id"], row["split"])):
            yield f"record {row['record_id']} is in {row['split']}, another of its problem in {first}"


def _permutations(rows: Sequence[Row], problems: Sequence[str]) -> Iterator[str]:
    columns: dict[int, list[str]] = defaultdict(list)
    for row in rows:
        columns[row["turn"]].append(row["problem_id"])
    if sorted(columns) != [1, 2, 3, 4]:
        yield f"turns are {sorted(columns)}"
    for turn, column in columns.items():
        if sorted(column) != sorted(problems):
            off = (Counter(column) - Counter(problems)) + (Counter(problems) - Counter(column))
            yield f"turn {turn}: {next(iter(off))} does not stand exactly once"


def _distinct(rows: Sequence[Row]) -> Iterator[str]:
    sessions: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        sessions[row["session_id"]].append(row["problem_id"])
    for session, problems in sessions.items():
        if len(problems) != 4 or len(set(problems)) != 4:
            yield f"{session} holds {problems}"


def _once(rows: Sequence[Row], responses: Sequence[tuple[str, int]]) -> Iterator[str]:
    found = Counter((row["record_id"], row["sample"]) for row in rows)
    for response in responses:
        if (count := found.pop(response, 0)) != 1:
            yield f"record {response[0]} sample {response[1]} stands {count} times"
    yield from (f"record {record} sample {sample} is no response of this split" for record, sample in found)


def _strange(rows: Sequence[Row], problems: Mapping[str, str]) -> Iterator[str]:
    for row in rows:
        record = row["record_id"]
        if record not in problems:
            yield f"record {record} is not in the pool"
        elif row["problem_id"] != problems[record]:
            yield f"record {record} is of {row['problem_id']}, in the pool of {problems[record]}"


def _columns(rows: Sequence[Row]) -> Iterator[str]:
    turns: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        turns[row["record_id"]].append(row["turn"])
    for record, found in turns.items():
        if sorted(found) != [1, 2, 3, 4]:
            yield f"record {record} stands at turns {sorted(found)}"


def _weights(rows: Sequence[Row]) -> Iterator[str]:
    """A supervised response of problem q weighs (S/Q) / (3 C_q / 4), one at T1 nothing."""
    totals: dict[str, float] = defaultdict(float)
    candidates = Counter(row["problem_id"] for row in rows)
    supervised = sum(row["turn"] > 1 for row in rows)
    for row in rows:
        problem = row["problem_id"]
        share = (supervised / len(candidates)) / (3 * candidates[problem] / 4) if row["turn"] > 1 else 0.0
        if not isclose(row["weight"], share, rel_tol=1e-9):
            yield f"{row['session_id']}, T{row['turn']} has the weight {row['weight']}, expected {share}"
        totals[problem] += row["weight"]
    for problem, total in totals.items():
        if not isclose(total, supervised / len(totals), rel_tol=1e-9):
            yield f"{problem} has total weight {total}, expected S/Q = {supervised / len(totals)}"


def schedule_of(rows: Sequence[Row]) -> Mapping[str, list[str]]:
    """A session's problems in turn order, by session."""
    sessions: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["session_id"], row["turn"])):
        sessions[row["session_id"]].append(row["problem_id"])
    return sessions
