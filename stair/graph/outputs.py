"""The table of outputs: the one statement of the graph, in an order in which each comes after what it is made from.

The rules (workflow/rules), `stair verify`, `why`, `restore`, `status` and the display read it. A new stage is a file of
rules, a folder, a settings function and its entries here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from stair.config.paths import BACKBONE_FILES, RunPaths, shared_t1
from stair.config.replay import Replay
from stair.config.replay_analysis import REPLAY_PARTS
from stair.config.runtime import Runtime
from stair.config.training import CONTROLLER_FILES
from stair.core import SHARED_T1_STUDY
from stair.graph import settings
from stair.graph.origin import BEHIND, has_settings, recorded_origin
from stair.graph.output_kind import Inputs, OutputKind, Shards
from stair.graph.run import Run, manifest_beside
from stair.graph.table_inputs import (
    BANK_COST_FIGURE,
    CONTROLLER_TABLE,
    DECODING_TABLE,
    DIAGRAMS,
    FIGURES,
    GAINS_FROM,
    REPLAY_FIGURES,
    TEXT_TABLE,
    TRAINING_FIGURE,
    TRAINING_SCOPE,
    Place,
    analyzed_models,
    bank_lengths,
    diagram_models,
    evaluated_places,
    figures_of,
    run_tables,
    shared_t1_tables,
    stair_controller,
    tables_of,
)
from stair.protocol.preflight_record import prompts_settings
from stair.records import schemas

Job = tuple[str, ...]

TABLE_SUFFIXES, FIGURE_SUFFIXES = (".csv", ".md", ".tex", ".html"), (".pdf", ".png", ".csv")


# ---------------------------------------------------------------- which jobs a run has, with restored outputs


def needs_training_data(run: Run, model: str) -> bool:
    """Whether a model's rollouts and sessions are made.

    They are not if all its trained controllers are restored and neither the archive nor the run has their training data.
    """
    if run.include_unneeded:
        return True
    controllers = [key for key in run.config.controllers if model in run.config.trained(key)]
    if not controllers or not all(is_restored(run, "controller", model, controller) for controller in controllers):
        return True
    return is_restored(run, "rollouts", model) or run.paths.rollouts(model).is_file()


def trained_models(run: Run) -> list[str]:
    """The models whose training data is made."""
    return [model for model in run.config.models if needs_training_data(run, model)]


def used_models(run: Run) -> list[str]:
    """The models that jobs use. A model is left out if all its outputs are restored."""

    def used(model: str) -> bool:
        names = ("rollouts", "controller", "responses", SHARED_T1_STUDY, "replay_design", "replay", "runtime")
        jobs = [(name, job) for name in names for job in OUTPUTS[name].jobs(run) if job[0] == model]
        return any(not is_restored(run, name, *job) for name, job in jobs)

    return [model for model in run.config.models if run.include_unneeded or used(model)]


def generated_sets(run: Run) -> list[Job]:
    """The data sets that the run generates. A data set is left out if its table is restored from an archive."""
    config = run.config
    benchmarks = [
        key
        for (key,) in needed_benchmarks(run)
        if config.benchmarks[key].tiny is not None and not _uses_restored(run, "benchmark", key)
    ]
    pool_needed = any(not _uses_restored(run, "training_pool", model) for (model,) in needed_pools(run))
    pool = ["training_pool"] if config.training_pool.tiny is not None and pool_needed else []
    return [(name,) for name in (*pool, *benchmarks)]


def is_restored(run: Run, output: str, *name: str) -> bool:
    """Whether an archive's outputs of a job are in the run's folder and were made under the current settings.

    The settings of all jobs behind them count too, where the archive records these: their outputs may not exist.
    """
    kind = OUTPUTS[output]
    if not kind.restorable or run.archive is None:
        return False
    if (output, *name) not in run.restored_jobs:
        manifest = kind.pieces(run.archive, *name)[0].manifest
        restored = has_settings(manifest, lambda: kind.settings(run, *name))
        origin = recorded_origin(manifest) or {}
        run.restored_jobs[output, *name] = restored and other_job_behind(run, origin) is None
    return run.restored_jobs[output, *name]


def other_job_behind(run: Run, origin: Mapping[str, Any]) -> str | None:
    """The first job behind an archived output that had other settings than now; None if there is none."""
    for job, digest in origin.get(BEHIND, ()):
        if _settings_digest(run, *job) != digest:
            return " ".join(job)
    return None


def _settings_digest(run: Run, output: str, *name: str) -> str | None:
    job = (output, *name)
    if job not in run.digests:
        try:
            run.digests[job] = OUTPUTS[output].settings_digest(run, *name)
        except (KeyError, TypeError, AssertionError):
            run.digests[job] = None
    return run.digests[job]


def _uses_restored(run: Run, output: str, *name: str) -> bool:
    """As `is_restored`, but False in the graph that includes unneeded jobs, where nothing is left out."""
    return not run.include_unneeded and is_restored(run, output, *name)


def needed_pools(run: Run) -> list[Job]:
    """The models whose training problems are made or restored."""
    return [
        (model,)
        for model in run.config.models
        if needs_training_data(run, model) or _uses_restored(run, "training_pool", model)
    ]


def needed_benchmarks(run: Run) -> list[Job]:
    """The benchmarks whose tables are made. A benchmark is left out if only restored outputs were made from it."""
    if run.include_unneeded or run.archive is None:
        return [(key,) for key in run.config.benchmarks]
    users = [
        (output, job)
        for output in OUTPUTS.values()
        if output.restorable and output.name != "benchmark"
        for job in output.jobs(run)
        if not is_restored(run, output.name, *job)
    ]
    used = {file for output, job in users for group in output.made_from(run, *job).values() for file in group}
    return [
        (key,)
        for key in run.config.benchmarks
        if (file := run.paths.benchmark(key)) in used or file.is_file() or is_restored(run, "benchmark", key)
    ]


def answered(run: Run) -> list[Job]:
    """`evaluated` without the jobs of which an archive has the scored rows alone."""
    return [job for job in evaluated(run) if not _scores_alone(run, run.paths, "responses", "scores", job)]


def answered_shared_t1(run: Run) -> list[Job]:
    """As `answered`, for the study with a shared T1 history."""
    jobs = evaluated(shared_t1_run(run))
    return [job for job in jobs if not _scores_alone(run, run.paths.shared_t1, "shared_t1", "shared_t1_scores", job)]


def _scores_alone(run: Run, paths: RunPaths, responses: str, scores: str, job: Job) -> bool:
    here = _uses_restored(run, responses, *job) or paths.responses(*job).is_file()
    return not here and _uses_restored(run, scores, *job)


def _has_all_data(run: Run) -> bool:
    """Whether every data set that the data report describes is made."""
    config = run.config
    return len(trained_models(run)) == len(config.models) and len(needed_benchmarks(run)) == len(config.benchmarks)


def evaluated(run: Run) -> list[Job]:
    """Every (model, benchmark, condition) of the evaluation, one condition after the other."""
    return [(*pair, condition) for condition in run.config.conditions for pair in run.config.evaluated(condition)]


def _of(model: str, jobs: Iterable[Job]) -> list[Job]:
    return [job for job in jobs if job[0] == model]


def shared_t1_run(run: Run) -> Run:
    """The run as the study with a shared T1 history sees it."""
    return Run(*shared_t1(run.config, run.paths))


def answering_models(run: Run) -> list[str]:
    """The models that answer a benchmark."""
    return [model for model in run.config.models if run.config.benchmarks_of(model)]


def carded_models(run: Run) -> list[Job]:
    """The models whose responses all exist, for their data cards."""
    jobs = answered(run)
    return [(model,) for model in answering_models(run) if _of(model, jobs) == _of(model, evaluated(run))]


def checked_prompts(run: Run) -> list[Job]:
    """Every (model, data set) whose prompts are held to the model's context."""
    return [
        (model, name)
        for model in used_models(run)
        for name in (
            *(["training_pool"] if needs_training_data(run, model) else []),
            *dict.fromkeys((*run.config.benchmarks_of(model), *run.config.shared_t1().benchmarks_of(model))),
        )
    ]


def replayed_models(run: Run) -> list[Job]:
    """The models whose histories are replayed."""
    return [] if run.config.replay is None else [(model,) for model in run.config.replay.models]


def measured_models(run: Run) -> list[Job]:
    """The replayed models whose states are measured. A model is left out if its design and statistics are restored."""

    def restored(model: str) -> bool:
        parts = [_uses_restored(run, "replay_statistics", model, part) for part in REPLAY_PARTS]
        return model in analyzed_models(run.config) and all((_uses_restored(run, "replay_design", model), *parts))

    return [(model,) for (model,) in replayed_models(run) if not restored(model)]


def timed_models(run: Run) -> list[Job]:
    """The models of the runtime study."""
    return [] if run.config.runtime is None else [(model,) for model in run.config.runtime.models]


def drawn_costs(run: Run) -> list[Job]:
    """The figures of prefill cost against bank length."""
    if run.config.runtime is None or not run.config.runtime.curve:
        return []
    return [(BANK_COST_FIGURE + model,) for (model,) in timed_models(run)]


def drawn_curves(run: Run) -> list[str]:
    """The figures of training curves, one for each model with a controller."""
    return [TRAINING_FIGURE + model for model in run.config.models if run.paths.curves(run.config, model)]


# ---------------------------------------------------------------- what outputs are made from


def _every_benchmark(run: Run) -> list[Path]:
    return [run.paths.benchmark(key) for key in run.config.benchmarks]


def _pool_from(run: Run, model: str) -> Inputs:
    excluded = sorted(run.config.training_pool.excluded_for(model))
    return {
        "source": [run.paths.dataset_file(run.config, "training_pool")],
        "excluded": [run.paths.benchmark(key) for key in excluded],
    }


def _report_from(run: Run) -> Inputs:
    return {
        "benchmarks": _every_benchmark(run),
        "pools": [run.paths.training_pool(model) for model in run.config.models],
        "cleaning": [run.paths.cleaning(model) for model in run.config.models],
    }


def _limits_from(run: Run, model: str, prompts: str) -> Inputs:
    paths = run.paths
    problems = paths.training_pool(model) if prompts == "training_pool" else paths.benchmark(prompts)
    return {"preflight": [paths.preflight(model)], "problems": [problems]}


def _pool_and_rollouts(run: Run, model: str) -> Inputs:
    return {"pool": [run.paths.training_pool(model)], "rollouts": [run.paths.rollouts(model)]}


def _training_data(run: Run, model: str, controller: str = "") -> Inputs:
    return {
        **_pool_and_rollouts(run, model),
        "training": [run.paths.training_sessions(model)],
        "validation": [run.paths.validation_sessions(model)],
    }


def _responses_from(run: Run, model: str, benchmark: str, condition: str) -> Inputs:
    chosen, paths = run.config.conditions[condition], run.paths
    first, controller = chosen.first_turn, chosen.controller
    return {
        "benchmark": [paths.benchmark(benchmark)],
        "sessions": [paths.evaluation_sessions(benchmark)],
        "first_turns": [paths.responses(model, benchmark, first)] if first else [],
        "controller": paths.controller_weights(run.config, model, controller) if controller else [],
    }


def _replay(run: Run) -> Replay:
    assert run.config.replay is not None, "the run has no replay"
    return run.config.replay


def _design_from(run: Run, model: str) -> Inputs:
    replay, paths = _replay(run), run.paths
    return {
        "benchmark": [paths.benchmark(replay.benchmark)],
        "sessions": [paths.evaluation_sessions(replay.benchmark)],
        "responses": [paths.responses(model, replay.benchmark, replay.condition)],
    }


def _runtime(run: Run) -> Runtime:
    assert run.config.runtime is not None, "the run has no runtime study"
    return run.config.runtime


def _runtime_from(run: Run, model: str) -> Inputs:
    study, paths = _runtime(run), run.paths
    if study.synthetic is not None:
        return {}
    return {
        "benchmark": [paths.benchmark(study.benchmark)],
        "sessions": [paths.evaluation_sessions(study.benchmark)],
        "responses": [paths.responses(model, study.benchmark, study.condition)],
        "controller": paths.controller_weights(run.config, model, study.controller),
    }


def _checked(run: Run) -> Inputs:
    inputs: Inputs = {"benchmarks": _every_benchmark(run)}
    # The checks of an archive have read the training data of all models.
    for model in run.config.models if _uses_restored(run, "check") else trained_models(run):
        for group, files in _training_data(run, model).items():
            inputs[group] = [*inputs.get(group, []), *files]
    inputs["sessions"] = [run.paths.evaluation_sessions(key) for key in run.config.benchmarks]
    study = shared_t1_run(run)
    shared = {SHARED_T1_STUDY: [study.paths.responses(*job) for job in evaluated(study)]} if run.config.controls else {}
    return inputs | {"responses": [run.paths.responses(*job) for job in evaluated(run)], **shared}


def _shown(run: Run, places: Iterable[Place]) -> Inputs:
    places = list(places)
    benchmarks = [key for key in run.config.benchmarks if key in {place.benchmark for place in places}]
    return {
        "sessions": [run.paths.evaluation_sessions(key) for key in benchmarks],
        "rows": [run.paths.evaluation(*place) for place in places],
        "checks": [run.paths.checks],
    }


def _table_from(run: Run, table: str) -> Inputs:
    if table in run_tables(run.config):
        return _run_table_from(run, table)
    if (shared := shared_t1_tables(run.config)) and table in shared:
        study = shared_t1_run(run)
        return _shown(study, shared[table](study.config, evaluated_places(study.config)))
    return _shown(run, tables_of(run.config)[table](run.config, evaluated_places(run.config)))


def _run_table_from(run: Run, table: str) -> Inputs:
    if table == CONTROLLER_TABLE:
        return _diagram_from(run, table)
    if table == DECODING_TABLE:
        return {}
    design = [file for job in replayed_models(run) for file in OUTPUTS["replay_design"].files(run, *job)]
    times = [run.paths.runtime(model) for (model,) in timed_models(run)]
    statistics = _statistics_of(run, analyzed_models(run.config), REPLAY_PARTS)
    shown = {"design": design, "statistics": statistics, "runtime": times}
    names = {"replay_design": ("design",), "bank_runtime": ("runtime",)}.get(table, tuple(shown))
    inputs = {name: shown[name] for name in names if shown[name]}
    return inputs | (_text_from(run) if table == TEXT_TABLE else {})


def _text_from(run: Run) -> Inputs:
    """What the numbers of the text on training, gains and banks are made from."""
    study = shared_t1_run(run)
    banks = _shown(study, bank_lengths(study.config)) if run.config.controls is not None else {}
    controllers, kinds = run.config.controllers, ("stair", "lora")
    trained = [job for job in OUTPUTS["controller"].jobs(run) if controllers[job[1]].kind in kinds]
    return {
        "cleaning": [run.paths.cleaning(model) for (model,) in OUTPUTS["training_pool"].jobs(run)],
        "controllers": [file for job in trained for file in OUTPUTS["controller"].files(run, *job)],
        "gains": [run.paths.table(GAINS_FROM)] if GAINS_FROM in tables_of(run.config) else [],
        **banks,
    }


def _figure_from(run: Run, figure: str) -> Inputs:
    places = list(FIGURES[figure](run.config, evaluated_places(run.config)))
    parts = REPLAY_FIGURES.get(figure, ())
    # Figures of a replay alone wait for no check of responses.
    rows = {} if parts and not places else _shown(run, places)
    return rows | ({"replay": _statistics_of(run, analyzed_models(run.config)[:1], parts)} if parts else {})


def _statistics_of(run: Run, models: Iterable[str], parts: Iterable[str]) -> list[Path]:
    return [run.paths.replay_statistics(model, part) for model in models for part in parts]


def _diagram_from(run: Run, figure: str) -> Inputs:
    controller = stair_controller(run.config)
    if controller is None:
        return {}
    folders = [run.paths.controller(model, controller) for model in diagram_models(run.config)]
    inputs: Inputs = {"controllers": [folder / "controller.safetensors" for folder in folders]}
    return inputs | ({"curves": [folder / "curve.csv" for folder in folders]} if figure == TRAINING_SCOPE else {})


def _compared(run: Run) -> Inputs:
    """Every number that tables and figures report, and the scored rows behind the sampled ones.

    Training curves and diagrams report none that the paper prints.
    """
    without = ("training_figure", "diagram")
    targets = ("tables", "figures")
    reported = [output for output in OUTPUTS.values() if output.target in targets and output.name not in without]
    files = [file for output in reported for job in output.jobs(run) for file in output.files(run, *job)]
    study = shared_t1_run(run)
    return {
        "values": [file for file in files if file.suffix == ".csv"],
        **_shown(run, evaluated_places(run.config)),
        SHARED_T1_STUDY: [study.paths.evaluation(*place) for place in evaluated_places(study.config)],
    }


def _reported(run: Run) -> Inputs:
    """What the report shows: every table and figure, the comparison, the claims, and the facts of the run."""
    targets = ("tables", "figures", "comparison", "claims", "provenance")
    parts: Inputs = {}
    for output in (output for output in OUTPUTS.values() if output.target in targets):
        files = [file for job in output.jobs(run) for file in output.files(run, *job)]
        shown = [file for file in files if file.suffix in _ON_PAGE[output.target or ""]]
        parts[output.target or ""] = [*parts.get(output.target or "", []), *shown]
    return parts


_ON_PAGE = {
    "tables": (".html",),
    "figures": (".png",),
    "comparison": (".csv",),
    "claims": (".csv",),
    "provenance": (".json",),
}
"""The forms of a target's files that the report shows."""


def _results(run: Run) -> Inputs:
    """The files of every job from which nothing else is made: the run is finished when they are."""
    # Responses and controllers are made with a small backbone, though its weights are no part of the lineage.
    outputs = [output for output in OUTPUTS.values() if output.name not in ("provenance", "report", "backbone")]
    jobs = [(output, job) for output in outputs for job in output.jobs(run)]
    used = {file for output, job in jobs for group in output.made_from(run, *job).values() for file in group}
    last: Inputs = {}
    for output, job in jobs:
        files = output.files(run, *job)
        if output.target is not None and used.isdisjoint(files):
            last.setdefault(output.name, []).extend(files)
    return last


# ---------------------------------------------------------------- the table

_MEASURING = ("runtime", "tables", "figures", "provenance", "report")
"""The targets of a run that only measures."""


def _unless_only_measuring(output: OutputKind) -> OutputKind:
    """The entry, without jobs in a run that only measures where it belongs to another target."""
    if output.target in _MEASURING:
        return output
    jobs = output.jobs
    return replace(output, jobs=lambda run: [] if run.config.only_measures else jobs(run))


OUTPUTS: dict[str, OutputKind] = {
    output.name: _unless_only_measuring(output)
    for output in (
        OutputKind(
            "raw",
            rules=("raw",),
            wildcards=("name",),
            jobs=generated_sets,
            files=lambda run, name: [run.paths.dataset_file(run.config, name)],
            settings=lambda run, name: settings.raw(run.config, name),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "backbone",
            rules=("backbone",),
            target="backbones",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in used_models(run) if run.config.models[model].tiny is not None],
            files=lambda run, model: [run.paths.backbone(model) / name for name in BACKBONE_FILES],
            settings=lambda run, model: settings.backbone(run.config, model),
            manifest=lambda run, model: run.paths.backbone(model) / "manifest.json",
            restorable=True,
            work="backbone/{model}",
        ),
        OutputKind(
            "benchmark",
            rules=("benchmark",),
            target="data",
            wildcards=("benchmark",),
            jobs=needed_benchmarks,
            files=lambda run, benchmark: [run.paths.benchmark(benchmark)],
            made_from=lambda run, benchmark: {"source": [run.paths.dataset_file(run.config, benchmark)]},
            settings=lambda run, benchmark: settings.benchmark(run.config, benchmark),
            schema=schemas.BENCHMARK,
            restorable=True,
        ),
        OutputKind(
            "evaluation_sessions",
            rules=("evaluation_sessions",),
            target="sessions",
            wildcards=("benchmark",),
            jobs=lambda run: [(key,) for key in run.config.benchmarks],
            files=lambda run, benchmark: [run.paths.evaluation_sessions(benchmark)],
            made_from=lambda run, benchmark: {"benchmark": [run.paths.benchmark(benchmark)]},
            settings=lambda run, benchmark: settings.sessions(run.config),
            schema=schemas.EVALUATION_SESSIONS,
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            "training_pool",
            rules=("training_pool",),
            target="data",
            wildcards=("model",),
            jobs=needed_pools,
            files=lambda run, model: [run.paths.training_pool(model), run.paths.cleaning(model)],
            made_from=_pool_from,
            settings=lambda run, model: settings.training_pool(run.config, model),
            schema=schemas.TRAINING_POOL,
            restorable=True,
            archived=True,
        ),
        OutputKind(
            "data_report",
            rules=("data_report",),
            target="data",
            jobs=lambda run: [()] if _has_all_data(run) else [],
            files=lambda run: [
                run.paths.data_report(".md"),
                run.paths.data_report(".json"),
                run.paths.data_counts,
                run.paths.near_duplicates,
            ],
            made_from=_report_from,
            settings=lambda run: settings.data_report(run.config),
            manifest=lambda run: manifest_beside(run.paths.data_report(".md")),
        ),
        OutputKind(
            "preflight",
            rules=("preflight_model",),
            target="preflight",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in used_models(run)],
            files=lambda run, model: [run.paths.preflight(model)],
            settings=lambda run, model: settings.preflight(run.config, model),
            uses_model=True,
        ),
        OutputKind(
            "preflight_limits",
            rules=("preflight_limits",),
            target="preflight",
            wildcards=("model", "prompts"),
            jobs=checked_prompts,
            files=lambda run, model, prompts: [run.paths.preflight_limits(model, prompts)],
            made_from=_limits_from,
            settings=lambda run, model, prompts: prompts_settings(run.config, model, prompts),
            uses_model=True,
        ),
        OutputKind(
            "rollouts",
            rules=("seal_rollouts",),
            target="rollouts",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in trained_models(run)],
            files=lambda run, model: [run.paths.rollouts(model)],
            made_from=lambda run, model: {"pool": [run.paths.training_pool(model)]},
            settings=lambda run, model: settings.rollouts(run.config, model),
            schema=schemas.ROLLOUTS,
            constant=("model",),
            uses_model=True,
            restorable=True,
            work="rollouts/{model}",
            shards=Shards("rollout_shard", lambda run, model: run.config.rollouts.shards),
        ),
        OutputKind(
            "training_sessions",
            rules=("training_sessions",),
            target="sessions",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in trained_models(run)],
            files=lambda run, model: [
                run.paths.training_sessions(model),
                run.paths.validation_sessions(model),
                run.paths.dropped_records(model),
            ],
            made_from=_pool_and_rollouts,
            settings=lambda run, model: settings.sessions(run.config),
            schema=schemas.TRAINING_SESSIONS,
        ),
        OutputKind(
            "data_card",
            rules=("data_card",),
            target="rollouts",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in trained_models(run)],
            files=lambda run, model: [run.paths.data_card(model)],
            made_from=_pool_and_rollouts,
            settings=lambda run, model: settings.data_card(run.config, model),
        ),
        OutputKind(
            "controller",
            rules=("train_controller", "train_lora", "train_lora_stair"),
            target="training",
            wildcards=("model", "controller"),
            jobs=lambda run: [(model, key) for key in run.config.controllers for model in run.config.trained(key)],
            # A pattern has no kind of its own: the rules name it.
            files=lambda run, model, controller, kind=None: [
                run.paths.controller(model, controller) / name
                for name in CONTROLLER_FILES[kind or run.config.controllers[controller].kind]
            ],
            made_from=_training_data,
            settings=lambda run, model, controller: settings.training(run.config, model, controller),
            manifest=lambda run, model, controller: run.paths.controller(model, controller) / "manifest.json",
            uses_model=True,
            restorable=True,
            restorable_alone=True,
            work="training/{model}/{controller}",
            archived=True,
        ),
        OutputKind(
            "responses",
            rules=("seal_evaluation",),
            target="evaluation",
            wildcards=("model", "benchmark", "condition"),
            jobs=answered,
            files=lambda run, model, benchmark, condition: [run.paths.responses(model, benchmark, condition)],
            made_from=_responses_from,
            settings=lambda run, model, benchmark, condition: settings.evaluation(
                run.config, model, benchmark, condition
            ),
            schema=schemas.RESPONSES,
            constant=("model", "benchmark", "condition"),
            uses_model=True,
            restorable=True,
            work="evaluation/{model}/{benchmark}/{condition}",
            shards=Shards("evaluation_shard", lambda run, model, benchmark, condition: run.config.shards_of(condition)),
        ),
        OutputKind(
            "scores",
            rules=("score_condition",),
            target="scores",
            wildcards=("model", "benchmark", "condition"),
            jobs=evaluated,
            files=lambda run, model, benchmark, condition: [run.paths.evaluation(model, benchmark, condition)],
            made_from=lambda run, model, benchmark, condition: {
                "responses": [run.paths.responses(model, benchmark, condition)],
                "benchmark": [run.paths.benchmark(benchmark)],
            },
            settings=lambda run, model, benchmark, condition: settings.scores(run.config, benchmark),
            schema=schemas.SCORED,
            constant=("model", "benchmark", "condition"),
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            SHARED_T1_STUDY,
            rules=("seal_controls",),
            target="controls",
            wildcards=("model", "benchmark", "condition"),
            jobs=answered_shared_t1,
            files=lambda run, model, benchmark, condition: [run.paths.shared_t1.responses(model, benchmark, condition)],
            made_from=lambda run, *job: _responses_from(shared_t1_run(run), *job),
            settings=lambda run, model, benchmark, condition: settings.controls(
                run.config, model, benchmark, condition
            ),
            schema=schemas.RESPONSES,
            constant=("model", "benchmark", "condition"),
            uses_model=True,
            restorable=True,
            work="controls/{model}/{benchmark}/{condition}",
            shards=Shards(
                "controls_shard",
                lambda run, model, benchmark, condition: run.config.shared_t1().shards_of(condition),
            ),
        ),
        OutputKind(
            "shared_t1_scores",
            rules=("score_controls",),
            target="scores",
            wildcards=("model", "benchmark", "condition"),
            jobs=lambda run: evaluated(shared_t1_run(run)),
            files=lambda run, model, benchmark, condition: [
                run.paths.shared_t1.evaluation(model, benchmark, condition)
            ],
            made_from=lambda run, model, benchmark, condition: {
                "responses": [run.paths.shared_t1.responses(model, benchmark, condition)],
                "benchmark": [run.paths.benchmark(benchmark)],
            },
            settings=lambda run, model, benchmark, condition: settings.scores(run.config, benchmark),
            schema=schemas.SCORED,
            constant=("model", "benchmark", "condition"),
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            "response_card",
            rules=("response_card",),
            target="evaluation",
            wildcards=("model",),
            jobs=carded_models,
            files=lambda run, model: [run.paths.response_card(model)],
            made_from=lambda run, model: {
                "responses": [run.paths.responses(*job) for job in _of(model, evaluated(run))]
            },
            settings=lambda run, model: settings.response_card(run.config, model),
        ),
        OutputKind(
            "replay_design",
            rules=("replay_design",),
            target="replay",
            wildcards=("model",),
            jobs=replayed_models,
            files=lambda run, model: [run.paths.replay_problems(model), run.paths.replay_histories(model)],
            made_from=_design_from,
            settings=lambda run, model: settings.replay_design(run.config, model),
            uses_model=True,
            restorable=True,
            restorable_alone=True,
            archived=True,
        ),
        OutputKind(
            "replay",
            rules=("seal_replay",),
            target="replay",
            wildcards=("model",),
            jobs=measured_models,
            files=lambda run, model: [run.paths.replay_cells(model)],
            made_from=lambda run, model: {
                **_design_from(run, model),
                "design": [run.paths.replay_problems(model), run.paths.replay_histories(model)],
            },
            settings=lambda run, model: settings.replay(run.config, model),
            schema=schemas.REPLAY_CELLS,
            uses_model=True,
            work="replay/{model}",
            shards=Shards("replay_shard", lambda run, model: _replay(run).shards),
        ),
        OutputKind(
            "replay_statistics",
            rules=("replay_statistics",),
            target="replay",
            wildcards=("model", "part"),
            jobs=lambda run: [(model, part) for model in analyzed_models(run.config) for part in REPLAY_PARTS],
            files=lambda run, model, part: [run.paths.replay_statistics(model, part)],
            made_from=lambda run, model, part: {
                "cells": [run.paths.replay_cells(model)],
                "histories": [run.paths.replay_histories(model)],
            },
            settings=lambda run, model, part: settings.replay_statistics(run.config, part),
            schema=schemas.REPLAY_STATISTICS,
            restorable=True,
            restorable_alone=True,
            archived=True,
        ),
        OutputKind(
            "runtime",
            rules=("measure_runtime",),
            target="runtime",
            wildcards=("model",),
            jobs=timed_models,
            files=lambda run, model: [run.paths.runtime(model)],
            made_from=_runtime_from,
            settings=lambda run, model: settings.runtime(run.config, model),
            uses_model=True,
            restorable=True,
            random_weights=lambda run: _runtime(run).synthetic is not None,
            work="runtime/{model}",
            restorable_alone=True,
            archived=True,
        ),
        OutputKind(
            "check",
            rules=("check",),
            target="check",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.checks],
            made_from=_checked,
            settings=lambda run: settings.checks(run.config),
            stage_writes_manifest=False,
            restorable=True,
            restorable_alone=True,
            only_without_inputs=True,
            archived=True,
        ),
        OutputKind(
            "table",
            rules=("table",),
            target="tables",
            wildcards=("table",),
            jobs=lambda run: [
                (name,) for name in (*tables_of(run.config), *shared_t1_tables(run.config), *run_tables(run.config))
            ],
            files=lambda run, table: [run.paths.table(table, suffix) for suffix in TABLE_SUFFIXES],
            made_from=_table_from,
            settings=lambda run, table: settings.table(run.config, table),
            manifest=lambda run, table: run.paths.table(table, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "training_figure",
            rules=("training_figure",),
            target="figures",
            wildcards=("figure",),
            jobs=lambda run: [(name,) for name in drawn_curves(run)],
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=lambda run, figure: {
                "curves": list(run.paths.curves(run.config, figure.removeprefix(TRAINING_FIGURE)).values())
            },
            settings=lambda run, figure: settings.training_figure(run.config, figure.removeprefix(TRAINING_FIGURE)),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "bank_cost_figure",
            rules=("bank_cost_figure",),
            target="figures",
            wildcards=("figure",),
            jobs=drawn_costs,
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=lambda run, figure: {"runtime": [run.paths.runtime(figure.removeprefix(BANK_COST_FIGURE))]},
            settings=lambda run, figure: settings.runtime_figure(run.config, figure.removeprefix(BANK_COST_FIGURE)),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "diagram",
            rules=("diagram",),
            target="figures",
            wildcards=("figure",),
            jobs=lambda run: [(name,) for name in DIAGRAMS if diagram_models(run.config)],
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=_diagram_from,
            settings=lambda run, figure: settings.diagram(run.config, figure),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "figure",
            rules=("figure",),
            target="figures",
            wildcards=("figure",),
            jobs=lambda run: [(name,) for name in figures_of(run.config)],
            files=lambda run, figure: [run.paths.figure(figure, suffix) for suffix in FIGURE_SUFFIXES],
            made_from=_figure_from,
            settings=lambda run, figure: settings.figure(run.config, figure),
            manifest=lambda run, figure: run.paths.figure(figure, ".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "comparison",
            rules=("comparison",),
            target="comparison",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.comparison(".csv"), run.paths.comparison(".md")],
            made_from=_compared,
            settings=lambda run: settings.comparison(run.config),
            manifest=lambda run: run.paths.comparison(".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "claims",
            rules=("claims",),
            target="claims",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.claims(".csv"), run.paths.claims(".md")],
            made_from=_compared,
            settings=lambda run: settings.claims(run.config),
            manifest=lambda run: run.paths.claims(".manifest.json"),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "provenance",
            rules=("provenance",),
            target="provenance",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.provenance],
            made_from=_results,
            settings=lambda run: settings.provenance(run.config),
            stage_writes_manifest=False,
        ),
        OutputKind(
            "report",
            rules=("report",),
            target="report",
            jobs=lambda run: [()],
            files=lambda run: [run.paths.report],
            made_from=_reported,
            settings=lambda run: settings.report(run.config),
            stage_writes_manifest=False,
        ),
    )
}
