"""The stages tables and figures: from scored rows and other files of a run, or from a folder of scored rows alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.config.resolve import run_around
from stair.paper import table_inputs
from stair.paper.figures import bank_cost, method, training, training_scope
from stair.paper.figures.figure import Figure
from stair.paper.figures.figure import write as write_drawing
from stair.paper.html_table import html_table
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import markdown
from stair.paper.registry import FIGURES, RUN_TABLES, Source, table_builder
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.run_notes import with_answer_forms, with_mixed_engines, with_time_outs
from stair.paper.scored_rows import find_rows, read_rows
from stair.paper.table_inputs import (
    BANK_COST_FIGURE,
    DIAGRAMS,
    REPLAY_FIGURES,
    SHARED_T1,
    TRAINING_FIGURE,
    TRAINING_SCOPE,
    Place,
    Shows,
    analyzed_models,
    cost_figures,
    evaluated_places,
    every_table,
    figures_of,
    run_tables,
    shared_t1_tables,
    tables_of,
    training_figures,
)
from stair.paper.tables.table import Table, gap_reasons, nothing
from stair.paper.tidy import tidy_csv
from stair.records.files import write_text
from stair.records.manifest import manifest_path, recorded_fact
from stair.records.schemas import EVALUATION_SESSIONS
from stair.records.tables import read_table
from stair.statistics.context_sizes import context_sizes
from stair.statistics.grid import Gap, Responses


def write_table(config: Config, paths: RunPaths, table: str) -> None:
    """Makes one table of a run: tables/NAME.csv, .md, .tex and .html. Prints why a number is not reported."""
    made = build(config, paths, table)
    write(made, labels_of(config, table), lambda suffix: paths.table(table, suffix))
    print_gap_reasons([made])


def print_gap_reasons(tables: Sequence[Table]) -> None:
    for reason in dict.fromkeys(reason for table in tables for reason in gap_reasons(table.values)):
        print(f"not reported: {reason}", file=sys.stderr)


def write_figure(config: Config, paths: RunPaths, figure: str) -> None:
    """Draws one figure of a run: figures/NAME.pdf, .png and .csv."""
    if figure in DIAGRAMS:
        drawn = (training_scope if figure == TRAINING_SCOPE else method).of_run(config, paths)
    elif figure in training_figures(config):
        drawn = training.of_run(config, paths, figure.removeprefix(TRAINING_FIGURE))
    elif figure in cost_figures(config):
        drawn = bank_cost.of_run(config, paths, figure.removeprefix(BANK_COST_FIGURE))
    else:
        drawn = build_figure(config, paths, figure)
    write_drawing(drawn, Labels.of(config), lambda suffix: paths.figure(figure, suffix))


def labels_of(config: Config, name: str) -> Labels:
    """The labels of one table: those of the study with a shared T1 history where it shows that."""
    return Labels.of(config.shared_t1() if name in shared_t1_tables(config) else config)


def build(config: Config, paths: RunPaths, name: str) -> Table:
    """One table of a run; one of responses is empty, and says so, where the run has none of those that it shows."""
    if name in run_tables(config):
        return RUN_TABLES[name](config, paths, Labels.of(config))
    shows = _known(name, {**tables_of(config), **shared_t1_tables(config)}, every_table(config), "table")
    if name in shared_t1_tables(config):
        config, paths = shared_t1(config, paths)
    source = _source(config, paths, shows)
    table = table_builder(name)(source) or nothing(name, source.labels)
    if name == "intervals":
        table = with_answer_forms(table, config, paths)
    return with_mixed_engines(with_time_outs(table, source.rows), config, paths)


def build_figure(config: Config, paths: RunPaths, name: str) -> Figure:
    """One figure of a run that is drawn from scored rows or from an analyzed replay, those that it shows."""
    shows = _known(name, table_inputs.FIGURES, figures_of(config), "figure")
    source = _source(config, paths, shows)
    source = replace(source, labels=source.labels.drawn())
    if parts := REPLAY_FIGURES.get(name):
        source = replace(source, replay=ReplayNumbers.of_run(config, paths, analyzed_models(config)[0], parts))
    elif len(source.rows):
        source = replace(source, sizes=tuple(context_sizes(source.rows)))
    return FIGURES[name](source)


def _known(name: str, shows: Mapping[str, Shows], names: Sequence[str], kind: str) -> Shows:
    if name not in names:
        raise ValueError(f"there is no {kind} '{name}' (there are: {', '.join(names)})")
    return shows[name]


def _source(config: Config, paths: RunPaths, shows: Shows) -> Source:
    """The scored rows of the places that a table or figure shows, as grids over its benchmarks' problems.

    Raises:
        ValueError: the protocol's checks have not passed on this data.
    """
    places = list(shows(config, evaluated_places(config)))
    if places and not paths.checks.is_file():
        raise ValueError(
            f"{paths.checks} does not exist: the protocol's checks have not passed; run: stair check --run {paths.folder}"
        )
    # Every problem opens one session of the schedule.
    problems = {
        benchmark: {row["problem_id"] for row in read_table(file, EVALUATION_SESSIONS, ["problem_id"])}
        for benchmark in dict.fromkeys(place.benchmark for place in places)
        if (file := paths.evaluation_sessions(benchmark))
    }
    responses, rows = read_rows([paths.scored(*place) for place in places], config, problems)
    return Source(responses, Labels.of(config), config, trained_parameters(config, paths), rows=rows)


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


def tables_from(folder: Path, out: Path, order: Config) -> list[Table]:
    """Writes every table that the rows give to `out`.

    Args:
        folder: the rows; inside a run, the run's controllers say how many parameters were trained.
        out: where the tables go, made if absent.
        order: a configuration that names labels, orders and the pooled benchmarks; keys that it does not know label themselves.
    """
    written: list[Table] = []
    evaluation, shared = find_rows(folder)
    studies = ((evaluation, order), (shared, order if order.controls is None else order.shared_t1()))
    for files, config in (study for study in studies if study[0]):
        responses, rows = read_rows(files, config)
        labels, trained = Labels.of(config), trained_parameters(config, RunPaths(run_around(folder) or folder))
        whole = Source(responses, labels, config, trained, rows=rows)
        shows = SHARED_T1 if files is shared else table_inputs.tables(config, places_of(responses), responses.models)
        for name in shows:
            table = table_builder(name)(whole if files is shared else assembled(whole, shows[name]))
            if table is not None:
                table = with_time_outs(table, rows)
                write(table, labels, lambda suffix, name=name: out / f"{name}{suffix}")  # type: ignore[misc]
                written.append(table)
    return written


def assembled(source: Source, shows: Shows) -> Source:
    """A source with the grids alone that a table shows."""
    shown = set(shows(source.config, places_of(source.responses)))
    grids = {key: grid for key, grid in source.responses.grids.items() if Place(*key[:3]) in shown}
    return replace(source, responses=replace(source.responses, grids=grids))


def places_of(responses: Responses) -> list[Place]:
    """The places that have responses."""
    return list(dict.fromkeys(Place(*key[:3]) for key in responses.grids))


def write(table: Table, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes a table's four forms."""
    write_text(path(".csv"), tidy_csv(table.artifact, table.values, labels, table.columns))
    write_text(path(".md"), markdown(table.layout))
    write_text(path(".tex"), latex(table.layout))
    write_text(path(".html"), html_table(table.layout))
