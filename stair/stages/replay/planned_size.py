"""The batches of a replay and the disk size of its states, before its design exists."""

from __future__ import annotations

from stair.config.replay import Replay
from stair.stages.replay.batch_files import Shapes, Unit, shared_histories
from stair.stages.replay.design.crossed import Coverage, Design, Group
from stair.stages.replay.design.histories import History


def planned_units(settings: Replay) -> list[Unit]:
    """The batches of one model's replay; problems and histories have numbers for names."""
    many, few = settings.history_coverage, settings.problem_coverage
    problems = tuple(map(str, range(few.current_problems)))
    histories = tuple(History("", number, ()) for number in range(many.histories))
    group = Group(
        Coverage(problems[: many.current_problems], histories),
        Coverage(problems, histories[: few.histories]),
        settings.depth,
        settings.batch_problems,
    )
    return [unit for shared in shared_histories(Design((group, group))) for unit in shared.units]


def replay_bytes(settings: Replay, shapes: Shapes) -> int:
    """The size of the states of one model's replay."""
    return shapes.nbytes(planned_units(settings))
