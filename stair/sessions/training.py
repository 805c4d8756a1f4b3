"""Training sessions from recorded responses, and their problem-balancing weights (appendices B.4 and B.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stair.core import TURNS
from stair.records.seeds import hash_order
from stair.sessions.columns import arrange

NEEDED = ("record_id", "problem_id", "sample", "response_tokens")
"""The columns of rollouts that sessions are built from; the responses themselves are not among them."""


@dataclass(frozen=True)
class Dropped:
    """A source record that gives no session its responses."""

    record_id: str
    samples: tuple[int, ...]
    """The numbers of its responses."""
    empty: int
    """How many of them hold no token; one that its end marker opens holds that one."""

    @property
    def reason(self) -> str:
        """In words."""
        if len(self.samples) != TURNS:
            return f"{len(self.samples)} responses, not {TURNS}"
        if self.samples != tuple(range(TURNS)):
            return f"samples {', '.join(map(str, self.samples))}, not 0 to {TURNS - 1}"
        return f"{self.empty} of {TURNS} responses are empty"


def complete_records(
    rollouts: Iterable[Mapping[str, Any]], records: Iterable[str] = ()
) -> tuple[dict[str, list[Mapping[str, Any]]], list[Dropped]]:
    """Groups responses by source record; records with fewer than four responses or an empty one are dropped.

    Args:
        rollouts: rows with the columns `NEEDED`.
        records: the source records that should have responses; one without any is dropped too.

    Returns:
        The four responses of each kept record, by sample, and the dropped records.
    """
    found: dict[str, list[Mapping[str, Any]]] = {record: [] for record in records}
    for row in rollouts:
        found.setdefault(row["record_id"], []).append(row)
    kept, dropped = {}, []
    for record, rows in sorted(found.items()):
        empty = sum(row["response_tokens"] == 0 for row in rows)
        samples = tuple(sorted(row["sample"] for row in rows))
        if samples == tuple(range(TURNS)) and not empty:
            kept[record] = sorted(rows, key=lambda row: row["sample"])
        else:
            dropped.append(Dropped(record, samples, empty))
    return kept, dropped


def training_sessions(records: Mapping[str, list[Mapping[str, Any]]], *seed: str) -> list[dict[str, Any]]:
    """The rows of `records.schemas.TRAINING_SESSIONS`.

    A record's four responses go one to each turn column, in an order by hash; columns are shuffled independently, with swaps
    where a session would repeat a problem. Every response stands once.

    Args:
        records: four responses by source record, as `complete_records` gives them.
        seed: names the orders.

    Raises:
        ValueError: too few distinct problems.
    """
    columns: list[list[Mapping[str, Any]]] = [[] for _ in range(TURNS)]
    for record, rows in records.items():
        for column, row in zip(
            columns, hash_order(rows, *seed, "columns", record, key=[str(r["sample"]) for r in rows]), strict=True
        ):
            column.append(row)
    sessions = arrange(columns, lambda row: row["problem_id"], _name, *seed)
    weights = problem_weights(row["problem_id"] for session in sessions for row in session)
    sessions_rows = [
        dict(
            session_id=f"s-{_name(session[0])}",
            turn=turn,
            record_id=row["record_id"],
            problem_id=row["problem_id"],
            sample=row["sample"],
            weight=weights[row["problem_id"]] if turn > 1 else 0.0,
        )
        for session in sessions
        for turn, row in enumerate(session, start=1)
    ]
    return sorted(sessions_rows, key=lambda row: (row["session_id"], row["turn"]))


def problem_weights(candidates: Iterable[str]) -> dict[str, float]:
    """w_r = (S/Q) / (3 C_q / 4) for every problem q, from the problem of every candidate response.

    S is the number of supervised responses, three quarters of the candidates; Q the number of problems.
    """
    counts = Counter(candidates)
    supervised = 3 * counts.total() / 4
    return {problem: (supervised / len(counts)) / (3 * count / 4) for problem, count in counts.items()}


def _name(row: Mapping[str, Any]) -> str:
    return f"{row['record_id']}-{row['sample']}"
