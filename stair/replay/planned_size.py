"""The disk size of a replay's states, before its design exists."""

from __future__ import annotations

from collections.abc import Iterator

from stair.config.replay import Replay
from stair.replay.design.crossed import Batch
from stair.replay.design.histories import History
from stair.replay.units import Shapes, Unit


def replay_bytes(settings: Replay, shapes: Shapes) -> int:
    """The size of the states of one model's replay, by the sizes of its design."""
    many, few = settings.history_coverage, settings.problem_coverage
    history = History("", 0, ())

    def batches(first: int, last: int, *, history: History | None, reads: bool) -> Iterator[Unit]:
        for start in range(first, last, settings.batch_problems):
            problems = ("",) * (min(start + settings.batch_problems, last) - start)
            yield Unit(1, Batch(history, 0, problems), reads)

    def size(history: History | None, reads: bool, *, whole: bool) -> int:
        units = list(batches(0, many.current_problems, history=history, reads=reads))
        if whole:
            units += batches(many.current_problems, few.current_problems, history=history, reads=reads)
        return shapes.nbytes(units)

    group = size(None, True, whole=True)
    group += few.histories * size(history, True, whole=True)
    group += (many.histories - few.histories) * size(history, False, whole=False)
    return group * len(settings.groups)
