"""Notes below a run's tables: time-outs, unequal engines, and rules on an answer's form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import EVALUATION
from stair.paper.labels import Labels
from stair.paper.layout import rounded
from stair.paper.tables.table import Table, benchmark_title
from stair.records.files import read_mapping
from stair.records.manifest import manifest_path
from stair.sessions.invariants import MIXED, ONE_ENGINE

SEVERAL_BOXES = "responses that end with several adjacent boxes, of which the last one counts"
CHOICE_TEXT = "responses that accept_choice_text would add to the correct ones"


def with_notes(table: Table, *lines: str) -> Table:
    """The table with further notes."""
    return replace(table, layout=replace(table.layout, notes=(*table.layout.notes, *lines)))


def with_time_outs(table: Table, rows: pd.DataFrame) -> Table:
    """The table with a note that counts the time-outs among the verdicts of its scored rows.

    There is no note without a time-out, and none where a verdict of these rows is unknown.
    """
    if "verdict" not in rows.columns:
        return table
    verdicts = rows["verdict"]
    count = int((verdicts == "timeout").sum())
    if verdicts.isna().any() or not count:
        return table
    return with_notes(
        table,
        f"The comparison of answers timed out for {count:,} of this table's {len(verdicts):,} scored rows; "
        "a time-out counts as wrong.",
    )


def with_mixed_engines(table: Table, config: Config, paths: RunPaths) -> Table:
    """The table with a note on every comparison whose conditions come from unequal engines, where that is allowed."""
    if not config.evaluation.allow_mixed_engines:
        return table
    checks = pd.read_csv(paths.checks, keep_default_na=False)
    mixed = checks[(checks["name"] == ONE_ENGINE) & checks["detail"].str.startswith(MIXED)]
    labels = Labels.of(config)
    lines = []
    for scope, detail in zip(mixed["scope"], mixed["detail"], strict=True):
        model, benchmark, *study = scope.split("/")
        if (study or [EVALUATION]) == [table.exhibit.study]:
            place = f"{labels.model(model)} on {labels.benchmark(benchmark)}"
            lines.append(f"{place}: conditions come from unequal engines ({detail.removeprefix(MIXED)}).")
    return with_notes(table, *lines)


def with_answer_forms(table: Table, config: Config, paths: RunPaths) -> Table:
    """The table with the shares of responses that rules on the answer's form decide, from the scores' manifests."""
    labels = Labels.of(config)
    lines = []
    for model in config.models:
        for benchmark in config.benchmarks:
            counts = _answer_forms(config, paths, model, benchmark)
            for key, meaning in (("several_boxes", SEVERAL_BOXES), ("choice_text", CHOICE_TEXT)):
                shares = [
                    f"{labels.condition(condition)} {rounded(100.0 * forms[key] / forms['responses'])}%"
                    for condition, forms in counts.items()
                    if forms[key]
                ]
                if shares:
                    place = f"{labels.model(model)} on {benchmark_title(labels, benchmark)}"
                    lines.append(f"{place}: {meaning} (all turns): {', '.join(shares)}.")
    return with_notes(table, *lines)


def _answer_forms(config: Config, paths: RunPaths, model: str, benchmark: str) -> dict[str, Mapping[str, int]]:
    """The counts of each condition that has them."""
    counts = {}
    for condition in config.conditions:
        path = manifest_path(paths.scored(model, benchmark, condition))
        if (model, benchmark) in config.evaluated(condition) and path.is_file():
            manifest = read_mapping(path)
            if "answer_forms" in manifest:
                counts[condition] = manifest["answer_forms"] | {"responses": sum(manifest["verdicts"].values())}
    return counts
