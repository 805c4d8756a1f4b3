"""Training sessions from recorded responses, and their problem-balancing weights (appendices B.4 and B.5)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stair.core import TURNS
from stair.records.rows import Rollout
from stair.records.seeds import hash_order
from stair.stages.sessions.columns import arrange


@dataclass(frozen=True)
class Dropped:
    """A source record whose responses are in no session."""

    record_id: str
    samples: tuple[int, ...]
    """The sample numbers of its responses."""
    empty: int
    """The number of responses without a token; an end marker is a token."""

    @property
    def reason(self) -> str:
        if len(self.samples) != TURNS:
            return f"{len(self.samples)} responses, not {TURNS}"
        if self.samples != tuple(range(TURNS)):
            return f"samples {', '.join(map(str, self.samples))}, not 0 to {TURNS - 1}"
        return f"{self.empty} of {TURNS} responses are empty"


def complete_records(
    rollouts: Iterable[Rollout], records: Iterable[str] = ()
) -> tuple[dict[str, list[Rollout]], list[Dropped]]:
    """Groups responses by source record; drops records with fewer than four responses, with an empty one, or without any.

    Returns:
        The four responses of each kept record, by sample, and the dropped records.
    """
    responses_of: dict[str, list[Rollout]] = {record: [] for record in records}
    for rollout in rollouts:
        responses_of.setdefault(rollout.record_id, []).append(rollout)
    kept, dropped = {}, []
    for record, responses in sorted(responses_of.items()):
        empty = sum(response.response_tokens == 0 for response in responses)
        samples = tuple(sorted(response.sample for response in responses))
        if samples == tuple(range(TURNS)) and not empty:
            kept[record] = sorted(responses, key=lambda response: response.sample)
        else:
            dropped.append(Dropped(record, samples, empty))
    return kept, dropped


def training_sessions(records: Mapping[str, Sequence[Rollout]], *seed: str) -> list[dict[str, Any]]:
    """The rows of `records.schemas.TRAINING_SESSIONS`. Every response is in exactly one session.

    Each turn column gets one of a record's four responses, in an order by hash. Columns are shuffled independently, with swaps
    if a session would repeat a problem.

    Args:
        records: four responses by source record, as of `complete_records`.
        seed: names the orders.

    Raises:
        ValueError: too few distinct problems.
    """
    columns: list[list[Rollout]] = [[] for _ in range(TURNS)]
    for record, responses in records.items():
        order = hash_order(responses, *seed, "columns", record, key=[str(one.sample) for one in responses])
        for column, response in zip(columns, order, strict=True):
            column.append(response)
    sessions = arrange(columns, lambda response: response.problem_id, _name, *seed)
    weights = problem_weights(response.problem_id for session in sessions for response in session)
    rows = [
        dict(
            session_id=f"s-{_name(session[0])}",
            turn=turn,
            record_id=response.record_id,
            problem_id=response.problem_id,
            sample=response.sample,
            weight=weights[response.problem_id] if turn > 1 else 0.0,
        )
        for session in sessions
        for turn, response in enumerate(session, start=1)
    ]
    return sorted(rows, key=lambda row: (row["session_id"], row["turn"]))


def problem_weights(candidates: Iterable[str]) -> dict[str, float]:
    """w_r = (S/Q) / (3 C_q / 4) for every problem q, from the problem of every candidate response.

    S is the number of supervised responses, three quarters of the candidates; Q the number of problems.
    """
    counts = Counter(candidates)
    supervised = 3 * counts.total() / 4
    return {problem: (supervised / len(counts)) / (3 * count / 4) for problem, count in counts.items()}


def _name(response: Rollout) -> str:
    return f"{response.record_id}-{response.sample}"
