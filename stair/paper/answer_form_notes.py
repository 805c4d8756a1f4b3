"""Notes under the table of accuracies: how many responses the rules on the answer's form decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.labels import Labels
from stair.paper.layout import rounded
from stair.paper.tables.table import Table, benchmark_title
from stair.records.files import read_mapping
from stair.records.manifest import manifest_path

SEVERAL_BOXES = "responses that end with several adjacent boxes, of which the last one counts"
CHOICE_TEXT = "responses that accept_choice_text would add to the correct ones"


def with_answer_forms(table: Table, config: Config, paths: RunPaths) -> Table:
    """The table with a note for each model and benchmark, from the manifests of the scores; nothing is said of zero."""
    labels = Labels.of(config)
    lines = []
    for model in config.models:
        for benchmark in config.benchmarks:
            counts = _counts(config, paths, model, benchmark)
            for key, meaning in (("several_boxes", SEVERAL_BOXES), ("choice_text", CHOICE_TEXT)):
                shares = [
                    f"{labels.condition(condition)} {rounded(100.0 * forms[key] / forms['responses'])}%"
                    for condition, forms in counts.items()
                    if forms[key]
                ]
                if shares:
                    place = f"{labels.model(model)} on {benchmark_title(labels, benchmark)}"
                    lines.append(f"{place}: {meaning} (all turns): {', '.join(shares)}.")
    return replace(table, layout=replace(table.layout, notes=(*table.layout.notes, *lines)))


def _counts(config: Config, paths: RunPaths, model: str, benchmark: str) -> dict[str, Mapping[str, int]]:
    """The counts of each condition that has them."""
    counts = {}
    for condition in config.conditions:
        path = manifest_path(paths.scored(model, benchmark, condition))
        if (model, benchmark) in config.evaluated(condition) and path.is_file():
            manifest = read_mapping(path)
            if "answer_forms" in manifest:
                counts[condition] = manifest["answer_forms"] | {"responses": sum(manifest["verdicts"].values())}
    return counts
