"""Makes the tables and figures of a run, or the tables of a folder of scored rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import run_around
from stair.core import EVALUATION, SHARED_T1, Place
from stair.paper.exhibits import Exhibit, named, tables_of_rows
from stair.paper.figures.figure import Figure
from stair.paper.figures.figure import write as write_drawing
from stair.paper.html_table import html_table
from stair.paper.labels import Labels
from stair.paper.latex import latex
from stair.paper.layout import markdown
from stair.paper.scored_rows import find_rows, read_rows
from stair.paper.source import Source
from stair.paper.tables.run_notes import with_mixed_engines, with_time_outs
from stair.paper.tables.table import Table, gap_reasons, nothing
from stair.paper.tidy import tidy_csv
from stair.records.files import write_text
from stair.statistics.grid import Responses


def write_table(config: Config, paths: RunPaths, table: str) -> None:
    """Makes one table of a run: tables/NAME.csv, .md, .tex and .html. Prints why a number is not reported."""
    exhibit = named(config, "table", table)
    made = build_table(config, paths, table)
    write(made, Labels.of(config, exhibit.study), lambda suffix: exhibit.file(paths, suffix))
    print_gap_reasons([made])


def print_gap_reasons(tables: Sequence[Table]) -> None:
    for reason in dict.fromkeys(reason for table in tables for reason in gap_reasons(table.values)):
        print(f"not reported: {reason}", file=sys.stderr)


def write_figure(config: Config, paths: RunPaths, figure: str) -> None:
    """Draws one figure of a run: figures/NAME.pdf, .png and .csv."""
    drawn = build_figure(config, paths, figure)
    write_drawing(drawn, Labels.of(config), lambda suffix: paths.figure(figure, suffix))


def build_table(config: Config, paths: RunPaths, name: str) -> Table:
    """One table of a run; one of responses is empty, and says so, where the run has none of those that it shows."""
    source = Source.of_run(named(config, "table", name), config, paths)
    table: Table | None = source.exhibit.builder(source)
    if source.exhibit.rows is None:
        assert table is not None, "a table that shows no responses is never absent"
        return table
    if table is None:
        table = nothing(source)
    else:
        table = with_time_outs(table, source.rows)
    return with_mixed_engines(table, source.config, source.paths)


def build_figure(config: Config, paths: RunPaths, name: str) -> Figure:
    """One figure of a run."""
    source = Source.of_run(named(config, "figure", name), config, paths)
    figure: Figure = source.exhibit.builder(source)
    return figure


def tables_from(folder: Path, out: Path, order: Config) -> list[Table]:
    """Writes every table that the rows give to `out`.

    Args:
        folder: the rows; inside a run, the run's controllers say how many parameters were trained.
        out: where the tables go, made if absent.
        order: a configuration that names labels, orders and the pooled benchmarks; keys that it does not know label themselves.
    """
    written: list[Table] = []
    evaluation, shared = find_rows(folder)
    paths = RunPaths(run_around(folder) or folder)
    for study, files in ((EVALUATION, evaluation), (SHARED_T1, shared)):
        if not files:
            continue
        responses, rows = read_rows(files, order, study=study)
        places, labels = places_of(responses), Labels.of(order, study)
        for exhibit in (each for each in tables_of_rows(order, places) if each.study == study):
            assert exhibit.rows is not None
            source = Source(exhibit, order, paths, labels, responses, rows)
            source = at_places(source, list(exhibit.rows(order, places)))
            table: Table | None = exhibit.builder(source)
            if table is not None:
                table = with_time_outs(table, source.rows)
                write(table, labels, _in(out, exhibit))
                written.append(table)
    return written


def _in(folder: Path, exhibit: Exhibit) -> Callable[[str], Path]:
    return lambda suffix: folder / f"{exhibit.name}{suffix}"


def at_places(source: Source, places: Sequence[Place]) -> Source:
    """A source with the rows and grids of these places alone."""
    shown = set(places)
    grids = {key: grid for key, grid in source.responses.grids.items() if Place(*key[:3]) in shown}
    rows = source.rows[pd.MultiIndex.from_frame(source.rows[list(Place._fields)]).isin(shown)]
    return replace(source, responses=replace(source.responses, grids=grids), rows=rows)


def places_of(responses: Responses) -> list[Place]:
    """The places that have responses."""
    return list(dict.fromkeys(Place(*key[:3]) for key in responses.grids))


def write(table: Table, labels: Labels, path: Callable[[str], Path]) -> None:
    """Writes a table's four forms."""
    write_text(path(".csv"), tidy_csv(table.exhibit.artifact, table.values, labels, table.columns))
    write_text(path(".md"), markdown(table.layout))
    write_text(path(".tex"), latex(table.layout))
    write_text(path(".html"), html_table(table.layout))
