"""Table in_text: the numbers that the paper gives in its text, not in a table or figure."""

from __future__ import annotations

from collections.abc import Iterator

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.replay import REPLAY_PARTS
from stair.paper import paper_labels
from stair.paper.exhibits import GAINS_FROM, analyzed_models, diagram_models, stair_controller
from stair.paper.labels import Labels
from stair.paper.layout import DASH, MINUS, rounded, signed
from stair.paper.replay_numbers import ReplayNumbers
from stair.paper.source import Source
from stair.paper.tables import bank_runtime, replay_design, shared_t1
from stair.paper.tables.table import Block, Column, Line, Table, gap_reasons
from stair.paper.tidy import read_tidy
from stair.records.files import read_mapping
from stair.records.manifest import manifest_path, recorded_fact
from stair.statistics.grid import Gap
from stair.statistics.metrics import MEAN
from stair.statistics.values import Value


def build(source: Source) -> Table:
    """Every number of the text that the run has; in the CSV each under the part of the paper that prints it."""
    config, paths, labels = source.config, source.paths, source.labels
    values: list[Value] = []
    if config.replay is not None:
        values += replay_design.in_text(config, paths)
    for model in analyzed_models(config):
        files = [paths.replay_statistics(model, part) for part in REPLAY_PARTS]
        values += ReplayNumbers.of_files(config, model, files).printed()
    if config.runtime is not None:
        values += bank_runtime.in_text(config, paths)
    values += training_numbers(config, paths)
    values += gains(config, paths, labels)
    if config.controls is not None:
        values += shared_t1.in_text(config, paths, labels)
    groups: dict[tuple[str, str], list[Value]] = {}
    for value in values:
        groups.setdefault((paper_labels.printed_at(value.artifact), value.model), []).append(value)
    blocks: list[Block] = []
    for (part, model), numbers in groups.items():
        benchmarks = list(dict.fromkeys(value.benchmark for value in numbers))
        of = (labels.printed_model(model), *([labels.benchmark(benchmarks[0])] if len(benchmarks) == 1 else []))
        title = f"{part[:1].upper()}{part[1:]}: {', '.join(filter(None, of))}"
        lines = []
        for value in numbers:
            benchmark = labels.benchmark(value.benchmark) if len(benchmarks) > 1 else ""
            where = (benchmark, labels.condition(value.condition), value.turn, value.group)
            lines.append(Line((value.metric, ", ".join(filter(None, where)), _text(value))))
        blocks.append((title, lines))
    columns = [Column("Number", align="l"), Column("Where", align="l"), Column("Value")]
    caption = "Numbers that the paper gives in its text and as marks of its figures, by the part that gives them."
    below = (*(f"Not reported: {reason}." for reason in gap_reasons(values)), *labels.notes)
    return Table.of(source.exhibit, caption, columns, blocks, values, below, more=("low", "high"))


def _text(value: Value) -> str:
    if isinstance(value.value, Gap):
        return DASH
    if isinstance(value.value, int) or abs(value.value) >= 1000.0:
        number = f"{value.value:,.0f}"
    elif value.unit in ("%", "pp"):
        number = (signed if value.unit == "pp" else rounded)(value.value)
    else:
        number = f"{value.value:.3g}"
    return f"{number.replace('-', MINUS)} {value.unit}".rstrip()


def training_numbers(config: Config, paths: RunPaths) -> Iterator[Value]:
    """Problems of each training pool, STAIR's updates, and how many times its parameters LoRA has."""
    for model in config.models:
        cleaning = paths.cleaning(model)
        counts = read_mapping(cleaning)["counts"] if cleaning.is_file() else {}
        for metric in ("training problems", "validation problems"):
            count = counts.get(metric.replace(" ", "_"), Gap(f"{model}: the run has no training problems"))
            yield Value(model, "", "", "", "", metric, count, "", paper_labels.POOL_TEXT)
    controller = stair_controller(config)
    adapters = [key for key, item in config.controllers.items() if item.kind == "lora"]
    for model in diagram_models(config):
        assert controller is not None, "no model has a diagram then"
        updates = _fact(paths, model, controller, "updates")
        yield Value(model, "", "", "", "", "optimizer updates", updates, "", paper_labels.TRAINING_TEXT)
        for adapter in adapters:
            if model in config.trained(adapter):
                stair, lora = (_fact(paths, model, key, "parameters") for key in (controller, adapter))
                metric = "LoRA parameters over STAIR parameters"
                yield Value(model, "", "", "", "", metric, lora / stair, "", paper_labels.TRAINING_TEXT)


def gains(config: Config, paths: RunPaths, labels: Labels) -> Iterator[Value]:
    """STAIR's Avg@k over T2 to T4 minus Native's, of every model and benchmark, from the unrounded CSV of both."""
    if not config.conditions:
        return
    metric = f"Avg@{config.evaluation.samples}"
    means = {
        (row["model"], row["benchmark"], row["condition"]): row["value"]
        for row in read_tidy(paths.table(GAINS_FROM))
        if (row["turn"], row["metric"]) == (MEAN, metric)
    }
    for model in config.models:
        for benchmark in config.benchmarks_of(model):
            place = (labels.model(model), labels.benchmark(benchmark))
            sides = [means.get((*place, labels.condition(key))) for key in ("stair", "native")]
            if None in sides:
                continue
            gain = (
                float(sides[0]) - float(sides[1])
                if sides[0] and sides[1]
                else Gap(f"{', '.join(place)}: a mean is missing")
            )
            yield Value(
                model, benchmark, "stair", MEAN, "", f"{metric} gain over Native", gain, "pp", paper_labels.GAINS_TEXT
            )


def _fact(paths: RunPaths, model: str, controller: str, key: str) -> int:
    """A number of a trained controller's manifest."""
    return int(recorded_fact(manifest_path(paths.controller(model, controller)), key))
