"""The typed configuration, and its checks across sections. Unknown keys are refused.

`config.yaml` explains every key.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import field_validator, model_validator

from stair.config.datasets import GENERATED
from stair.config.evaluation import Condition, expanded
from stair.config.names import check_names
from stair.config.replay import Replay
from stair.config.run_sections import RunSections
from stair.config.runtime import Runtime
from stair.core import TURNS, condition_key, study_of


class Config(RunSections):
    """A run: the paper's settings, changed by an overlay and by the command line."""

    @field_validator("conditions", mode="before")
    @classmethod
    def _families(cls, conditions: Any) -> Any:
        return expanded(conditions) if isinstance(conditions, Mapping) else conditions

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        check_names(self.model_dump(mode="json"))
        _check_problems(self)
        for key, condition in self.conditions.items():
            if condition.turns == 2:
                raise ValueError(
                    f"conditions.{key}.turns is 1 or 4 here; conditions of two turns belong to controls.conditions"
                )
        if self.controls is not None and self.controls.seed == self.evaluation.seed:
            raise ValueError(
                f"controls.seed is '{self.controls.seed}', as evaluation.seed; the study generates a T1 of its own, so name "
                "it otherwise"
            )
        for key in self.every_condition:
            _check_condition(self, key)
        if self.replay is not None:
            _check_replay(self, self.replay)
        if self.runtime is not None:
            _check_runtime(self, self.runtime)
        if not self.conditions and not self.only_measures:
            raise ValueError(
                "conditions is empty; name one, or remove all controllers and the section controls too and set "
                "runtime.synthetic, which needs none of them"
            )
        return self


def _check_problems(run: RunSections) -> None:
    """Checks that problems can be generated, and that all numbers of problems suffice for sessions."""
    for key, benchmark in run.benchmarks.items():
        if benchmark.tiny is not None and key not in GENERATED:
            raise ValueError(
                f"benchmarks.{key}.tiny: there are generated problems for {', '.join(GENERATED)} alone; give `path` or "
                "`repository`"
            )
        for count, problems in benchmark.counts.items():
            if problems is not None and problems < TURNS:
                raise ValueError(f"benchmarks.{key}.{count}: a session needs {TURNS} distinct problems, not {problems}")
    pool = run.training_pool
    if 0 < pool.validation_problems < TURNS:
        raise ValueError(
            f"training_pool.validation_problems: a validation session needs {TURNS} distinct problems, or none"
        )
    for count, problems in pool.counts.items():
        if problems is not None and problems < pool.validation_problems + TURNS:
            raise ValueError(
                f"training_pool.{count}: {problems} problems are too few for {pool.validation_problems} validation "
                f"problems and sessions of {TURNS} distinct ones"
            )


def _check_condition(run: RunSections, key: str) -> None:
    condition, where = run.condition(key), run.place_of(key)
    if condition.repeats is not None:
        _check_repetition(run, key, condition_key(study_of(key)[0], condition.repeats))
    if (first := run.first_turn(key)) is not None:
        if run.condition(first).turns != 1:
            raise ValueError(f"{where}.first_turn must name a condition of one turn, not '{condition.first_turn}'")
        for model, benchmark in run.evaluated(key):
            if (model, benchmark) not in run.evaluated(first):
                raise ValueError(
                    f"{where} reuses the first turns of '{condition.first_turn}', which is not run for {model} on "
                    f"{benchmark}"
                )
    changed = [*condition.intervention, *(["variant"] if condition.variant != "differential" else [])]
    if changed and not run.reads_bank(key):
        raise ValueError(f"{where} sets {', '.join(changed)} and reads no bank; name a controller that reads")
    if condition.controller is not None:
        _check_action(run, where, condition, condition.controller, run.evaluated(key))


def _check_repetition(run: RunSections, key: str, original_key: str) -> None:
    condition, original, where = run.condition(key), run.condition(original_key), run.place_of(key)
    repeated = condition.repeats
    if (condition.turns, condition.first_turn) != (original.turns, original.first_turn) or original is condition:
        raise ValueError(f"{where} must have the turns and first_turn of '{repeated}', which it repeats")
    if condition.controller != original.controller and condition.variant != "zero":
        raise ValueError(f"{where} repeats '{repeated}' with another controller; only the variant zero changes nothing")
    for model, benchmark in run.evaluated(key):
        if (model, benchmark) not in run.evaluated(original_key):
            raise ValueError(f"{where} repeats '{repeated}', which is not run for {model} on {benchmark}")


def _check_action(run: RunSections, where: str, condition: Condition, name: str, places: list[tuple[str, str]]) -> None:
    controller = run.controllers[name]
    if condition.turns == TURNS and controller.kind == "bank_free":
        raise ValueError(
            f"{where} names the controller '{name}' of kind 'bank_free', which the study with a shared T1 history evaluates"
        )
    if condition.first_turn is not None and controller.adapts:
        raise ValueError(
            f"{where} cannot reuse the first turns of '{condition.first_turn}': the adapter of '{name}' acts at T1 too"
        )
    for model, benchmark in places:
        engine = run.engine_for(model, benchmark)
        if not run.engine_section(engine).reads:
            raise ValueError(
                f"{where} needs the Transformers engine, and evaluation gives {model} on {benchmark} to '{engine}': "
                "a whole comparison runs on one engine"
            )
        if model not in run.trained(name):
            raise ValueError(f"{where} needs the controller '{name}' of {model}, which is not trained")


def _check_histories(run: RunSections, section: str, study: Replay | Runtime) -> None:
    for model in study.models:
        if (model, study.benchmark) not in run.evaluated(study.condition):
            raise ValueError(
                f"{section}.models: '{study.condition}' is not run for {model} on {study.benchmark}, so there are no "
                f"histories; name other models, or set {section} to null"
            )


def _check_replay(run: RunSections, replay: Replay) -> None:
    if run.conditions[replay.condition].turns <= replay.depth:
        raise ValueError(
            f"replay.condition: '{replay.condition}' has one turn, and histories of depth {replay.depth} need more"
        )
    _check_histories(run, "replay", replay)


def _check_runtime(run: RunSections, runtime: Runtime) -> None:
    if runtime.synthetic is not None:
        return
    if run.conditions[runtime.condition].turns == 1:
        raise ValueError(f"runtime.condition: '{runtime.condition}' has one turn, and a T2 prompt needs two")
    controller = run.controllers[runtime.controller]
    if controller.kind != "stair":
        raise ValueError(
            f"runtime.controller: '{runtime.controller}' is of kind '{controller.kind}'; expected a controller of "
            "kind 'stair'"
        )
    _check_histories(run, "runtime", runtime)
    for model in runtime.models:
        if model not in run.trained(runtime.controller):
            raise ValueError(
                f"runtime.models: the controller '{runtime.controller}' is not trained for {model}; name another "
                "model, or train it"
            )
