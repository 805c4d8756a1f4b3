"""A small study on a random model: conditions, trajectories, and an engine that watches or interrupts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from stair.core import EngineIdentity, Place, Problem, ReadSpecification
from stair.engines.base import Completion, Reconstruction, Request, SamplingSettings
from stair.engines.transformers import TransformersEngine
from stair.method import BankFree, Reflector, Segment, random_reflector
from stair.records.progress import Progress
from stair.records.schemas import RESPONSES
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.sessions.banks import BankStore
from stair.sessions.renderer import Renderer
from stair.sessions.run import Failed, generate
from stair.sessions.trajectory import Control, Generation, Trajectory, questions
from stair.stages.sessions.evaluation_sessions import evaluation_sessions
from tests.conftest import LAYERS, TOKENS

Rows = list[dict[str, Any]]
THINKING_LAW = SamplingSettings(temperature=1.0, top_k=20)

READS = {
    "stair": ReadSpecification(),
    "own_first": ReadSpecification(),
    "stair_null": ReadSpecification("zero"),
    "direct_read": ReadSpecification("direct"),
    "stair_prefix": ReadSpecification(limit=4),
    "kv_permutation": ReadSpecification(permutation_seed=2),
    "random_reflector": ReadSpecification(),
}
PROBLEMS = {f"p{number}": Problem(f"p{number}", f"What is {number} + {number}?") for number in range(5)}


class WatchedEngine(TransformersEngine):
    """The Transformers engine, keeping what it was asked; stops like a killed process after some completions."""

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        layers: tuple[int, ...] = LAYERS,
        stop_after: int | None = None,
        width: int = 4,
        prefill: int = 1,
    ) -> None:
        super().__init__(model, tokens=TOKENS, layers=layers, batch_width=width, prefill_width=prefill, cache_block=32)
        self.stop_after, self.killed = stop_after, False
        self.requests: dict[str, Request] = {}
        self.reconstructions: list[Reconstruction] = []

    def run(self, requests: Iterable[Request]) -> Iterator[Completion]:
        for number, completion in enumerate(super().run(map(self._seen, requests))):
            if number == self.stop_after:
                self.killed = True
                raise KeyboardInterrupt
            yield completion

    def ended(self) -> list[Completion]:
        return [] if self.killed else super().ended()  # a killed process is asked for nothing

    def submit(self, request: Request) -> None:
        super().submit(self._seen(request))

    def reconstruct(self, reconstructions: Sequence[Reconstruction]) -> list[Segment]:
        self.reconstructions.extend(reconstructions)
        return super().reconstruct(reconstructions)

    def _seen(self, request: Request) -> Request:
        assert request.key not in self.requests, "one response was asked for twice"
        self.requests[request.key] = request
        return request


@dataclass
class Study:
    """All that the conditions of a small evaluation share; each condition works in a folder of its own."""

    model: PreTrainedModel
    renderer: Renderer
    folder: Path
    sessions: int = 5
    samples: int = 2
    first_rows: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    sampling: SamplingSettings = THINKING_LAW
    layout: dict[str, Any] = field(default_factory=dict)
    turns: int = 4
    """Of every condition but Vanilla."""
    name: str = "evaluation"
    """Enters every seed."""
    scale: float = 0.5
    """Bank-free's, in every head and channel."""
    failed: list[Failed] = field(default_factory=list)
    """What the last run could not generate."""

    def generation(self, condition: str) -> Generation:
        return Generation(
            model_revision="revision",
            engine=EngineIdentity("transformers", "1", "sdpa", "float32"),
            renderer=self.renderer,
            sampling=self.sampling,
            max_new_tokens=9,
            columns=tuple(RESPONSES.names),
            control=self.control(condition),
            banks=BankStore(self.folder / condition / "banks"),
            layout=self.layout,
        )

    def control(self, condition: str) -> Control | None:
        if condition in ("vanilla", "native"):
            return None
        if condition == "bank_free":
            scales = BankFree.zeros(LAYERS, 4, 16)
            with torch.no_grad():
                scales.scales += self.scale
            return Control(scales.digest, LAYERS, False, scales)
        if condition == "random_reflector":
            return Control("random 1", LAYERS, True, random_reflector(LAYERS, 4, 16, 1))
        weights = Reflector.draw(LAYERS, 4, 16, seed=3)
        return Control(weights.digest, LAYERS, True, weights)

    def trajectories(self, condition: str) -> list[Trajectory]:
        """The trajectories afresh. `own_first` is STAIR with a T1 of its own, as the LoRA conditions have."""
        turns = 1 if condition == "vanilla" else self.turns
        settings, place = self.generation(condition), Place("m", "b", condition)
        schedule: dict[str, list[Problem]] = {}
        for row in evaluation_sessions(list(PROBLEMS), "b", "seed"):
            schedule.setdefault(row["session_id"], []).append(PROBLEMS[row["problem_id"]])
        found = []
        for session, problems in list(schedule.items())[: self.sessions]:
            for sample in range(self.samples):
                reused = condition not in ("vanilla", "own_first")
                first = self.first_rows.get((problems[0].problem_id, sample)) if reused else None
                asked = questions(place, session, sample, problems[:turns], self.name, READS.get(condition))
                found.append(Trajectory(settings, asked, first))
        return found

    def log(self, condition: str) -> WorkLog:
        return WorkLog(self.folder / condition / "log")

    def go(self, condition: str, engine: WatchedEngine, writer: str = "shard-0-of-1") -> Rows:
        """Runs a condition's trajectories to their ends, from what the log holds; the rows."""
        trajectories = self.trajectories(condition)
        progress = Progress(self.folder / "progress", condition, total=1000, unit="responses")
        with WorkLogWriter(self.folder / condition / "log", writer) as log:
            self.failed = []
            generate(trajectories, engine, self.log(condition), log, progress, self.failed)
        return rows_of(trajectories)

    def answer_first(self) -> Rows:
        """Runs Vanilla; its rows are the shared T1."""
        rows = self.go("vanilla", WatchedEngine(self.model))
        self.first_rows = {(row["problem_id"], row["sample"]): row for row in rows}
        return rows


def fresh(study: Study, folder: Path) -> Study:
    """The same study in another folder."""
    return Study(study.model, study.renderer, folder, study.sessions, study.samples, study.first_rows)


def rows_of(trajectories: Iterable[Trajectory]) -> Rows:
    """All rows in the order in which they are sealed."""
    return in_order([row for trajectory in trajectories for row in trajectory.rows])


def in_order(rows: Rows) -> Rows:
    """Rows as a sealed table has them."""
    return sorted(rows, key=lambda row: (row["session_id"], row["sample"], row["turn"]))
