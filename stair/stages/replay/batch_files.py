"""The files of one model's replay, one for each batch: the shapes and sizes of their tensors."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

from stair.config.replay import Replay
from stair.models.architecture import Architecture
from stair.stages.replay.design.crossed import Batch, Coverage, Design, Group
from stair.stages.replay.design.histories import History
from stair.stages.replay.measurement.categories import CATEGORIES

_FP32 = 4  # bytes


@dataclass(frozen=True)
class Shapes:
    """The shapes of a batch's tensors in one model.

    Layers come first, so that one layer of a batch is one piece of its file.
    """

    layers: int
    attention_layers: int
    """Layers with masses."""
    hidden_size: int
    measured: tuple[int, ...]
    """Layers with reads."""
    deepest: int

    @classmethod
    def of_model(cls, model: Architecture, replay: Replay) -> Shapes:
        """The shapes in a model of this architecture."""
        return cls(model.layers, len(model.full_attention_layers), model.hidden_size, replay.layers, replay.depth)

    def of(self, batch: Batch) -> dict[str, tuple[int, ...]]:
        """The tensors of a batch, by `<depth>/<name>`."""
        rows, hidden = len(batch.problems), self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {}
        for depth in batch.depths(self.deepest):
            shapes[f"{depth}/block_outputs"] = (self.layers, rows, hidden)
            shapes[f"{depth}/masses"] = (self.attention_layers, rows, len(CATEGORIES))
            if depth == 0:  # which no history changes
                shapes["0/embedding"] = (rows, hidden)
            if batch.has_reads(depth, self.deepest):
                shapes[f"{depth}/reads"] = (len(self.measured), rows, len(CATEGORIES), hidden)
                shapes[f"{depth}/next_mlp"] = (len(self.measured), rows, hidden)
        return shapes

    def nbytes(self, batches: Iterable[Batch]) -> int:
        """Bytes of the tensors of several batches."""
        return sum(_FP32 * math.prod(shape) for batch in batches for shape in self.of(batch).values())


def planned_batches(replay: Replay) -> list[Batch]:
    """The batches of one model's replay; problems and histories have numbers for names."""
    many, few = replay.history_coverage, replay.problem_coverage
    problems = tuple(map(str, range(few.current_problems)))
    histories = tuple(History("", number, ()) for number in range(many.histories))
    first, second = (
        Group(
            number,
            Coverage(problems[: many.current_problems], histories),
            Coverage(problems, histories[: few.histories]),
            replay.batch_problems,
        )
        for number in (1, 2)
    )
    return list(chain.from_iterable(Design((first, second)).batches()))
