"""Table evaluation_decoding: how each model's answers are sampled, from the configuration of the run."""

from __future__ import annotations

from collections.abc import Mapping

from stair.paper.source import Source
from stair.paper.tables.table import Column, Line, Table
from stair.statistics.values import Value

_LIMIT = "output limit"
_TITLES = {
    "temperature": "Temp.",
    "top_p": "Top-𝑝",
    "top_k": "Top-𝑘",
    "presence_penalty": "Presence penalty",
    _LIMIT: "Output limit",
}


def build(source: Source) -> Table:
    """One row for each model; settings that its benchmarks change are listed in the benchmarks' order."""
    config, labels = source.config, source.labels
    values: list[Value] = []
    lines = []
    for model in config.models:
        sampling = {key: config.models[model].sampling_for(key).model_dump() for key in config.benchmarks_of(model)}
        cells = [labels.printed_model(model)]
        for metric in _TITLES:
            key = "max_new_tokens" if metric == _LIMIT else metric
            numbers = {benchmark: settings[key] for benchmark, settings in sampling.items()}
            values += _values(model, metric, numbers)
            cells.append(" / ".join(dict.fromkeys(_text(metric, number) for number in numbers.values())))
        lines.append(Line(tuple(cells)))
    columns = [Column(title, align=align) for title, align in zip(("Model", *_TITLES.values()), "lrrrrl", strict=True)]
    caption = "Recorded decoding settings. Output limits count newly generated tokens per problem."
    return Table.of(source.exhibit, caption, columns, [("", lines)], values, labels.notes)


def _values(model: str, metric: str, numbers: Mapping[str, float | int]) -> list[Value]:
    """One value for the model, or one for each benchmark: of output limits, and where benchmarks differ."""
    if metric != _LIMIT and len(set(numbers.values())) == 1:
        return [Value(model, "", "", "", "", metric, next(iter(numbers.values())), "")]
    unit = "tokens" if metric == _LIMIT else ""
    return [Value(model, benchmark, "", "", "", metric, number, unit) for benchmark, number in numbers.items()]


def _text(metric: str, number: float | int) -> str:
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:g}" if metric == "presence_penalty" else str(number)
