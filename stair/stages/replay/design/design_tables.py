"""The design of a model's replay on disk: two tables, from which the same design is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stair.records.rows import ReplayHistory, ReplayProblem
from stair.records.schemas import REPLAY_HISTORIES, REPLAY_PROBLEMS
from stair.records.tables import rows_as
from stair.stages.replay.design.crossed import Coverage, Design, Group
from stair.stages.replay.design.histories import History


def history_rows(design: Design, prefix_tokens: dict[History, tuple[int, ...]]) -> Iterator[dict[str, Any]]:
    """The histories of both groups, in the order of the design; `prefix_tokens` are each history's tokens by depth."""
    for group in design.groups:
        wide, narrow = (
            {history: block for block, joined in enumerate(coverage.blocks, start=1) for history in joined}
            for coverage in (group.history_coverage, group.problem_coverage)
        )
        for history in group.history_coverage.histories:
            yield dict(
                group=group.number,
                history=history.name,
                session_id=history.session,
                sample=history.sample,
                sources=list(history.sources),
                prefix_tokens=list(prefix_tokens[history]),
                block=wide[history],
                problem_coverage_block=narrow.get(history),
            )


def problem_rows(design: Design, turns: dict[str, tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """The current problems of both groups, in the order of the design; `turns` has each one's tokens: its turn's, its body's."""
    for group in design.groups:
        for problem in group.problem_coverage.problems:
            tokens, body = turns[problem]
            yield dict(
                group=group.number,
                problem_id=problem,
                history_coverage=problem in group.history_coverage.problems,
                turn_tokens=tokens,
                body_tokens=body,
            )


def read_design(histories: Path, problems: Path) -> Design:
    """The design that `history_rows` and `problem_rows` wrote. Raises ValueError if a table is absent or has other columns."""
    history_table = list(rows_as(histories, REPLAY_HISTORIES, ReplayHistory))
    problem_table = list(rows_as(problems, REPLAY_PROBLEMS, ReplayProblem))

    def group_of(number: int) -> Group:
        rows = [row for row in history_table if row.group == number]
        all_histories = [History(row.session_id, row.sample, tuple(row.sources)) for row in rows]
        few = [one for one, row in zip(all_histories, rows, strict=True) if row.problem_coverage_block is not None]
        current = [row for row in problem_table if row.group == number]
        wide = Coverage(tuple(row.problem_id for row in current if row.history_coverage), tuple(all_histories))
        return Group(number, wide, Coverage(tuple(row.problem_id for row in current), tuple(few)))

    return Design((group_of(1), group_of(2)))
