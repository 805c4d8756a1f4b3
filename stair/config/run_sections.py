"""The sections of a run's configuration, and the facts that follow from several of them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from stair.config.backbones import Model
from stair.config.controls import Controls
from stair.config.datasets import Benchmark, Hub, TrainingPool
from stair.config.engines import EngineName, SGLangSettings, TransformersSettings
from stair.config.evaluation import Condition, Evaluation, Overview, Transitions
from stair.config.field_types import Key, Strict, Text, Texts, labels_differ
from stair.config.names import Select
from stair.config.replay import Replay
from stair.config.runtime import Runtime
from stair.config.training import ControllerSettings, Rollouts, Sessions, TrainingSettings
from stair.core import EVALUATION, PLACEHOLDER, SECTIONS, ReadSpecification, condition_key, study_of


def _with_placeholder(prompt: str) -> str:
    if prompt.count(PLACEHOLDER) != 1:
        raise ValueError(f"must hold {PLACEHOLDER} exactly once")
    return prompt


class ClaimBounds(Strict):
    """Bounds of claims that the paper states without a number."""

    persisting_attention: float = Field(5.0, ge=0, le=100)
    small_interaction: float = Field(5.0, ge=0, le=100)
    comparable_reads: float = Field(0.5, gt=0, le=1)


class RunSections(Strict):
    """The sections of a run; `Config` adds the checks that need several of them."""

    run: Key
    results: Text = "results"
    hub: Hub = Field(default_factory=Hub)
    reuse: Texts = ()
    expensive: bool = True
    accept_missing: bool = False
    note: str | None = None
    select: Select = Field(default_factory=Select, exclude=True)
    models: Annotated[dict[Key, Model], AfterValidator(labels_differ)] = Field(min_length=1)
    prompts: dict[Key, Annotated[str, AfterValidator(_with_placeholder)]]
    training_pool: TrainingPool
    benchmarks: Annotated[dict[Key, Benchmark], AfterValidator(labels_differ)] = Field(min_length=1)
    rollouts: Rollouts
    sessions: Sessions = Field(default_factory=Sessions)
    controllers: dict[Key, ControllerSettings]
    training: TrainingSettings
    conditions: Annotated[dict[Key, Condition], AfterValidator(labels_differ)]
    evaluation: Evaluation
    # Optional, so that runs that were resolved before it existed are still read.
    replay: Replay | None = None
    runtime: Runtime | None = None
    controls: Controls | None = None
    transitions: Transitions
    overview: Overview
    claims: ClaimBounds = Field(default_factory=ClaimBounds)
    transformers: TransformersSettings
    sglang: SGLangSettings = Field(default_factory=SGLangSettings)

    def conditions_of(self, study: str) -> dict[str, Condition]:
        """The conditions of a study by their names there."""
        if study == EVALUATION:
            return self.conditions
        return {} if self.controls is None else self.controls.conditions

    @property
    def every_condition(self) -> list[str]:
        """The keys of all conditions: of the evaluation, then of the study with a shared T1 history."""
        return [condition_key(study, name) for study in SECTIONS for name in self.conditions_of(study)]

    def condition(self, key: str) -> Condition:
        study, name = study_of(key)
        return self.conditions_of(study)[name]

    def place_of(self, condition: str) -> str:
        """The place of a condition in the configuration."""
        return f"{'' if condition in self.conditions else 'controls.'}conditions.{study_of(condition)[1]}"

    def section_of(self, condition: str) -> Evaluation | Controls:
        """The section with the seed and the shards of a condition's study."""
        section: Evaluation | Controls = getattr(self, SECTIONS[study_of(condition)[0]])
        return section

    def first_turn(self, condition: str) -> str | None:
        """The condition whose T1 responses a condition reuses."""
        name = self.condition(condition).first_turn
        return None if name is None else condition_key(study_of(condition)[0], name)

    @property
    def only_measures(self) -> bool:
        """Whether the run has no stage but the runtime study with random weights."""
        synthetic = self.runtime is not None and self.runtime.synthetic is not None
        return synthetic and not self.conditions and not self.controllers and self.controls is None

    def engine_for(self, model: str, benchmark: str) -> EngineName:
        """The engine of all conditions of a model on a benchmark."""
        return self.evaluation.engine_changes.get(model, {}).get(benchmark, self.evaluation.engine)

    def reads_bank(self, condition: str) -> bool:
        """Whether a condition's controller reads a bank."""
        controller = self.condition(condition).controller
        return controller is not None and self.controllers[controller].reads

    def acts(self, condition: str) -> bool:
        """Whether a condition's controller acts during prefill: it reads a bank, or scales the attention output."""
        controller = self.condition(condition).controller
        return controller is not None and self.controllers[controller].controls

    def read_specification(self, condition: str) -> ReadSpecification:
        """Raises ValueError if its controller's smoothing is out of range."""
        settings = self.condition(condition)
        assert settings.controller is not None
        return ReadSpecification(
            settings.variant,
            limit=settings.prefix,
            permutation_seed=settings.seed if settings.randomised == "values" else None,
            smoothing=self.controllers[settings.controller].smoothing,
        )

    def shards_of(self, condition: str) -> int:
        """How many jobs share a condition."""
        return self.condition(condition).shards or self.section_of(condition).shards

    def evaluated(self, condition: str) -> list[tuple[str, str]]:
        """The (model, benchmark) pairs that a condition is run for."""
        settings, section = self.condition(condition), self.section_of(condition)
        return [
            (model, benchmark)
            for model in (section.models if isinstance(section, Controls) else self.models)
            for benchmark in ((section.benchmark,) if isinstance(section, Controls) else self.benchmarks)
            if (settings.models is None or model in settings.models)
            and (settings.benchmarks is None or benchmark in settings.benchmarks)
        ]

    def benchmarks_of(self, model: str) -> list[str]:
        evaluated_pairs = {pair for condition in self.every_condition for pair in self.evaluated(condition)}
        return [benchmark for benchmark in self.benchmarks if (model, benchmark) in evaluated_pairs]

    def engine_section(self, engine: EngineName) -> TransformersSettings | SGLangSettings:
        sections: dict[EngineName, TransformersSettings | SGLangSettings] = {
            "transformers": self.transformers,
            "sglang": self.sglang,
        }
        return sections[engine]

    def gpus_for(self, engine: EngineName) -> int:
        """How many GPUs a job of an engine may use."""
        return self.engine_section(engine).gpus

    def rollout_engine(self, model: str) -> EngineName:
        return self.models[model].rollout_engine or self.rollouts.engine

    def trained(self, controller: str) -> list[str]:
        models = self.controllers[controller].models
        return [model for model in self.models if models is None or model in models]
