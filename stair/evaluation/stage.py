"""The evaluation stage: shards that generate a condition's responses, and the seal."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.training import Controller
from stair.core import user_message
from stair.engines.base import Engine, Variant
from stair.engines.choice import Needs
from stair.jobs.shards import Shard
from stair.protocol.backbone import Backbone
from stair.protocol.banks import BankStore
from stair.protocol.chain import Missing
from stair.protocol.failures import report_entries
from stair.protocol.invariants import (
    ENGINE_COLUMNS,
    CheckedTurn,
    capture_check,
    condition_checks,
    engine_of,
    wrongly_captured,
)
from stair.protocol.positions import KEY as POSITIONS
from stair.protocol.positions import AuxiliaryPositions
from stair.protocol.session import ControllerUse, Problem, Protocol, SessionChain
from stair.protocol.shards import run_shard, sealed_rows, tidy
from stair.records.files import read_mapping, write_json
from stair.records.keys import adapter_digest, file_digest
from stair.records.manifest import write_manifest
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES
from stair.records.tables import SavedRows, read_table, write_table


class _Study:
    """Everything that the chains of one (model, benchmark, condition) are made from."""

    def __init__(
        self, config: Config, paths: RunPaths, model: str, benchmark: str, condition: str, *, generating: bool = False
    ) -> None:
        self.config, self.paths, self.model, self.benchmark, self.condition = config, paths, model, benchmark, condition
        self.settings = config.conditions[condition]
        engine = config.engine_for(model, benchmark)
        self.backbone = Backbone.open(config, paths, model, engine, generating=benchmark if generating else None)
        self.work = paths.work("evaluation", model, benchmark, condition)
        prompt = config.prompts[config.benchmarks[benchmark].prompt]
        self.problems = {
            row["problem_id"]: Problem(row["problem_id"], user_message(prompt, row["problem"]))
            for row in read_table(paths.benchmark(benchmark), BENCHMARK)
        }
        self.sessions: dict[str, list[str]] = defaultdict(list)
        for row in read_table(paths.evaluation_sessions(benchmark), EVALUATION_SESSIONS):
            self.sessions[row["session_id"]].append(row["problem_id"])
        self.first_rows = self._first_rows()
        self.missing = config.missing_from(model, benchmark, condition)
        source = self.settings.first_turn
        self.missing_first = config.missing_from(model, benchmark, source) if source is not None else {}
        if strange := sorted({session for session, _ in self.missing} - self.sessions.keys()):
            raise ValueError(
                f"evaluation.missing: {condition} of {model} on {benchmark} has no session '{strange[0]}'; the sessions are in "
                f"{paths.evaluation_sessions(benchmark)}"
            )

    def _first_rows(self) -> SavedRows | None:
        """The saved T1 rows that are reused, by problem and sample."""
        if self.settings.first_turn is None:
            return None
        path = self.paths.responses(self.model, self.benchmark, self.settings.first_turn)
        return SavedRows(path, RESPONSES, ("problem_id", "sample"))

    def _control(self, load: bool) -> ControllerUse | None:
        trained = self.controller
        if trained is None or not trained.controls:
            return None
        assert self.settings.controller is not None
        path = self.paths.weights(self.model, self.settings.controller)
        weights = None
        if load:
            from stair.method import load_controller

            weights = load_controller(path, self.backbone.architecture)
        return ControllerUse(file_digest(path), trained.controlled_layers, self.variant, trained.smoothing, weights)

    def chains(self, sessions: Iterable[str], *, load: bool) -> Iterator[SessionChain]:
        """The chains of sessions, trajectory by trajectory, made as they are drawn; `load` reads the controller's weights too."""
        sampling = self.backbone.settings.sampling_for(self.benchmark)
        protocol = Protocol(
            model=self.model,
            benchmark=self.benchmark,
            condition=self.condition,
            model_revision=self.backbone.revision,
            engine=self.backbone.engine,
            renderer=self.backbone.renderer,
            sampling=self.backbone.sampling(sampling),
            max_new_tokens=sampling.max_new_tokens,
            study=self.config.evaluation.seed,
            turns=self.settings.turns,
            control=self._control(load),
            banks=BankStore(self.work / "banks"),
            adapter=self.adapter[1] if self.adapter else None,
            layout=self.settings.layout,
        )
        for session in sessions:
            problems = self.sessions[session]
            for sample in range(self.config.evaluation.samples):
                first, missing = None, self._missing(session, sample)
                if self.first_rows is not None:
                    first = self.first_rows.get((problems[0], sample))
                    if first is None and (told := self.missing_first.get((session, sample))) is not None:
                        missing = Missing(1, told[1], reused=True)
                    elif first is None:
                        raise ValueError(
                            f"{self.first_rows.path} has no response to {problems[0]}, sample {sample}; "
                            "run its condition again"
                        )
                turns = [self.problems[problem] for problem in problems[: self.settings.turns]]
                yield SessionChain(protocol, session, sample, turns, first, missing)

    def _missing(self, session: str, sample: int) -> Missing | None:
        """The response of a trajectory that the configuration names as missing."""
        told = self.missing.get((session, sample))
        return None if told is None else Missing(*told)

    def load_engine(self, shard: str, ended: ExitStack) -> Engine:
        """The engine of a shard, closed with `ended`; it must be the one that gave the first turns.

        Raises:
            ValueError: the first turns came from another engine, and the configuration does not allow it.
        """
        needs = Needs(
            log=self.paths.log("evaluation", self.model, self.benchmark, f"{self.condition}-server-{shard}"),
            started=lambda facts: write_json(self.work / "servers" / f"shard-{shard}.json", facts),
            longest=self._longest,
            layers=self.layers,
            batch_width=self.settings.batch_width,
            adapter=self.adapter,
        )
        engine = ended.enter_context(self.backbone.running(needs))
        if self.first_rows is None or self.config.evaluation.allow_mixed_engines:
            return engine
        ours = (engine.name, engine.version, engine.attention, engine.dtype, engine.device)
        theirs = {engine_of(row) for row in read_table(self.first_rows.path, RESPONSES, ENGINE_COLUMNS)} - {ours}
        if theirs:
            raise ValueError(
                f"{self.first_rows.path} was made by {' '.join(min(theirs))}, and {self.condition} would be by "
                f"{' '.join(ours)}: conditions of one comparison come from one engine; make the first turns again, or set "
                "evaluation.allow_mixed_engines"
            )
        return engine

    def _longest(self) -> int:
        """Tokens of the longest conversation, as preflight has counted them: a prompt, or four turns at their limits."""
        limit = read_mapping(self.paths.preflight_limits(self.model, self.benchmark))
        whole = limit["longest_prompt"] + limit["max_new_tokens"] if self.settings.turns == 1 else limit["four_turns"]
        return min(self.backbone.architecture.context, int(whole))

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose states are captured or controlled."""
        return self.controller.controlled_layers if self.controller else ()

    @property
    def variant(self) -> Variant:
        """How the bank is read, as engines call it."""
        return "null" if self.settings.variant == "zero" else self.settings.variant

    @property
    def controller(self) -> Controller | None:
        """The settings of the condition's controller."""
        key = self.settings.controller
        return None if key is None else self.config.controllers[key]

    @cached_property
    def adapter(self) -> tuple[Path, str] | None:
        """The folder and the digest of the adapter that the condition answers with."""
        if self.controller is None or not self.controller.adapts:
            return None
        assert self.settings.controller is not None
        folder = self.paths.controller(self.model, self.settings.controller)
        return folder, adapter_digest(folder)


def generate(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str, shard: int, of: int) -> None:
    """Generates one shard of a condition. Sessions are the unit that is shared out."""
    study = _Study(config, paths, model, benchmark, condition, generating=True)
    sessions = Shard(shard, of).share(list(study.sessions))
    # What is asked again has to be generated again.
    place = ("evaluation", model, benchmark, condition) if study.settings.repeats else ("evaluation",)
    with ExitStack() as ended:
        run_shard(
            lambda load: study.chains(sessions, load=load),
            study.work,
            Shard(shard, of),
            lambda: study.load_engine(f"{shard}-of-{of}", ended),
            (paths.progress, f"evaluation/{model}/{benchmark}/{condition}/{shard}"),
            paths.shard(str(shard), str(of), "evaluation", model, benchmark, condition),
            {run: other.work(*place) for run, other in paths.reused(config).items()},
        )


def seal(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
    """Writes a condition's responses from the logs, without a model."""
    study = _Study(config, paths, model, benchmark, condition)
    output = paths.responses(model, benchmark, condition)
    positions = AuxiliaryPositions(study.backbone.architecture.context)
    gaps: list[dict[str, Any]] = []
    count = write_table(output, RESPONSES, _checked(study, output, positions, gaps))
    settings = {
        "sampling": study.backbone.settings.sampling_for(benchmark).model_dump(),
        "condition": study.settings.model_dump(mode="json"),
        "model_revision": study.backbone.revision,
    }
    counted = {POSITIONS: positions.as_dict() if config.reads_bank(condition) else None}
    write_manifest(output, stage="evaluation", settings=settings, responses=count, missing=gaps, **counted)
    lacking = {(gap["session_id"], gap["sample"], gap["turn"]) for gap in gaps}
    existing = [
        f"session {session}, sample {sample}, turn {turn}"
        for (session, sample), (turn, _) in study.missing.items()
        if (session, sample, turn) not in lacking
    ]
    report_entries(output, "evaluation.missing", len(gaps), existing)
    tidy(study.work)


def _checked(
    study: _Study, output: Path, positions: AuxiliaryPositions, gaps: list[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield the condition's rows in the order of the table and add them to `positions`; then run its checks.

    `gaps` receives the missing responses.

    Raises:
        ValueError: after the last row, when a check fails.
    """
    turns: list[CheckedTurn] = []
    wrong: list[str] = []
    reads = study.config.reads_bank(study.condition)
    cut = study.config.cut_trajectories(study.model, study.benchmark, study.condition)
    for row in sealed_rows(study.chains(sorted(study.sessions), load=False), study.work, gaps):
        turns.append(CheckedTurn.of(row))
        wrong += wrongly_captured(row, study.backbone.renderer, study.settings.turns, reads=reads, cut=cut)
        positions.add(row)
        yield row
    scope = f"{study.model}/{study.benchmark}/{study.condition}"
    samples = study.config.evaluation.samples
    checks = condition_checks(turns, study.settings, study.sessions, samples, scope, reads=reads, cut=cut)
    for check in [*checks, capture_check(wrong, len(turns), scope)]:
        if not check.passed:
            raise ValueError(f"{output} is not written: {check.name}: {check.detail}")
