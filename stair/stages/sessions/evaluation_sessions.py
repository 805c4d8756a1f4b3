"""The evaluation schedule: N sessions, every turn column a permutation of the benchmark (appendix C.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stair.core import TURNS
from stair.stages.sessions.columns import arrange


def evaluation_sessions(problems: Sequence[str], benchmark: str, seed: str) -> list[dict[str, Any]]:
    """The rows of `records.schemas.EVALUATION_SESSIONS`.

    A session is named after its first problem.

    Args:
        problems: the benchmark's problem ids, all distinct.
        seed: names the schedule.

    Raises:
        ValueError: fewer than four problems.
    """
    if len(problems) < TURNS:
        raise ValueError(f"benchmark '{benchmark}' has {len(problems)} problems; a session needs {TURNS} distinct ones")
    order = sorted(problems)
    sessions = arrange([order] * TURNS, lambda item: item, lambda item: item, seed, "evaluation", benchmark)
    rows = [
        dict(session_id=f"s-{session[0]}", turn=turn, problem_id=problem)
        for session in sessions
        for turn, problem in enumerate(session, start=1)
    ]
    return sorted(rows, key=lambda row: (row["session_id"], row["turn"]))
