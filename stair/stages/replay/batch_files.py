"""The files of one model's replay: one a batch of current problems behind a history; their shapes and sizes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from stair.config.replay import Replay
from stair.models.architecture import Architecture
from stair.stages.replay.design.crossed import Batch, Coverage, Design, Group
from stair.stages.replay.design.histories import History
from stair.stages.replay.measurement.categories import CATEGORIES

_FP32 = 4  # bytes


@dataclass(frozen=True)
class Unit:
    """One batch of a group: the durable unit."""

    group: int
    batch: Batch
    with_reads: bool
    """Whether its deepest cells are in the problem coverage, where reads are measured; references always are."""

    @property
    def name(self) -> str:
        """Names its file."""
        history = "empty" if self.batch.history is None else self.batch.history.name
        return f"group-{self.group}/{history}/{self.batch.number}"

    def depths(self, deepest: int) -> range:
        """The depths of its cells; 0 is the empty history."""
        return range(1) if self.batch.history is None else range(1, deepest + 1)

    def has_reads(self, depth: int, deepest: int) -> bool:
        """Whether reads are measured at a depth."""
        return self.with_reads and depth in (0, deepest)


@dataclass(frozen=True)
class SharedHistory:
    """A group's batches behind one history, whose prefixes they share."""

    group: int
    history: History | None
    units: tuple[Unit, ...]


def shared_histories(design: Design) -> Iterator[SharedHistory]:
    """All work of a design, in its order: each group's references, then its histories."""
    for number, group in enumerate(design.groups, start=1):
        references = tuple(Unit(number, batch, True) for batch in group.reference_batches())
        yield SharedHistory(number, None, references)
        few = set(group.problem_coverage.histories)
        for history in group.history_coverage.histories:
            units = tuple(Unit(number, batch, history in few) for batch in group.batches_of(history))
            yield SharedHistory(number, history, units)


@dataclass(frozen=True)
class Shapes:
    """The shapes of a unit's tensors in one model.

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
    def of_model(cls, model: Architecture, measured: tuple[int, ...], deepest: int) -> Shapes:
        """The shapes in a model of this architecture."""
        return cls(model.layers, len(model.full_attention_layers), model.hidden_size, measured, deepest)

    def of(self, unit: Unit) -> dict[str, tuple[int, ...]]:
        """The tensors of a unit, by `<depth>/<name>`."""
        rows, hidden = len(unit.batch.problems), self.hidden_size
        shapes: dict[str, tuple[int, ...]] = {}
        for depth in unit.depths(self.deepest):
            shapes[f"{depth}/block_outputs"] = (self.layers, rows, hidden)
            shapes[f"{depth}/masses"] = (self.attention_layers, rows, len(CATEGORIES))
            if depth == 0:  # which no history changes
                shapes["0/embedding"] = (rows, hidden)
            if unit.has_reads(depth, self.deepest):
                shapes[f"{depth}/reads"] = (len(self.measured), rows, len(CATEGORIES), hidden)
                shapes[f"{depth}/next_mlp"] = (len(self.measured), rows, hidden)
        return shapes

    def nbytes(self, units: Iterable[Unit]) -> int:
        """Bytes of the tensors of several units."""
        return sum(_FP32 * math.prod(shape) for unit in units for shape in self.of(unit).values())


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
