"""Synthetic measurements of two groups in the replay's own files, one for each history."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from stair.records.keys import file_digest
from stair.records.rows import ReplayHistory
from stair.records.tensor_files import TensorFiles
from stair.stages.replay.analysis.crossing import Crossing
from stair.stages.replay.design.crossed import Coverage, Group
from stair.stages.replay.design.histories import History
from stair.stages.replay.states import ReplayStates

DEPTH = 2


@dataclass
class Stored:
    """One group's measurements; arrays have layers, problems and histories first."""

    number: int
    blocks: list[int]
    """[histories]"""
    problems: int = 8
    layers: int = 3
    hidden: int = 6
    measured: tuple[int, ...] = (0, 1)
    """Layers with reads."""
    tensors: dict[str, np.ndarray] = field(default_factory=dict)
    references: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        generator = np.random.default_rng(self.number)
        cells = self.problems, len(self.blocks)
        reads = len(self.measured)
        shapes = {
            "block_outputs": (self.layers, *cells, self.hidden),
            "masses": (self.layers, *cells, 4),
            "reads": (reads, *cells, 4, self.hidden),
            "next_mlp": (reads, *cells, self.hidden),
        }
        for name, shape in shapes.items():
            self.tensors[name] = generator.normal(0, 1, shape).astype(np.float32)
            self.references[name] = generator.normal(0, 1, (shape[0], shape[1], *shape[3:])).astype(np.float32)
        self.tensors["masses"] = generator.dirichlet(np.ones(4), shapes["masses"][:3]).astype(np.float32)
        self.references["embedding"] = generator.normal(0, 1, (self.problems, self.hidden)).astype(np.float32)
        self.lengths = generator.integers(20, 30, len(self.blocks)).tolist()

    @property
    def names(self) -> list[str]:
        """The current problems, not in the order of their names."""
        return [f"{self.number}p{5 * place % self.problems:02}" for place in range(self.problems)]

    @property
    def histories(self) -> list[str]:
        return [history.name for history in self.design.problem_coverage.histories]

    @property
    def design(self) -> Group:
        """The group, whose two coverages are equal."""
        histories = (History(f"{self.number}h{place:02}", 0, ("",) * DEPTH) for place in range(len(self.blocks)))
        coverage = Coverage(tuple(self.names), tuple(histories))
        return Group(self.number, coverage, coverage)

    def rows(self) -> list[ReplayHistory]:
        """The histories of the design, as far as the analysis reads them."""
        return [
            ReplayHistory(self.number, name, "", 0, [], [length // 2, length], 1, block)
            for name, length, block in zip(self.histories, self.lengths, self.blocks, strict=True)
        ]


def stored(folder: Path, groups: list[Stored]) -> list[Crossing]:
    """Writes the measurements, and gives both groups as the analysis reads them."""
    files, checksums = TensorFiles(folder / "states"), ""
    for group in groups:
        for place, work in enumerate(group.design.work()):
            tensors = (
                {f"0/{key}": part for key, part in group.references.items()}
                if work.history is None
                else {f"{DEPTH}/{key}": part[:, :, place - 1].copy() for key, part in group.tensors.items()}
            )
            files.keep(work.name, "synthetic", tensors)
            path = files.path(work.name)
            checksums += f"{file_digest(path)}  {path.relative_to(folder)}\n"
    (folder / "states.sha256").write_text(checksums, encoding="utf-8")
    states = ReplayStates(folder / "states.sha256")
    return [Crossing.of(group.design, states, group.rows()) for group in groups]
