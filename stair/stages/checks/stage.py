"""The checks stage: checks.csv has a line for every invariant of a run's data."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import EVALUATION, SECTIONS, SHARED_T1, condition_key
from stair.records.files import write_text
from stair.records.manifest import missing_responses
from stair.records.rows import BenchmarkProblem, Rollout, ScheduledTurn, SourceRecord, TrainingTurn
from stair.records.schemas import BENCHMARK, EVALUATION_SESSIONS, RESPONSES, ROLLOUTS, TRAINING_POOL, TRAINING_SESSIONS
from stair.records.tables import iterate_table, rows_as
from stair.sessions.check import Check, checks_csv
from stair.sessions.invariants import (
    Schedule,
    condition_checks,
    cut_trajectories,
    group_checks,
    kept,
    shared_t1_checks,
    shares,
    turns_of,
)
from stair.sessions.renderer import Renderer
from stair.stages.checks.data_checks import pool_checks, rollout_checks, schedule_checks, training_checks
from stair.stages.data.benchmarks import question
from stair.stages.data.problem_texts import identity
from stair.stages.sessions.training_sessions import complete_records


def evaluation_checks(config: Config, paths: RunPaths) -> list[Check]:
    """Schedules and responses of all models, benchmarks and conditions."""
    checks = []
    # Restored responses are checked without their model; their seal checked the captured spans, which need its markers.
    renderers = {
        key: Renderer.load(folder, thinking=model.thinking)
        for key, model in config.models.items()
        if (folder := paths.model_folder(config, key)).is_dir()
    }
    for benchmark in config.benchmarks:
        problems = [row.problem_id for row in rows_as(paths.benchmark(benchmark), BENCHMARK, BenchmarkProblem)]
        sessions = _frame(
            rows_as(paths.evaluation_sessions(benchmark), EVALUATION_SESSIONS, ScheduledTurn), ScheduledTurn
        )
        checks += schedule_checks(sessions, problems, benchmark)
        by_session = sessions.sort_values("turn").groupby("session_id").problem_id
        schedule = {str(session): [*asked] for session, asked in by_session}
        for model in config.models:
            for study in SECTIONS:
                checks += _response_checks(config, paths, model, benchmark, study, schedule, renderers.get(model))
    return checks


def _response_checks(
    config: Config,
    paths: RunPaths,
    model: str,
    benchmark: str,
    study: str,
    schedule: Schedule,
    renderer: Renderer | None,
) -> list[Check]:
    """The checks of a study's conditions of one model and benchmark."""
    checks: list[Check] = []
    conditions, scope = config.conditions_of(study), f"{model}/{benchmark}"
    if study != EVALUATION:
        scope += f"/{study}"
    frames = [turns_of([])]
    layers: dict[str, tuple[int, ...]] = {}
    for name, settings in conditions.items():
        condition = condition_key(study, name)
        if (model, benchmark) not in config.evaluated(condition):
            continue
        place, reads = f"{scope}/{name}", config.reads_bank(condition)
        if reads:
            assert settings.controller is not None
            layers[name] = config.controllers[settings.controller].controlled_layers
        path = paths.responses(model, benchmark, condition)
        cut, rows = cut_trajectories(missing_responses(path)), iterate_table(path, RESPONSES)
        frames.append(turns := turns_of(kept(row, renderer) for row in rows))
        samples, acts = config.evaluation.samples, config.acts(condition)
        checks += condition_checks(turns, settings, schedule, samples, place, reads=reads, acts=acts, cut=cut)
        checks += shares(turns, config.models[model].thinking, place)
    every = pd.concat(frames, ignore_index=True)
    if len(every) or study == EVALUATION:
        allow = config.evaluation.allow_mixed_engines
        checks += group_checks(every, conditions, scope, allow_mixed=allow)
    if len(every) and study == SHARED_T1:
        checks += shared_t1_checks(every, layers, scope)
    return checks


def session_checks(config: Config, paths: RunPaths, trained: Sequence[str]) -> list[Check]:
    """Training pools, training sessions and validation sessions of the models whose training data the run has."""
    identities = {
        key: {identity(question(row)) for row in rows_as(paths.benchmark(key), BENCHMARK, BenchmarkProblem)}
        for key in config.benchmarks
    }
    checks = []
    for model in trained:
        pool = _frame(rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord), SourceRecord)
        excluded = {key: identities[key] for key in config.training_pool.excluded_for(model)}
        checks += pool_checks(pool, excluded, f"{model}/training pool")
        split = dict(zip(pool.record_id, pool.split, strict=True))
        rollouts = [*rows_as(paths.rollouts(model), ROLLOUTS, Rollout)]
        checks += rollout_checks(_frame(rollouts, Rollout), pool, f"{model}/rollouts")
        complete, _ = complete_records(rollouts)
        for name, path in (("train", paths.training_sessions(model)), ("validation", paths.validation_sessions(model))):
            records = [record for record in complete if split.get(record) == name]
            turns = _frame(rows_as(path, TRAINING_SESSIONS, TrainingTurn), TrainingTurn)
            checks += training_checks(turns, records, pool, f"{model}/{name} sessions")
    return checks


def _frame(rows: Iterable[NamedTuple], row_type: type[NamedTuple]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=list(row_type._fields))


def run(config: Config, paths: RunPaths) -> None:
    """Check the invariants of a run's data: checks.csv. An unpacked archive's training data was checked before.

    Raises:
        ValueError: a check failed; the message names the first. checks.failed.csv then lists all, and there is no checks.csv.
    """
    trained = [model for model in config.models if paths.rollouts(model).is_file()]
    checks = [*session_checks(config, paths, trained), *evaluation_checks(config, paths)]
    failed = [check for check in checks if not check.passed]
    failures = paths.checks.with_name("checks.failed.csv")
    if failed:
        # Tables need passed checks: the list of an earlier pass must not vouch for this data.
        paths.checks.unlink(missing_ok=True)
        write_text(failures, checks_csv(checks))
        first = failed[0]
        raise ValueError(
            f"{len(failed)} of {len(checks)} checks failed, first: {first.name} ({first.scope}): {first.detail}; see {failures}"
        )
    write_text(paths.checks, checks_csv(checks))
    failures.unlink(missing_ok=True)


def show(config: Config, paths: RunPaths) -> None:
    """Prints how many checks hold."""
    with open(paths.checks, encoding="utf-8", newline="") as file:
        print(f"{sum(1 for _ in csv.DictReader(file))} checks hold: {paths.checks}")
