"""Invariants of schedules: of the evaluation's, of training sessions, and of the problems that these are made from."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import isclose

from stair.checks.check import Check, Row, verdict


def schedule_checks(rows: Sequence[Row], problems: Sequence[str], scope: str) -> list[Check]:
    """The evaluation schedule (appendix D.2)."""
    return [
        verdict("turn columns are permutations", scope, len(rows), _permutations(rows, problems)),
        verdict("problems of a session are distinct", scope, len(rows), _distinct(rows)),
    ]


def pool_checks(rows: Sequence[Row], excluded: Mapping[str, Collection[str]], scope: str) -> list[Check]:
    """A training pool (appendix C.4): `excluded` holds the problem ids of each benchmark that must not be trained on."""
    return [
        verdict("no problem of an excluded benchmark", scope, len(rows), _leaks(rows, excluded)),
        verdict("validation problems are held out", scope, len(rows), _split(rows)),
    ]


def training_checks(rows: Sequence[Row], responses: Sequence[tuple[str, int]], scope: str) -> list[Check]:
    """Training sessions (appendices C.4 and C.5): `responses` are the (record, sample) that must stand once each."""
    return [
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


def _columns(rows: Sequence[Row]) -> Iterator[str]:
    turns: dict[str, list[int]] = defaultdict(list)
    for row in rows:
        turns[row["record_id"]].append(row["turn"])
    for record, found in turns.items():
        if sorted(found) != [1, 2, 3, 4]:
            yield f"record {record} stands at turns {sorted(found)}"


def _weights(rows: Sequence[Row]) -> Iterator[str]:
    totals: dict[str, float] = defaultdict(float)
    for row in rows:
        if row["turn"] == 1 and row["weight"] != 0:
            yield f"{row['session_id']} has a weight at T1"
        totals[row["problem_id"]] += row["weight"]
    supervised = sum(row["turn"] > 1 for row in rows)
    for problem, total in totals.items():
        if not isclose(total, supervised / len(totals), rel_tol=1e-9):
            yield f"{problem} has total weight {total}, expected S/Q = {supervised / len(totals)}"


def schedule_of(rows: Sequence[Row]) -> Mapping[str, list[str]]:
    """A session's problems in turn order, by session."""
    sessions: dict[str, list[str]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row["session_id"], row["turn"])):
        sessions[row["session_id"]].append(row["problem_id"])
    return sessions
