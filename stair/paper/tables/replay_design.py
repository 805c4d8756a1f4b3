"""Table replay_design: how large the replay's two coverages are, in both groups; and the numbers of the text on its histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.source import Source
from stair.paper.tables.table import Column, Line, Table, comparison_title, in_words, whole
from stair.records.rows import ReplayHistory
from stair.records.schemas import REPLAY_HISTORIES
from stair.records.tables import rows_as
from stair.stages.replay.design.crossed import Design
from stair.stages.replay.design.design_tables import read_design
from stair.stages.replay.design.printed_numbers import COVERAGES, length_numbers, table_numbers, text_numbers
from stair.statistics.values import Value

_METRICS = ("current problems", "histories", "sessions", "source problems")


def build(source: Source) -> Table:
    """The designs of all replayed models; without a heading where there is one model."""
    replay, labels = source.config.replay, source.labels
    assert replay is not None, "the graph asks for no replay table then"
    places = [(coverage, number) for coverage in COVERAGES.values() for number in ("1", "2")]
    values: list[Value] = []
    blocks = []
    for model in replay.models:
        values += table_numbers(_design(source.paths, model), model, replay.benchmark)
        place = {"model": model, "benchmark": replay.benchmark}
        lines = [Line(names, {**place, "condition": names[0], "group": f"group {names[1]}"}) for names in places]
        blocks.append((comparison_title(labels, model, replay.benchmark) if len(replay.models) > 1 else "", lines))
    columns = [Column("Design", align="l"), Column("Group", align="l")]
    columns += [Column(metric.capitalize(), (metric,), text=whole) for metric in _METRICS]
    caption = (
        "Balanced replay designs. Histories are sampled paths; sessions count distinct problem orders. Source problems count "
        f"distinct problems in the first {in_words(replay.depth)} turns."
    )
    return Table.of(source.exhibit, caption, columns, blocks, values, labels.notes)


def in_text(config: Config, paths: RunPaths) -> Iterator[Value]:
    """The numbers of appendix A.1's text: replays, references, source blocks, and lengths of histories in tokens."""
    assert config.replay is not None
    for model in config.replay.models:
        place = (model, config.replay.benchmark)
        histories = list(rows_as(paths.replay_histories(model), REPLAY_HISTORIES, ReplayHistory))
        for value in (*length_numbers(histories, *place), *text_numbers(_design(paths, model), *place)):
            yield replace(value, artifact=paper_labels.REPLAY_TEXT)


def _design(paths: RunPaths, model: str) -> Design:
    return read_design(paths.replay_histories(model), paths.replay_problems(model))
