"""The tables stage: from scored rows to CSV, Markdown, LaTeX and HTML."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.paper import table_inputs
from stair.paper.answer_form_notes import with_answer_forms
from stair.paper.figures.figure import Figure
from stair.paper.html_table import html_table
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import markdown
from stair.paper.missing import missing_reasons
from stair.paper.registry import FIGURES, RUN_TABLES, Source, table_builder
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.table_inputs import (
    REPLAY_FIGURES,
    Place,
    analyzed_models,
    evaluated_places,
    figures_of,
    run_tables,
    shared_t1_tables,
    tables_of,
)
from stair.paper.tables.table import Table, nothing
from stair.paper.tidy import tidy_csv
from stair.records.files import write_text
from stair.records.manifest import manifest_path, recorded_fact
from stair.records.schemas import EVALUATION_SESSIONS
from stair.records.tables import read_table
from stair.sessions.invariants import MIXED, ONE_ENGINE
from stair.statistics.context_sizes import CONTEXT_COLUMNS, context_sizes
from stair.statistics.grid import COLUMNS, Gap, Responses


def scored_rows(paths: RunPaths, places: Sequence[Place], more: Sequence[str] = ()) -> pd.DataFrame:
    """The scored rows at some places of a run, in their order, with `more` columns than metrics need.

    Raises:
        ValueError: the protocol's checks have not passed on this data.
    """
    if not paths.checks.is_file():
        raise ValueError(
            f"{paths.checks} does not exist: the protocol's checks have not passed; run: stair check --run {paths.folder}"
        )
    columns = [*COLUMNS, "seed", "verdict", *more]
    frames = [pd.read_parquet(paths.scored(*place), columns=columns) for place in places]
    return pd.concat(frames or [pd.DataFrame(columns=columns)], ignore_index=True)


def _responses(config: Config, paths: RunPaths, places: Sequence[Place], rows: pd.DataFrame) -> Responses:
    """A run's scored rows as grids over its benchmarks' problems."""
    # Every problem opens one session of the schedule.
    problems = {
        benchmark: {row["problem_id"] for row in read_table(file, EVALUATION_SESSIONS, ["problem_id"])}
        for benchmark in dict.fromkeys(place.benchmark for place in places)
        if (file := paths.evaluation_sessions(benchmark))
    }
    files = [paths.scored(*place) for place in places]
    return Responses.from_frame(
        rows, problems=problems, samples=config.evaluation.samples, reasons=missing_reasons(files)
    )


def labels_of(config: Config, name: str) -> Labels:
    """The labels of one table: those of the study with a shared T1 history where it shows that."""
    return Labels.of(config.shared_t1() if name in shared_t1_tables(config) else config)


def build(config: Config, paths: RunPaths, name: str) -> Table:
    """One table of a run; one of responses is empty, and says so, where the run has none of those that it shows."""
    labels = Labels.of(config)
    if name in run_tables(config):
        return RUN_TABLES[name].build(config, paths, labels)
    if name in shared_t1_tables(config):
        return _build_shared_t1(*shared_t1(config, paths), name)
    places = list(_rows_shown(name, tables_of(config), config)(config, evaluated_places(config)))
    rows = scored_rows(paths, places)
    responses = _responses(config, paths, places, rows)
    table = assemble(name, responses, labels, config, trained_parameters(config, paths)) or nothing(name, labels)
    if name == "intervals":
        table = with_answer_forms(table, config, paths)
    return _with_mixed_engines(with_time_outs(table, rows), config, paths)


def _build_shared_t1(config: Config, paths: RunPaths, name: str) -> Table:
    """One table of the study with a shared T1 history; configuration and paths are the study's."""
    labels, shows = Labels.of(config), shared_t1_tables(config)[name]
    places = list(shows(config, evaluated_places(config)))
    rows = scored_rows(paths, places, ["bank_tokens"])
    source = Source(_responses(config, paths, places, rows), labels, config, rows=rows)
    table = table_builder(name).build(source) or nothing(name, labels)
    return _with_mixed_engines(with_time_outs(table, rows), config, paths)


def trained_parameters(config: Config, paths: RunPaths) -> dict[tuple[str, str], int | Gap]:
    """The parameters that each (model, condition) trained, from the controllers' manifests.

    Without a manifest, the count of a model that is not from the hub is a gap: it may have the key of a model of the
    paper, but not its shape.
    """
    counts: dict[tuple[str, str], int | Gap] = {}
    for condition, settings in config.conditions.items():
        if settings.controller is None:
            continue
        for model, backbone in config.models.items():
            path = manifest_path(paths.controller(model, settings.controller))
            if path.is_file():
                counts[model, condition] = int(recorded_fact(path, "parameters"))
            elif backbone.repository is None:
                counts[model, condition] = Gap(
                    f"{model}, {condition}: the controller has no manifest with its parameters"
                )
    return counts


def _with_mixed_engines(table: Table, config: Config, paths: RunPaths) -> Table:
    """The table with a note on every comparison whose conditions come from unequal engines, where that is allowed."""
    if not config.evaluation.allow_mixed_engines:
        return table
    checks = pd.read_csv(paths.checks, keep_default_na=False)
    mixed = checks[(checks["name"] == ONE_ENGINE) & checks["detail"].str.startswith(MIXED)]
    labels = Labels.of(config)
    lines = []
    for scope, detail in zip(mixed["scope"], mixed["detail"], strict=True):
        model, benchmark, *study = scope.split("/")
        if bool(study) != (paths.stage == "controls"):
            continue
        lines.append(
            f"{labels.model(model)} on {labels.benchmark(benchmark)}: conditions come from unequal engines "
            f"({detail.removeprefix(MIXED)})."
        )
    return replace(table, layout=replace(table.layout, notes=(*table.layout.notes, *lines)))


def with_time_outs(table: Table, rows: pd.DataFrame) -> Table:
    """The table with a note that counts the time-outs among the verdicts behind its own cells.

    `rows` are the scored rows. There is no note without a time-out, and none where a verdict of
    the table's rows is unknown.
    """
    if "verdict" not in rows.columns or not table.sources:
        return table
    grids = pd.MultiIndex.from_frame(rows[["model", "benchmark", "condition", "turn"]])
    verdicts = rows.loc[grids.isin(table.sources), "verdict"]
    count = int((verdicts == "timeout").sum())
    if verdicts.isna().any() or not count:
        return table
    note = (
        f"The comparison of answers timed out for {count:,} of this table's {len(verdicts):,} scored rows; "
        "a time-out counts as wrong."
    )
    return replace(table, layout=replace(table.layout, notes=(*table.layout.notes, note)))


def build_figure(config: Config, paths: RunPaths, name: str) -> Figure:
    """One figure of a run that is drawn from scored rows or from an analyzed replay, those that it shows."""
    known = figures_of(config)
    if name not in known:
        raise ValueError(f"there is no figure '{name}' (there are: {', '.join(known)})")
    places = list(table_inputs.FIGURES[name](config, evaluated_places(config)))
    source = Source(Responses({}, config.evaluation.samples, {}), Labels.of(config), config)
    if places:
        rows = scored_rows(paths, places, CONTEXT_COLUMNS)
        source = replace(source, responses=_responses(config, paths, places, rows), sizes=tuple(context_sizes(rows)))
    if parts := REPLAY_FIGURES.get(name):
        source = replace(source, replay=ReplayNumbers.of_run(config, paths, analyzed_models(config)[0], parts))
    return FIGURES[name].build(source)


def assemble(
    name: str,
    responses: Responses,
    labels: Labels,
    config: Config,
    trained: Mapping[tuple[str, str], int | Gap] | None = None,
) -> Table | None:
    """A table by its name; None where the rows do not give it. `trained`: parameters by (model, condition), where known."""
    places = places_of(responses)
    shows = table_inputs.tables(config, places, dict.fromkeys((*responses.models, *config.models)))
    shown = set(_rows_shown(name, shows, config)(config, places))
    grids = {key: grid for key, grid in responses.grids.items() if Place(*key[:3]) in shown}
    return table_builder(name).build(Source(replace(responses, grids=grids), labels, config, trained or {}))


def places_of(responses: Responses) -> list[Place]:
    """The places that have responses."""
    return list(dict.fromkeys(Place(*key[:3]) for key in responses.grids))


def _rows_shown(name: str, shows: Mapping[str, table_inputs.Shows], config: Config) -> table_inputs.Shows:
    if name not in shows:
        there = [*tables_of(config), *shared_t1_tables(config), *run_tables(config)]
        raise ValueError(f"there is no table '{name}' (there are: {', '.join(there)})")
    return shows[name]


def write(table: Table, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes a table's four forms."""
    write_text(path(".csv"), tidy_csv(table.artifact, table.values, labels, table.columns))
    write_text(path(".md"), markdown(table.layout))
    write_text(path(".tex"), latex(table.layout))
    write_text(path(".html"), html_table(table.layout))
