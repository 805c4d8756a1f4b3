"""The typed configuration. Every key has a description in its part and a sentence in `config.yaml`; unknown keys are refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from stair.config.backbones import Model
from stair.config.claim_bounds import ClaimBounds
from stair.config.controls import Controls
from stair.config.datasets import Benchmark, Hub, TrainingPool
from stair.config.engines import EngineName, SGLangEngine, TransformersEngine
from stair.config.evaluation import Condition, Evaluation, MissingResponse, Overview, Transitions, expanded
from stair.config.field_types import Key, Strict, Text, Texts
from stair.config.replay import Replay
from stair.config.runtime import Runtime
from stair.config.sessions import Rollouts, Sessions
from stair.config.training import Controller, Training
from stair.core import PLACEHOLDER, TURNS, ReadSpecification


class Config(Strict):
    """A run: the paper's settings, changed by an overlay and by the command line."""

    run: Key = Field(description="The run's name; its files lie in <results>/<run>.")
    results: Text = Field("results", description="The folder that holds all runs.")
    hub: Hub = Field(default_factory=Hub, description="Models and data sets from the hub.")
    reuse: Texts = Field(
        (), description="Runs, by name or folder, whose finished work is taken where it is the same as this run's."
    )
    expensive: bool = Field(True, description="Whether `make reproduce` asks for GO=1 before it starts this run.")
    note: str | None = Field(None, description="A sentence that stands under every table of this run.")
    models: dict[Key, Model] = Field(min_length=1, description="The backbones.")
    prompts: dict[Key, str] = Field(description="User messages; {problem} is replaced by the problem's text.")
    training_pool: TrainingPool = Field(description="The training problems.")
    benchmarks: dict[Key, Benchmark] = Field(min_length=1, description="The evaluation sets.")
    rollouts: Rollouts = Field(description="Training responses.")
    sessions: Sessions = Field(default_factory=Sessions, description="Orders of sessions.")
    controllers: dict[Key, Controller] = Field(description="What is trained.")
    training: Training = Field(description="Settings that all controllers share.")
    conditions: dict[Key, Condition] = Field(description="What is evaluated; none in a run that only measures.")
    evaluation: Evaluation = Field(description="Continuous evaluation.")
    # Optional, so that runs that were resolved before it existed are still read.
    replay: Replay | None = Field(None, description="The crossed replay; null is none.")
    runtime: Runtime | None = Field(None, description="The runtime study; null is none.")
    controls: Controls | None = Field(None, description="The study with a shared T1 history; null is none.")
    transitions: Transitions = Field(description="Where answer transitions are counted.")
    overview: Overview = Field(description="Figure overview.")
    claims: ClaimBounds = Field(
        default_factory=ClaimBounds, description="Bounds of the paper's claims that the paper states without a number."
    )
    transformers: TransformersEngine = Field(description="The Transformers engine.")
    sglang: SGLangEngine = Field(default_factory=SGLangEngine, description="The SGLang engine.")
    expected_seconds: dict[str, float] = Field(
        default_factory=dict, description="About how long a job of each rule takes, for the ETA only."
    )

    @field_validator("conditions", mode="before")
    @classmethod
    def _families(cls, conditions: Any) -> Any:
        return expanded(conditions) if isinstance(conditions, Mapping) else conditions

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        def known(where: str, name: str | None, among: dict, what: str) -> None:
            if name is not None and name not in among:
                raise ValueError(
                    f"{where} names the {what} '{name}', which is not configured (there are: {', '.join(among)})"
                )

        for kind in ("models", "benchmarks", "conditions"):
            labels: dict[str, str] = {}
            for key, item in getattr(self, kind).items():
                if (first := labels.setdefault(item.label, key)) != key:
                    raise ValueError(
                        f"{kind}.{key}.label is that of {kind}.{first} too ('{item.label}'); tables need labels that differ"
                    )
        for key, model in self.models.items():
            for benchmark in model.evaluation_changes:
                known(f"models.{key}.evaluation_changes", benchmark, self.benchmarks, "benchmark")
        for key, item in self.benchmarks.items():
            known(f"benchmarks.{key}.prompt", item.prompt, self.prompts, "prompt")
        for key, prompt in self.prompts.items():
            if prompt.count(PLACEHOLDER) != 1:
                raise ValueError(f"prompts.{key} must hold {PLACEHOLDER} exactly once")
        pool = self.training_pool
        known("training_pool.prompt", pool.prompt, self.prompts, "prompt")
        for name in pool.exclude_benchmarks:
            known("training_pool.exclude_benchmarks", name, self.benchmarks, "benchmark")
        for model_key, names in pool.exclude_more.items():
            known("training_pool.exclude_more", model_key, self.models, "model")
            for name in names:
                known(f"training_pool.exclude_more.{model_key}", name, self.benchmarks, "benchmark")
        for name in self.overview.models:
            known("overview.models", name, self.models, "model")
        known("transitions.model", self.transitions.model, self.models, "model")
        known("transitions.benchmark", self.transitions.benchmark, self.benchmarks, "benchmark")
        for model_key, engines in self.evaluation.engine_changes.items():
            known("evaluation.engine_changes", model_key, self.models, "model")
            for name in engines:
                known(f"evaluation.engine_changes.{model_key}", name, self.benchmarks, "benchmark")
        named = set()
        for number, lost in enumerate(self.rollouts.missing):
            where = f"rollouts.missing.{number}"
            known(f"{where}.model", lost.model, self.models, "model")
            if (response := (lost.model, lost.record, lost.sample)) in named:
                raise ValueError(
                    f"{where}: {lost.record}, sample {lost.sample} of {lost.model} is named twice; keep one entry"
                )
            named.add(response)
        for number, gap in enumerate(self.evaluation.missing):
            where = f"evaluation.missing.{number}"
            known(f"{where}.model", gap.model, self.models, "model")
            known(f"{where}.benchmark", gap.benchmark, self.benchmarks, "benchmark")
            known(f"{where}.condition", gap.condition, self.conditions, "condition")
            self._check_missing(where, gap)
        for key, controller in self.controllers.items():
            for name in controller.models or ():
                known(f"controllers.{key}.models", name, self.models, "model")
            layers = controller.controlled_layers
            if len(set(layers)) != len(layers):
                raise ValueError(f"controllers.{key}.layers lists a layer twice: {list(layers)}")
        for key, condition in self.conditions.items():
            where = f"conditions.{key}"
            known(f"{where}.controller", condition.controller, self.controllers, "controller")
            known(f"{where}.first_turn", condition.first_turn, self.conditions, "condition")
            known(f"{where}.repeats", condition.repeats, self.conditions, "condition")
            for name in condition.models or ():
                known(f"{where}.models", name, self.models, "model")
            for name in condition.benchmarks or ():
                known(f"{where}.benchmarks", name, self.benchmarks, "benchmark")
            if condition.turns == 2:
                raise ValueError(f"{where}.turns is 1 or 4 here; conditions of two turns belong to controls.conditions")
            self._check_condition(key, condition)
        if (controls := self.controls) is not None:
            for name in controls.models:
                known("controls.models", name, self.models, "model")
            known("controls.benchmark", controls.benchmark, self.benchmarks, "benchmark")
            self._check_controls(controls, known)
        if (replay := self.replay) is not None:
            for name in replay.models:
                known("replay.models", name, self.models, "model")
            known("replay.benchmark", replay.benchmark, self.benchmarks, "benchmark")
            known("replay.condition", replay.condition, self.conditions, "condition")
            self._check_replay(replay)
        if (runtime := self.runtime) is not None:
            for name in runtime.models:
                known("runtime.models", name, self.models, "model")
            if runtime.synthetic is None:
                known("runtime.benchmark", runtime.benchmark, self.benchmarks, "benchmark")
                known("runtime.condition", runtime.condition, self.conditions, "condition")
                known("runtime.controller", runtime.controller, self.controllers, "controller")
                self._check_runtime(runtime)
        if not self.conditions and not self.only_measures:
            raise ValueError(
                "conditions is empty; name one, or remove all controllers and the section controls too and set "
                "runtime.synthetic, which needs none of them"
            )
        return self

    def _check_controls(self, controls: Controls, known: Callable[[str, str | None, dict, str], None]) -> None:
        study = self.shared_t1()
        if controls.seed == self.evaluation.seed:
            raise ValueError(
                f"controls.seed is '{controls.seed}', as evaluation.seed; the study generates a T1 of its own, so name it "
                "otherwise"
            )
        for key, condition in controls.conditions.items():
            where = f"controls.conditions.{key}"
            known(f"{where}.controller", condition.controller, self.controllers, "controller")
            known(f"{where}.repeats", condition.repeats, controls.conditions, "condition")
            for name in condition.models or ():
                known(f"{where}.models", name, self.models, "model")
            for name in condition.benchmarks or ():
                known(f"{where}.benchmarks", name, self.benchmarks, "benchmark")
            for name, answered in (("models", controls.models), ("benchmarks", (controls.benchmark,))):
                own = getattr(condition, name)
                if own is not None and not set(own) & set(answered):
                    raise ValueError(
                        f"{where}.{name} is {list(own)}, and the study has {list(answered)}, so the condition would run "
                        "nowhere; remove the key, or set the condition to null"
                    )
            try:
                study._check_condition(key, study.conditions[key])
            except ValueError as error:
                raise ValueError(f"controls.{error}") from None
        for number, gap in enumerate(controls.missing):
            where = f"controls.missing.{number}"
            known(f"{where}.condition", gap.condition, controls.conditions, "condition")
            study._check_missing(where, gap)

    def shared_t1(self) -> Config:
        """The run as the study with a shared T1 history sees it; without `controls`, a run without conditions.

        `conditions`, and the evaluation's `seed`, `shards` and `missing`, are the study's. Everything that works on the
        conditions of a configuration works on the study's.
        """
        controls = self.controls
        if controls is None:
            return self.model_copy(update={"conditions": {}})
        conditions = {
            key: item.model_copy(
                update={
                    "models": tuple(name for name in controls.models if item.models is None or name in item.models),
                    "benchmarks": tuple(
                        name for name in (controls.benchmark,) if item.benchmarks is None or name in item.benchmarks
                    ),
                }
            )
            for key, item in controls.conditions.items()
        }
        own = {"seed": controls.seed, "shards": controls.shards, "missing": controls.missing}
        return self.model_copy(update={"conditions": conditions, "evaluation": self.evaluation.model_copy(update=own)})

    @property
    def only_measures(self) -> bool:
        """Whether the run has no stage but the runtime study of random weights: no data, training or responses."""
        synthetic = self.runtime is not None and self.runtime.synthetic is not None
        return synthetic and not self.conditions and not self.controllers and self.controls is None

    def _check_missing(self, where: str, gap: MissingResponse) -> None:
        condition = self.conditions[gap.condition]
        named = [(g.model, g.benchmark, g.condition, g.session, g.sample) for g in self.evaluation.missing]
        if named.count((gap.model, gap.benchmark, gap.condition, gap.session, gap.sample)) > 1:
            raise ValueError(
                f"{where}: {gap.session}, sample {gap.sample} of '{gap.condition}' is named twice; keep one turn"
            )
        if (gap.model, gap.benchmark) not in self.evaluated(gap.condition):
            raise ValueError(f"{where}: '{gap.condition}' is not run for {gap.model} on {gap.benchmark}")
        if gap.sample >= self.evaluation.samples or gap.turn > condition.turns:
            raise ValueError(
                f"{where}: '{gap.condition}' has the samples 0 to {self.evaluation.samples - 1} and {condition.turns} turns, "
                f"not sample {gap.sample}, turn {gap.turn}"
            )
        if gap.turn == 1 and condition.first_turn is not None:
            raise ValueError(
                f"{where}: '{gap.condition}' reuses the first turns of '{condition.first_turn}'; name the response there"
            )

    def _check_replay(self, replay: Replay) -> None:
        if self.conditions[replay.condition].turns <= replay.depth:
            raise ValueError(
                f"replay.condition: '{replay.condition}' has one turn, and histories of depth {replay.depth} need more"
            )
        for model in replay.models:
            if (model, replay.benchmark) not in self.evaluated(replay.condition):
                raise ValueError(
                    f"replay.models: '{replay.condition}' is not run for {model} on {replay.benchmark}, so there are no "
                    "histories; name other models there, or set replay to null"
                )

    def _check_runtime(self, runtime: Runtime) -> None:
        if self.conditions[runtime.condition].turns == 1:
            raise ValueError(f"runtime.condition: '{runtime.condition}' has one turn, and a T2 prompt needs two")
        controller = self.controllers[runtime.controller]
        if controller.kind != "stair":
            raise ValueError(
                f"runtime.controller: '{runtime.controller}' is of kind '{controller.kind}'; expected a controller of "
                "kind 'stair'"
            )
        for model in runtime.models:
            if (model, runtime.benchmark) not in self.evaluated(runtime.condition):
                raise ValueError(
                    f"runtime.models: '{runtime.condition}' is not run for {model} on {runtime.benchmark}, so there are no "
                    "histories; name another model, or set runtime to null"
                )
            if model not in self.trained(runtime.controller):
                raise ValueError(
                    f"runtime.models: the controller '{runtime.controller}' is not trained for {model}; name another "
                    "model, or train it"
                )

    def _check_condition(self, key: str, condition: Condition) -> None:
        if condition.repeats is not None:
            self._check_repetition(key, condition, condition.repeats)
        if condition.turns == 1 and (condition.controller or condition.first_turn):
            raise ValueError(f"conditions.{key} has one turn, so it can have no controller and reuse no first turn")
        if condition.first_turn:
            source = self.conditions[condition.first_turn]
            if source.turns != 1:
                raise ValueError(
                    f"conditions.{key}.first_turn must name a condition of one turn, not '{condition.first_turn}'"
                )
            for model, benchmark in self.evaluated(key):
                if (model, benchmark) not in self.evaluated(condition.first_turn):
                    raise ValueError(
                        f"conditions.{key} reuses the first turns of '{condition.first_turn}', which is not run for "
                        f"{model} on {benchmark}"
                    )
        if (
            condition.turns == TURNS
            and condition.controller
            and self.controllers[condition.controller].kind == "bank_free"
        ):
            raise ValueError(
                f"conditions.{key} names the controller '{condition.controller}' of kind 'bank_free', which the study with a "
                "shared T1 history evaluates"
            )
        if condition.controller and condition.first_turn and self.controllers[condition.controller].adapts:
            raise ValueError(
                f"conditions.{key} cannot reuse the first turns of '{condition.first_turn}': the adapter of "
                f"'{condition.controller}' acts at T1 too"
            )
        changed = [*condition.intervention, *(["variant"] if condition.variant != "differential" else [])]
        if changed and not self.reads_bank(key):
            raise ValueError(
                f"conditions.{key} sets {', '.join(changed)} and reads no bank; name a controller that reads"
            )
        if self.reads_bank(key):
            try:
                self.read_specification(key)
            except ValueError as error:
                raise ValueError(f"conditions.{key}: {error}") from None
        for model, benchmark in self.evaluated(key) if condition.controller else ():
            if not self.engine_section(self.engine_for(model, benchmark)).reads:
                raise ValueError(
                    f"conditions.{key} needs the Transformers engine, and evaluation gives {model} on {benchmark} to "
                    f"'{self.engine_for(model, benchmark)}': a whole comparison runs on one engine"
                )
        if condition.controller:
            trained = self.controllers[condition.controller].models
            for model, _ in self.evaluated(key):
                if trained is not None and model not in trained:
                    raise ValueError(
                        f"conditions.{key} needs the controller '{condition.controller}' of {model}, which is not trained"
                    )

    def _check_repetition(self, key: str, condition: Condition, repeated: str) -> None:
        original = self.conditions[repeated]
        if (condition.turns, condition.first_turn) != (original.turns, original.first_turn) or repeated == key:
            raise ValueError(f"conditions.{key} must have the turns and first_turn of '{repeated}', which it repeats")
        if condition.controller != original.controller and condition.variant != "zero":
            raise ValueError(
                f"conditions.{key} repeats '{repeated}' with another controller; only the variant zero changes nothing"
            )
        for place in self.evaluated(key):
            if place not in self.evaluated(repeated):
                raise ValueError(
                    f"conditions.{key} repeats '{repeated}', which is not run for {place[0]} on {place[1]}"
                )

    def missing_from(self, model: str, benchmark: str, condition: str) -> dict[tuple[str, int], tuple[int, str]]:
        """The entries of `evaluation.missing` for one condition: (turn, reason) by (session, sample)."""
        return {
            (gap.session, gap.sample): (gap.turn, gap.reason)
            for gap in self.evaluation.missing
            if (gap.model, gap.benchmark, gap.condition) == (model, benchmark, condition)
        }

    def cut_trajectories(self, model: str, benchmark: str, condition: str) -> dict[tuple[str, int], int]:
        """The first turn that may be missing in a condition, by (session, sample).

        A missing T1 that the condition reuses takes all turns.
        """
        source = self.conditions[condition].first_turn
        own = {place: turn for place, (turn, _) in self.missing_from(model, benchmark, condition).items()}
        reused = dict.fromkeys(self.missing_from(model, benchmark, source), 1) if source is not None else {}
        return own | reused

    def engine_for(self, model: str, benchmark: str) -> EngineName:
        """The engine of all conditions of a model on a benchmark."""
        return self.evaluation.engine_changes.get(model, {}).get(benchmark, self.evaluation.engine)

    def reads_bank(self, condition: str) -> bool:
        """Whether a condition's controller reads a bank."""
        controller = self.conditions[condition].controller
        return controller is not None and self.controllers[controller].reads

    def acts(self, condition: str) -> bool:
        """Whether a condition's controller acts during prefill: it reads a bank, or scales the attention output."""
        controller = self.conditions[condition].controller
        return controller is not None and self.controllers[controller].controls

    def read_specification(self, condition: str) -> ReadSpecification:
        """How a condition reads its bank.

        Raises:
            ValueError: its controller's smoothing is out of range.
        """
        settings = self.conditions[condition]
        assert settings.controller is not None
        return ReadSpecification(
            settings.variant,
            limit=settings.prefix,
            permutation_seed=settings.seed if settings.randomised == "values" else None,
            smoothing=self.controllers[settings.controller].smoothing,
        )

    def shards_of(self, condition: str) -> int:
        """How many jobs share a condition."""
        return self.conditions[condition].shards or self.evaluation.shards

    def evaluated(self, condition: str) -> list[tuple[str, str]]:
        """The (model, benchmark) pairs that a condition is run for."""
        settings = self.conditions[condition]
        return [
            (model, benchmark)
            for model in self.models
            for benchmark in self.benchmarks
            if (settings.models is None or model in settings.models)
            and (settings.benchmarks is None or benchmark in settings.benchmarks)
        ]

    def benchmarks_of(self, model: str) -> list[str]:
        """The benchmarks that a model answers."""
        evaluated_pairs = {pair for condition in self.conditions for pair in self.evaluated(condition)}
        return [benchmark for benchmark in self.benchmarks if (model, benchmark) in evaluated_pairs]

    def engine_section(self, engine: EngineName) -> TransformersEngine | SGLangEngine:
        """The settings of an engine."""
        sections: dict[EngineName, TransformersEngine | SGLangEngine] = {
            "transformers": self.transformers,
            "sglang": self.sglang,
        }
        return sections[engine]

    def gpus_for(self, engine: EngineName) -> int:
        """How many GPUs a job of an engine may use."""
        return self.engine_section(engine).gpus

    def rollout_engine(self, model: str) -> EngineName:
        """The engine of a model's training responses."""
        return self.models[model].rollout_engine or self.rollouts.engine

    def trained(self, controller: str) -> list[str]:
        """The models that a controller is trained for."""
        models = self.controllers[controller].models
        return [model for model in self.models if models is None or model in models]
