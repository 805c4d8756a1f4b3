"""What outputs are made from, in groups of files: the functions `made_from` of the table that are longer than a line.

Each takes the run and a job's name. Some also take the table, because their files depend on the jobs that the run has.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stair.config.replay_analysis import REPLAY_PARTS
from stair.core import SHARED_T1_STUDY
from stair.graph.needed_jobs import replayed_models, timed_models
from stair.graph.output_kind import Inputs, Outputs
from stair.graph.run import Run
from stair.graph.table_inputs import (
    CONTROLLER_TABLE,
    DECODING_TABLE,
    FIGURES,
    GAINS_FROM,
    REPLAY_FIGURES,
    TEXT_TABLE,
    TRAINING_SCOPE,
    Place,
    analyzed_models,
    bank_lengths,
    diagram_models,
    evaluated_places,
    run_tables,
    shared_t1_tables,
    stair_controller,
    tables_of,
)

# ---------------------------------------------------------------- data sets and training


def _every_benchmark(run: Run) -> list[Path]:
    return [run.paths.benchmark(key) for key in run.config.benchmarks]


def training_pool(run: Run, model: str) -> Inputs:
    excluded = sorted(run.config.training_pool.excluded_for(model))
    return {
        "source": [run.paths.dataset_file(run.config, "training_pool")],
        "excluded": [run.paths.benchmark(key) for key in excluded],
    }


def data_report(run: Run) -> Inputs:
    return {
        "benchmarks": _every_benchmark(run),
        "pools": [run.paths.training_pool(model) for model in run.config.models],
        "cleaning": [run.paths.cleaning(model) for model in run.config.models],
    }


def preflight_limits(run: Run, model: str, prompts: str) -> Inputs:
    paths = run.paths
    problems = paths.training_pool(model) if prompts == "training_pool" else paths.benchmark(prompts)
    return {"preflight": [paths.preflight(model)], "problems": [problems]}


def pool_and_rollouts(run: Run, model: str) -> Inputs:
    return {"pool": [run.paths.training_pool(model)], "rollouts": [run.paths.rollouts(model)]}


def training_data(run: Run, model: str) -> Inputs:
    return {
        **pool_and_rollouts(run, model),
        "training": [run.paths.training_sessions(model)],
        "validation": [run.paths.validation_sessions(model)],
    }


# ---------------------------------------------------------------- responses, states and times


def responses(run: Run, model: str, benchmark: str, condition: str) -> Inputs:
    chosen, paths = run.config.conditions[condition], run.paths
    first, controller = chosen.first_turn, chosen.controller
    return {
        "benchmark": [paths.benchmark(benchmark)],
        "sessions": [paths.evaluation_sessions(benchmark)],
        "first_turns": [paths.responses(model, benchmark, first)] if first else [],
        "controller": paths.controller_weights(run.config, model, controller) if controller else [],
    }


def replay_design(run: Run, model: str) -> Inputs:
    replay, paths = run.replay, run.paths
    return {
        "benchmark": [paths.benchmark(replay.benchmark)],
        "sessions": [paths.evaluation_sessions(replay.benchmark)],
        "responses": [paths.responses(model, replay.benchmark, replay.condition)],
    }


def runtime(run: Run, model: str) -> Inputs:
    study, paths = run.runtime, run.paths
    if study.synthetic is not None:
        return {}
    return {
        "benchmark": [paths.benchmark(study.benchmark)],
        "sessions": [paths.evaluation_sessions(study.benchmark)],
        "responses": [paths.responses(model, study.benchmark, study.condition)],
        "controller": paths.controller_weights(run.config, model, study.controller),
    }


# ---------------------------------------------------------------- checks, tables and figures


def check(run: Run, trained: Iterable[str]) -> Inputs:
    inputs: Inputs = {"benchmarks": _every_benchmark(run)}
    for model in trained:
        for group, files in training_data(run, model).items():
            inputs[group] = [*inputs.get(group, []), *files]
    inputs["sessions"] = [run.paths.evaluation_sessions(key) for key in run.config.benchmarks]
    study = run.shared_t1
    shared = {SHARED_T1_STUDY: [study.paths.responses(*job) for job in study.evaluated]} if run.config.controls else {}
    return inputs | {"responses": [run.paths.responses(*job) for job in run.evaluated], **shared}


def _shown(run: Run, places: Iterable[Place]) -> Inputs:
    places = list(places)
    benchmarks = [key for key in run.config.benchmarks if key in {place.benchmark for place in places}]
    return {
        "sessions": [run.paths.evaluation_sessions(key) for key in benchmarks],
        "rows": [run.paths.evaluation(*place) for place in places],
        "checks": [run.paths.checks],
    }


def table(run: Run, outputs: Outputs, name: str) -> Inputs:
    if name in run_tables(run.config):
        return _run_table(run, outputs, name)
    if name in (shared := shared_t1_tables(run.config)):
        study = run.shared_t1
        return _shown(study, shared[name](study.config, evaluated_places(study.config)))
    return _shown(run, tables_of(run.config)[name](run.config, evaluated_places(run.config)))


def _run_table(run: Run, outputs: Outputs, name: str) -> Inputs:
    if name == CONTROLLER_TABLE:
        return diagram(run, name)
    if name == DECODING_TABLE:
        return {}
    design = [file for job in replayed_models(run) for file in outputs["replay_design"].files(run, *job)]
    times = [run.paths.runtime(model) for (model,) in timed_models(run)]
    statistics = _statistics_of(run, analyzed_models(run.config), REPLAY_PARTS)
    shown = {"design": design, "statistics": statistics, "runtime": times}
    groups = {"replay_design": ("design",), "bank_runtime": ("runtime",)}.get(name, tuple(shown))
    inputs = {group: shown[group] for group in groups if shown[group]}
    return inputs | (_text(run, outputs) if name == TEXT_TABLE else {})


def _text(run: Run, outputs: Outputs) -> Inputs:
    """What the numbers of the text on training, gains and banks are made from."""
    study = run.shared_t1
    banks = _shown(study, bank_lengths(study.config)) if run.config.controls is not None else {}
    controllers, kinds = run.config.controllers, ("stair", "lora")
    trained = [job for job in outputs["controller"].jobs(run) if controllers[job[1]].kind in kinds]
    return {
        "cleaning": [run.paths.cleaning(model) for (model,) in outputs["training_pool"].jobs(run)],
        "controllers": [file for job in trained for file in outputs["controller"].files(run, *job)],
        "gains": [run.paths.table(GAINS_FROM)] if GAINS_FROM in tables_of(run.config) else [],
        **banks,
    }


def figure(run: Run, name: str) -> Inputs:
    places = list(FIGURES[name](run.config, evaluated_places(run.config)))
    parts = REPLAY_FIGURES.get(name, ())
    # Figures of a replay alone wait for no check of responses.
    rows = {} if parts and not places else _shown(run, places)
    return rows | ({"replay": _statistics_of(run, analyzed_models(run.config)[:1], parts)} if parts else {})


def _statistics_of(run: Run, models: Iterable[str], parts: Iterable[str]) -> list[Path]:
    return [run.paths.replay_statistics(model, part) for model in models for part in parts]


def diagram(run: Run, name: str) -> Inputs:
    controller = stair_controller(run.config)
    if controller is None:
        return {}
    folders = [run.paths.controller(model, controller) for model in diagram_models(run.config)]
    inputs: Inputs = {"controllers": [folder / "controller.safetensors" for folder in folders]}
    return inputs | ({"curves": [folder / "curve.csv" for folder in folders]} if name == TRAINING_SCOPE else {})


# ---------------------------------------------------------------- the summaries of the run


def every_number(run: Run, outputs: Outputs) -> Inputs:
    """Every number that tables and figures report, and the scored rows behind the sampled ones.

    Training curves and diagrams report none that the paper prints.
    """
    reported = [output for output in outputs.values() if output.target in ("tables", "figures")]
    without, study = ("training_figure", "diagram"), run.shared_t1
    files = [file for output in reported if output.name not in without for file in output.every_file(run)]
    return {
        "values": [file for file in files if file.suffix == ".csv"],
        **_shown(run, evaluated_places(run.config)),
        SHARED_T1_STUDY: [study.paths.evaluation(*place) for place in evaluated_places(study.config)],
    }


_ON_PAGE = {"tables": ".html", "figures": ".png", "comparison": ".csv", "claims": ".csv", "provenance": ".json"}
"""The targets that the report shows, each with the form of its files that the page takes."""


def report(run: Run, outputs: Outputs) -> Inputs:
    """What the report shows: every table and figure, the comparison, the claims, and the facts of the run."""
    shown: Inputs = {}
    for output in outputs.values():
        if output.target in _ON_PAGE:
            files = (file for file in output.every_file(run) if file.suffix == _ON_PAGE[output.target])
            shown.setdefault(output.target, []).extend(files)
    return shown


def every_result(run: Run, outputs: Outputs) -> Inputs:
    """The files of every job from which nothing else is made: the run is finished when they are."""
    # Responses and controllers are made with a small backbone, though its weights are no part of the lineage.
    kinds = [output for output in outputs.values() if output.name not in ("provenance", "report", "backbone")]
    jobs = [(output, job) for output in kinds for job in output.jobs(run)]
    used = {file for output, job in jobs for group in output.made_from(run, *job).values() for file in group}
    last: Inputs = {}
    for output, job in jobs:
        files = output.files(run, *job)
        if output.target is not None and used.isdisjoint(files):
            last.setdefault(output.name, []).extend(files)
    return last
