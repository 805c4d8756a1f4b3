"""One model, benchmark and condition: the inputs of its trajectories, and their engine."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.training import ControllerSettings
from stair.core import EngineIdentity, Place, Problem, study_of, user_message
from stair.engines.base import Engine
from stair.records.keys import adapter_digest, digest_of, file_digest
from stair.records.manifest import missing_responses
from stair.records.rows import BenchmarkProblem, ScheduledTurn
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES
from stair.records.tables import SavedRows, read_table, rows_as
from stair.sessions.backbone import Backbone
from stair.sessions.banks import BankStore
from stair.sessions.prompt_check import check_lengths
from stair.sessions.trajectory import Control, Generation, Trajectory, questions

if TYPE_CHECKING:
    from stair.method import BankFree, Reflector


class Study:
    """The problems, sessions, saved T1 rows and controller that the trajectories of one condition need.

    Reads everything but weights; imports no torch.

    Attributes:
        name: the condition's name in its study, as rows have it.
        work: the work folder, with logs, banks and markers.
        problems: each problem with its user message, by id.
        sessions: the ids of each session's problems in turn order, by session.
        first_rows: the saved T1 rows that the condition reuses, by problem and sample; None if it generates its own.

    Raises:
        ValueError: as `Backbone.open`.
    """

    def __init__(self, config: Config, paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
        self.config, self.paths, self.model, self.benchmark, self.condition = config, paths, model, benchmark, condition
        self.settings = config.condition(condition)
        _, self.name = study_of(condition)
        self.backbone = Backbone.open(config, paths, model, config.engine_for(model, benchmark))
        self.work = paths.work("evaluation", model, benchmark, condition)
        prompt = config.prompts[config.benchmarks[benchmark].prompt]
        self.problems = {
            row.problem_id: Problem(row.problem_id, user_message(prompt, row.problem))
            for row in rows_as(paths.benchmark(benchmark), BENCHMARK, BenchmarkProblem)
        }
        self.sessions: dict[str, list[str]] = defaultdict(list)
        for row in rows_as(paths.evaluation_sessions(benchmark), EVALUATION_SESSIONS, ScheduledTurn):
            self.sessions[row.session_id].append(row.problem_id)
        self.first_rows = self._first_rows()

    def _first_rows(self) -> SavedRows | None:
        source = self.config.first_turn(self.condition)
        if source is None:
            return None
        path = self.paths.responses(self.model, self.benchmark, source)
        return SavedRows(path, RESPONSES, ("problem_id", "sample"))

    def _control(self, load: bool) -> Control | None:
        trained, settings = self.controller, self.settings
        if trained is None or not trained.controls:
            return None
        assert settings.controller is not None
        path, layers = self.paths.weights(self.model, settings.controller), trained.controlled_layers
        if settings.randomised == "reflector":
            # Random directions are the same whatever was trained.
            digest = digest_of({"random_reflector": settings.seed, "layers": list(layers)})
        else:
            digest = file_digest(path)
        weights = self._weights(path, layers) if load else None
        return Control(digest, layers, trained.reads, weights)

    def _weights(self, path: Path, layers: tuple[int, ...]) -> Reflector | BankFree:
        from stair.method import load_controller, random_reflector

        architecture, settings = self.backbone.architecture, self.settings
        if settings.randomised != "reflector":
            return load_controller(path, architecture)
        assert settings.seed is not None
        return random_reflector(layers, architecture.query_heads, architecture.head_dim, settings.seed)

    def _generation(self, load: bool) -> Generation:
        """The common settings of all trajectories; `load`: with the controller's weights."""
        sampling = self.backbone.settings.sampling_for(self.benchmark)
        return Generation(
            model_revision=self.backbone.revision,
            engine=self.backbone.engine,
            renderer=self.backbone.renderer,
            sampling=self.backbone.sampling(sampling),
            max_new_tokens=sampling.max_new_tokens,
            columns=tuple(RESPONSES.names),
            control=self._control(load),
            adapter=self.adapter[1] if self.adapter else None,
            banks=BankStore(self.work / "banks"),
            layout=self.settings.layout,
        )

    def trajectories(self, sessions: Iterable[str], *, load: bool) -> Iterator[Trajectory]:
        """The trajectories of sessions, made as they are drawn; `load`: with the controller's weights.

        Raises:
            ValueError: the saved T1 rows lack a response that their manifest does not name as missing.
        """
        settings, seed = self._generation(load), self.config.section_of(self.condition).seed
        read = self.config.read_specification(self.condition) if self.config.reads_bank(self.condition) else None
        place = self.place._replace(condition=self.name)
        for session in sessions:
            problems = [self.problems[problem] for problem in self.sessions[session][: self.settings.turns]]
            for sample in range(self.config.evaluation.samples):
                first, missing = self._saved_first(problems[0].problem_id, sample)
                asked = questions(place, session, sample, problems, seed, read)
                yield Trajectory(settings, asked, first, missing)

    def _saved_first(self, problem: str, sample: int) -> tuple[Mapping[str, Any] | None, str | None]:
        """The saved T1 row that a trajectory reuses, or why it is missing."""
        if self.first_rows is None:
            return None, None
        first = self.first_rows.get((problem, sample))
        missing = None if first is not None else self._missing_first.get((problem, sample))
        if first is None and missing is None:
            raise ValueError(
                f"{self.first_rows.path} has no response to {problem}, sample {sample}; run its condition again"
            )
        return first, missing

    @cached_property
    def _missing_first(self) -> dict[tuple[str, int], str]:
        """Why T1 rows that the condition reuses are missing, by problem and sample."""
        assert self.first_rows is not None
        return {(gap["problem_id"], gap["sample"]): gap["reason"] for gap in missing_responses(self.first_rows.path)}

    def load_engine(self, shard: str, ended: ExitStack) -> Engine:
        """The engine of a shard, closed with `ended`.

        Raises:
            ValueError: another engine generated the first turns, and the configuration does not allow it.
        """
        running = self.backbone.running(
            self.paths.log("evaluation", self.model, self.benchmark, f"{self.condition}-server-{shard}"),
            layers=self.layers,
            batch_width=self.settings.batch_width,
            adapter=self.adapter,
        )
        engine = ended.enter_context(running)
        if self.first_rows is None or self.config.evaluation.allow_mixed_engines:
            return engine
        rows = read_table(self.first_rows.path, RESPONSES, EngineIdentity.COLUMNS)
        if others := {EngineIdentity.of_row(row) for row in rows} - {engine.identity}:
            raise ValueError(
                f"{self.first_rows.path} was made by {min(map(str, others))}, and {self.condition} would be by "
                f"{engine.identity}: conditions of one comparison come from one engine; make the first turns again, or set "
                "evaluation.allow_mixed_engines"
            )
        return engine

    def check_lengths(self) -> None:
        """Raises ValueError if a problem does not fit into the context with its response, or contains a turn marker."""
        context, limit = (
            self.backbone.architecture.context,
            self.backbone.settings.sampling_for(self.benchmark).max_new_tokens,
        )
        check_lengths(
            self.backbone.renderer, context, self.problems.values(), limit, self.paths.benchmark(self.benchmark)
        )

    @property
    def place(self) -> Place:
        return Place(self.model, self.benchmark, self.condition)

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose states are captured or controlled."""
        return self.controller.controlled_layers if self.controller else ()

    @property
    def controller(self) -> ControllerSettings | None:
        key = self.settings.controller
        return None if key is None else self.config.controllers[key]

    @cached_property
    def adapter(self) -> tuple[Path, str] | None:
        """The folder and the digest of the condition's adapter."""
        if self.controller is None or not self.controller.adapts:
            return None
        assert self.settings.controller is not None
        folder = self.paths.controller(self.model, self.settings.controller)
        return folder, adapter_digest(folder)
