"""What builders get, from rows or numbers in memory."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.paper.exhibits import exhibits, tables_of_rows
from stair.paper.figures.figure import Figure
from stair.paper.labels import Labels
from stair.paper.make import at_places, places_of
from stair.paper.source import Source
from stair.paper.tables.table import Table
from stair.statistics.grid import Responses

ROOT = Path(__file__).parents[2]
NOWHERE = RunPaths(Path("nowhere"))


@cache
def paper_config() -> Config:
    """The paper's configuration."""
    return resolve(ROOT, {"run": "paper"})


def source_of(table: str, frame: pd.DataFrame, labels: Labels, config: Config | None = None) -> Source:
    """What a table of these rows gets: those that it shows."""
    config = config or paper_config()
    responses = Responses.from_frame(frame)
    places = places_of(responses)
    exhibit = next(each for each in tables_of_rows(config, places) if each.name == table)
    assert exhibit.rows is not None
    source = Source(exhibit, config, NOWHERE, labels, responses, frame)
    return at_places(source, list(exhibit.rows(config, places)))


def table_of(table: str, frame: pd.DataFrame, labels: Labels, config: Config | None = None) -> Table | None:
    """A table of these rows."""
    source = source_of(table, frame, labels, config)
    made: Table | None = source.exhibit.builder(source)
    return made


def figure_of(
    figure: str, config: Config, paths: RunPaths = NOWHERE, responses: Responses | None = None, **known: Any
) -> Figure:
    """A figure of a run; `known` are the cached properties of its source."""
    exhibit = next(each for each in exhibits(config) if each.name == figure)
    source = Source(exhibit, config, paths, Labels.of(config).drawn(), responses or Responses({}, 4, {}))
    vars(source).update(known)
    made: Figure = exhibit.builder(source)
    return made
