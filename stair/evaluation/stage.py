"""The evaluation stage: shards that generate a condition's responses, and the seal."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from stair.checks.responses import condition_checks
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.protocol.backbone import Backbone, sampling_settings
from stair.protocol.banks import BankStore
from stair.protocol.chain import Chain
from stair.protocol.session import ControllerUse, Problem, Protocol, SessionChain
from stair.protocol.shards import run_shard, sealed_chains, share
from stair.records.keys import file_digest
from stair.records.manifest import write_manifest
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES
from stair.records.tables import read_table, write_table


class _Study:
    """Everything that the chains of one (model, benchmark, condition) are made from."""

    def __init__(self, config: Config, paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
        self.config, self.paths, self.model, self.benchmark, self.condition = config, paths, model, benchmark, condition
        self.settings = config.conditions[condition]
        self.backbone = Backbone.open(config, paths, model)
        self.work = paths.work("evaluation", model, benchmark, condition)
        prompt = config.prompts[config.benchmarks[benchmark].prompt]
        self.problems = {
            row["problem_id"]: Problem(row["problem_id"], prompt.replace("{problem}", row["problem"]))
            for row in read_table(paths.benchmark(benchmark), BENCHMARK)
        }
        self.sessions: dict[str, list[str]] = defaultdict(list)
        for row in read_table(paths.evaluation_sessions(benchmark), EVALUATION_SESSIONS):
            self.sessions[row["session_id"]].append(row["problem_id"])
        self.first_rows = self._first_rows()

    def _first_rows(self) -> dict[tuple[str, int], dict[str, Any]]:
        """The saved T1 rows that are reused, by problem and sample."""
        if self.settings.first_turn is None:
            return {}
        rows = read_table(self.paths.responses(self.model, self.benchmark, self.settings.first_turn), RESPONSES)
        return {(row["problem_id"], row["sample"]): row for row in rows}

    def _control(self, load: bool) -> ControllerUse | None:
        if self.settings.controller is None:
            return None
        trained = self.config.controllers[self.settings.controller]
        path = self.paths.weights(self.model, self.settings.controller)
        weights = None
        if load:
            from stair.method import load_controller

            weights = load_controller(path, self.backbone.architecture)
        return ControllerUse(
            file_digest(path), trained.controlled_layers, self.settings.variant, trained.smoothing, weights
        )

    def chains(self, *, load: bool) -> list[SessionChain]:
        """All chains, by session and trajectory; `load` reads the controller's weights too."""
        sampling = self.backbone.settings.sampling_for(self.benchmark)
        protocol = Protocol(
            model=self.model,
            benchmark=self.benchmark,
            condition=self.condition,
            model_revision=self.backbone.revision,
            engine=self.backbone.engine,
            renderer=self.backbone.renderer,
            sampling=sampling_settings(sampling),
            max_new_tokens=sampling.max_new_tokens,
            study=self.config.evaluation.seed,
            turns=self.settings.turns,
            control=self._control(load),
            banks=BankStore(self.work / "banks"),
        )
        chains = []
        for session, problems in self.sessions.items():
            for sample in range(self.config.evaluation.samples):
                first = None
                if self.settings.first_turn is not None:
                    first = self.first_rows.get((problems[0], sample))
                    if first is None:
                        raise ValueError(
                            f"{self.paths.responses(self.model, self.benchmark, self.settings.first_turn)} has no response to "
                            f"{problems[0]}, sample {sample}; run its condition again"
                        )
                turns = [self.problems[problem] for problem in problems[: self.settings.turns]]
                chains.append(SessionChain(protocol, session, sample, turns, first))
        return chains

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers whose states are captured or controlled."""
        controller = self.settings.controller
        return self.config.controllers[controller].controlled_layers if controller else ()


def generate(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str, shard: int, of: int) -> None:
    """Generates one shard of a condition. Sessions are the unit that is shared out."""
    study = _Study(config, paths, model, benchmark, condition)
    samples, turns = config.evaluation.samples, study.settings.turns - (study.settings.first_turn is not None)

    def chains(load: bool) -> list[Chain]:
        everything = study.chains(load=load)
        sessions = [everything[i : i + samples] for i in range(0, len(everything), samples)]
        return [chain for group in share(sessions, shard, of) for chain in group]

    # What is asked again has to be generated again.
    place = ("evaluation", model, benchmark, condition) if study.settings.repeats else ("evaluation",)
    run_shard(
        chains,
        len(chains(False)) * turns,
        study.work,
        (shard, of),
        lambda: study.backbone.load_engine(config, study.layers, study.settings.batch_width),
        (paths.progress, f"evaluation/{model}/{benchmark}/{condition}/{shard}"),
        paths.shard(str(shard), str(of), "evaluation", model, benchmark, condition),
        {run: other.work(*place) for run, other in paths.reused(config).items()},
    )


def seal(config: Config, paths: RunPaths, model: str, benchmark: str, condition: str) -> None:
    """Writes a condition's responses from the logs, without a model."""
    study = _Study(config, paths, model, benchmark, condition)
    chains = study.chains(load=False)
    sealed_chains(list(chains), study.work)
    rows = [row for chain in chains for row in chain.rows]
    rows.sort(key=lambda row: (row["session_id"], row["sample"], row["turn"]))
    output = paths.responses(model, benchmark, condition)
    scope = f"{model}/{benchmark}/{condition}"
    checks = condition_checks(rows, study.settings, study.sessions, config.evaluation.samples, scope)
    for check in checks:
        if not check.passed:
            raise ValueError(f"{output} is not written: {check.name}: {check.detail}")
    count = write_table(output, RESPONSES, rows)
    settings = {
        "sampling": study.backbone.settings.sampling_for(benchmark).model_dump(),
        "condition": study.settings.model_dump(mode="json"),
        "model_revision": study.backbone.revision,
    }
    write_manifest(output, stage="evaluation", settings=settings, responses=count)
