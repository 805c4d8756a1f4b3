"""Checks of a configuration that need several of its sections, one function a section: names exist, and settings agree."""

from __future__ import annotations

from collections.abc import Collection

from stair.config.controls import Controls
from stair.config.evaluation import Condition, MissingResponse
from stair.config.replay import Replay
from stair.config.run_sections import RunSections
from stair.config.runtime import Runtime
from stair.core import PLACEHOLDER, TURNS


def check_sections(run: RunSections) -> None:
    """Checks every section against the others.

    Raises:
        ValueError: the first fault, with its key.
    """
    _check_labels(run)
    _check_models(run)
    _check_benchmarks(run)
    _check_prompts(run)
    _check_training_pool(run)
    _check_overview(run)
    _check_transitions(run)
    _check_engine_changes(run)
    _check_missing_rollouts(run)
    _check_missing_responses(run)
    _check_controllers(run)
    _check_conditions(run)
    if run.controls is not None:
        _check_controls(run, run.controls)
    if run.replay is not None:
        _check_replay(run, run.replay)
    if run.runtime is not None:
        _check_runtime(run, run.runtime)
    if not run.conditions and not run.only_measures:
        raise ValueError(
            "conditions is empty; name one, or remove all controllers and the section controls too and set "
            "runtime.synthetic, which needs none of them"
        )


def _check_name(where: str, name: str | None, among: Collection[str], what: str) -> None:
    """Refuses a name that is not configured."""
    if name is not None and name not in among:
        raise ValueError(f"{where} names the {what} '{name}', which is not configured (there are: {', '.join(among)})")


def _check_names(where: str, names: Collection[str] | None, among: Collection[str], what: str) -> None:
    for name in names or ():
        _check_name(where, name, among, what)


def _check_labels(run: RunSections) -> None:
    for kind in ("models", "benchmarks", "conditions"):
        labels: dict[str, str] = {}
        for key, item in getattr(run, kind).items():
            if (first := labels.setdefault(item.label, key)) != key:
                raise ValueError(
                    f"{kind}.{key}.label is that of {kind}.{first} too ('{item.label}'); tables need labels that differ"
                )


def _check_models(run: RunSections) -> None:
    for key, model in run.models.items():
        _check_names(f"models.{key}.evaluation_changes", model.evaluation_changes, run.benchmarks, "benchmark")


def _check_benchmarks(run: RunSections) -> None:
    for key, item in run.benchmarks.items():
        _check_name(f"benchmarks.{key}.prompt", item.prompt, run.prompts, "prompt")


def _check_prompts(run: RunSections) -> None:
    for key, prompt in run.prompts.items():
        if prompt.count(PLACEHOLDER) != 1:
            raise ValueError(f"prompts.{key} must hold {PLACEHOLDER} exactly once")


def _check_training_pool(run: RunSections) -> None:
    pool = run.training_pool
    _check_name("training_pool.prompt", pool.prompt, run.prompts, "prompt")
    _check_names("training_pool.exclude_benchmarks", pool.exclude_benchmarks, run.benchmarks, "benchmark")
    for model, names in pool.exclude_more.items():
        _check_name("training_pool.exclude_more", model, run.models, "model")
        _check_names(f"training_pool.exclude_more.{model}", names, run.benchmarks, "benchmark")


def _check_overview(run: RunSections) -> None:
    _check_names("overview.models", run.overview.models, run.models, "model")


def _check_transitions(run: RunSections) -> None:
    _check_name("transitions.model", run.transitions.model, run.models, "model")
    _check_name("transitions.benchmark", run.transitions.benchmark, run.benchmarks, "benchmark")


def _check_engine_changes(run: RunSections) -> None:
    for model, engines in run.evaluation.engine_changes.items():
        _check_name("evaluation.engine_changes", model, run.models, "model")
        _check_names(f"evaluation.engine_changes.{model}", engines, run.benchmarks, "benchmark")


def _check_missing_rollouts(run: RunSections) -> None:
    named = set()
    for number, lost in enumerate(run.rollouts.missing):
        where = f"rollouts.missing.{number}"
        _check_name(f"{where}.model", lost.model, run.models, "model")
        if (response := (lost.model, lost.record, lost.sample)) in named:
            raise ValueError(
                f"{where}: {lost.record}, sample {lost.sample} of {lost.model} is named twice; keep one entry"
            )
        named.add(response)


def _check_missing_responses(run: RunSections) -> None:
    for number, gap in enumerate(run.evaluation.missing):
        where = f"evaluation.missing.{number}"
        _check_name(f"{where}.model", gap.model, run.models, "model")
        _check_name(f"{where}.benchmark", gap.benchmark, run.benchmarks, "benchmark")
        _check_name(f"{where}.condition", gap.condition, run.conditions, "condition")
        _check_missing_response(run, where, gap)


def _check_controllers(run: RunSections) -> None:
    for key, controller in run.controllers.items():
        _check_names(f"controllers.{key}.models", controller.models, run.models, "model")
        layers = controller.controlled_layers
        if len(set(layers)) != len(layers):
            raise ValueError(f"controllers.{key}.layers lists a layer twice: {list(layers)}")


def _check_conditions(run: RunSections) -> None:
    for key, condition in run.conditions.items():
        where = f"conditions.{key}"
        _check_name(f"{where}.controller", condition.controller, run.controllers, "controller")
        _check_name(f"{where}.first_turn", condition.first_turn, run.conditions, "condition")
        _check_name(f"{where}.repeats", condition.repeats, run.conditions, "condition")
        _check_names(f"{where}.models", condition.models, run.models, "model")
        _check_names(f"{where}.benchmarks", condition.benchmarks, run.benchmarks, "benchmark")
        if condition.turns == 2:
            raise ValueError(f"{where}.turns is 1 or 4 here; conditions of two turns belong to controls.conditions")
        _check_condition(run, key, condition)


def _check_controls(run: RunSections, controls: Controls) -> None:
    _check_names("controls.models", controls.models, run.models, "model")
    _check_name("controls.benchmark", controls.benchmark, run.benchmarks, "benchmark")
    study = run.shared_t1()
    if controls.seed == run.evaluation.seed:
        raise ValueError(
            f"controls.seed is '{controls.seed}', as evaluation.seed; the study generates a T1 of its own, so name it "
            "otherwise"
        )
    for key, condition in controls.conditions.items():
        where = f"controls.conditions.{key}"
        _check_name(f"{where}.controller", condition.controller, run.controllers, "controller")
        _check_name(f"{where}.repeats", condition.repeats, controls.conditions, "condition")
        _check_names(f"{where}.models", condition.models, run.models, "model")
        _check_names(f"{where}.benchmarks", condition.benchmarks, run.benchmarks, "benchmark")
        for name, answered in (("models", controls.models), ("benchmarks", (controls.benchmark,))):
            own = getattr(condition, name)
            if own is not None and not set(own) & set(answered):
                raise ValueError(
                    f"{where}.{name} is {list(own)}, and the study has {list(answered)}, so the condition would run "
                    "nowhere; remove the key, or set the condition to null"
                )
        try:
            _check_condition(study, key, study.conditions[key])
        except ValueError as error:
            raise ValueError(f"controls.{error}") from None
    for number, gap in enumerate(controls.missing):
        where = f"controls.missing.{number}"
        _check_name(f"{where}.condition", gap.condition, controls.conditions, "condition")
        _check_missing_response(study, where, gap)


def _check_replay(run: RunSections, replay: Replay) -> None:
    _check_names("replay.models", replay.models, run.models, "model")
    _check_name("replay.benchmark", replay.benchmark, run.benchmarks, "benchmark")
    _check_name("replay.condition", replay.condition, run.conditions, "condition")
    if run.conditions[replay.condition].turns <= replay.depth:
        raise ValueError(
            f"replay.condition: '{replay.condition}' has one turn, and histories of depth {replay.depth} need more"
        )
    for model in replay.models:
        if (model, replay.benchmark) not in run.evaluated(replay.condition):
            raise ValueError(
                f"replay.models: '{replay.condition}' is not run for {model} on {replay.benchmark}, so there are no "
                "histories; name other models there, or set replay to null"
            )


def _check_runtime(run: RunSections, runtime: Runtime) -> None:
    _check_names("runtime.models", runtime.models, run.models, "model")
    if runtime.synthetic is not None:
        return
    _check_name("runtime.benchmark", runtime.benchmark, run.benchmarks, "benchmark")
    _check_name("runtime.condition", runtime.condition, run.conditions, "condition")
    _check_name("runtime.controller", runtime.controller, run.controllers, "controller")
    if run.conditions[runtime.condition].turns == 1:
        raise ValueError(f"runtime.condition: '{runtime.condition}' has one turn, and a T2 prompt needs two")
    controller = run.controllers[runtime.controller]
    if controller.kind != "stair":
        raise ValueError(
            f"runtime.controller: '{runtime.controller}' is of kind '{controller.kind}'; expected a controller of "
            "kind 'stair'"
        )
    for model in runtime.models:
        if (model, runtime.benchmark) not in run.evaluated(runtime.condition):
            raise ValueError(
                f"runtime.models: '{runtime.condition}' is not run for {model} on {runtime.benchmark}, so there are no "
                "histories; name another model, or set runtime to null"
            )
        if model not in run.trained(runtime.controller):
            raise ValueError(
                f"runtime.models: the controller '{runtime.controller}' is not trained for {model}; name another "
                "model, or train it"
            )


def _check_missing_response(run: RunSections, where: str, gap: MissingResponse) -> None:
    condition = run.conditions[gap.condition]
    named = [(g.model, g.benchmark, g.condition, g.session, g.sample) for g in run.evaluation.missing]
    if named.count((gap.model, gap.benchmark, gap.condition, gap.session, gap.sample)) > 1:
        raise ValueError(
            f"{where}: {gap.session}, sample {gap.sample} of '{gap.condition}' is named twice; keep one turn"
        )
    if (gap.model, gap.benchmark) not in run.evaluated(gap.condition):
        raise ValueError(f"{where}: '{gap.condition}' is not run for {gap.model} on {gap.benchmark}")
    if gap.sample >= run.evaluation.samples or gap.turn > condition.turns:
        raise ValueError(
            f"{where}: '{gap.condition}' has the samples 0 to {run.evaluation.samples - 1} and {condition.turns} turns, "
            f"not sample {gap.sample}, turn {gap.turn}"
        )
    if gap.turn == 1 and condition.first_turn is not None:
        raise ValueError(
            f"{where}: '{gap.condition}' reuses the first turns of '{condition.first_turn}'; name the response there"
        )


def _check_condition(run: RunSections, key: str, condition: Condition) -> None:
    if condition.repeats is not None:
        _check_repetition(run, key, condition, condition.repeats)
    if condition.turns == 1 and (condition.controller or condition.first_turn):
        raise ValueError(f"conditions.{key} has one turn, so it can have no controller and reuse no first turn")
    if condition.first_turn:
        _check_first_turn(run, key, condition.first_turn)
    if condition.controller:
        _check_action(run, key, condition, condition.controller)
    _check_read(run, key, condition)
    if condition.controller:
        _check_places(run, key, condition.controller)


def _check_first_turn(run: RunSections, key: str, reused: str) -> None:
    """Checks the condition whose first turns a condition reuses."""
    if run.conditions[reused].turns != 1:
        raise ValueError(f"conditions.{key}.first_turn must name a condition of one turn, not '{reused}'")
    for model, benchmark in run.evaluated(key):
        if (model, benchmark) not in run.evaluated(reused):
            raise ValueError(
                f"conditions.{key} reuses the first turns of '{reused}', which is not run for {model} on {benchmark}"
            )


def _check_action(run: RunSections, key: str, condition: Condition, controller: str) -> None:
    """Checks that a controller of this kind can act at the condition's turns."""
    if condition.turns == TURNS and run.controllers[controller].kind == "bank_free":
        raise ValueError(
            f"conditions.{key} names the controller '{controller}' of kind 'bank_free', which the study with a "
            "shared T1 history evaluates"
        )
    if condition.first_turn and run.controllers[controller].adapts:
        raise ValueError(
            f"conditions.{key} cannot reuse the first turns of '{condition.first_turn}': the adapter of "
            f"'{controller}' acts at T1 too"
        )


def _check_read(run: RunSections, key: str, condition: Condition) -> None:
    """Checks the settings of a condition's read, which only a controller that reads can have."""
    changed = [*condition.intervention, *(["variant"] if condition.variant != "differential" else [])]
    if changed and not run.reads_bank(key):
        raise ValueError(f"conditions.{key} sets {', '.join(changed)} and reads no bank; name a controller that reads")
    if run.reads_bank(key):
        try:
            run.read_specification(key)
        except ValueError as error:
            raise ValueError(f"conditions.{key}: {error}") from None


def _check_places(run: RunSections, key: str, controller: str) -> None:
    """Checks that the controller exists, and that the engine can use it, wherever the condition is evaluated."""
    for model, benchmark in run.evaluated(key):
        if not run.engine_section(run.engine_for(model, benchmark)).reads:
            raise ValueError(
                f"conditions.{key} needs the Transformers engine, and evaluation gives {model} on {benchmark} to "
                f"'{run.engine_for(model, benchmark)}': a whole comparison runs on one engine"
            )
    trained = run.controllers[controller].models
    for model, _ in run.evaluated(key):
        if trained is not None and model not in trained:
            raise ValueError(f"conditions.{key} needs the controller '{controller}' of {model}, which is not trained")


def _check_repetition(run: RunSections, key: str, condition: Condition, repeated: str) -> None:
    original = run.conditions[repeated]
    if (condition.turns, condition.first_turn) != (original.turns, original.first_turn) or repeated == key:
        raise ValueError(f"conditions.{key} must have the turns and first_turn of '{repeated}', which it repeats")
    if condition.controller != original.controller and condition.variant != "zero":
        raise ValueError(
            f"conditions.{key} repeats '{repeated}' with another controller; only the variant zero changes nothing"
        )
    for place in run.evaluated(key):
        if place not in run.evaluated(repeated):
            raise ValueError(f"conditions.{key} repeats '{repeated}', which is not run for {place[0]} on {place[1]}")
