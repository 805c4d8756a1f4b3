"""Tables continuous_summary, turns_<model>, lora_comparison and lora_turns: Avg@k and Pass@k by condition and turn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from stair.paper.exhibits import LORA, MAIN
from stair.paper.labels import Labels
from stair.paper.layout import signed
from stair.paper.source import Source
from stair.paper.tables.table import (
    Column,
    Line,
    Table,
    benchmark_title,
    comparison_title,
    condition_line,
    of_rows,
    score,
    scores,
    whole,
)
from stair.statistics.grid import Gap, Responses, unique
from stair.statistics.metrics import MEAN, REFERENCE, gains, metric_names
from stair.statistics.values import Value

BASES = {"stair": "native", "lora_stair": "lora"}
"""What a gain is counted from."""


def summary(source: Source) -> Table | None:
    """Vanilla at T1, the others over T2 to T4, of every model and benchmark; None without their rows."""
    responses, labels = source.responses, source.labels
    benchmarks = unique(benchmark for _, benchmark in responses.pairs)
    present = {condition for pair in responses.pairs for condition in responses.conditions(*pair)}
    shown = [condition for condition in MAIN if condition in present]
    columns = [Column("Condition", align="l")]
    for benchmark in benchmarks:
        title = benchmark_title(labels, benchmark)
        for metric in metric_names(responses.samples):
            columns.append(Column(metric, (metric,), {"benchmark": benchmark}, over=title, align="c", rival=True))
    blocks = [
        (labels.printed_model(model), [_summary_line(labels, model, condition) for condition in shown])
        for model in responses.models
    ]
    values = scores(responses, blocks, columns)
    caption = (
        "Continuous reasoning results (%). Vanilla reports T1; Native and STAIR average T2--T4. Bold marks the better "
        "Native/STAIR score for each metric, including ties. Underlined STAIR scores exceed the corresponding Vanilla reference."
    )
    table = of_rows(source, caption, columns, blocks, values, benchmarks)
    return table if shown else None


def _summary_line(labels: Labels, model: str, condition: str) -> Line:
    reference = {"model": model, "condition": REFERENCE, "turn": "T1"}
    if condition == REFERENCE:
        return Line((labels.printed_condition(condition),), reference, shaded="vanillarow", rival=False)
    line = condition_line(labels, condition, model=model, turn=MEAN)
    return replace(line, exceeds=reference) if condition == "stair" else line


def turns(source: Source) -> Table | None:
    """One model's turns and their mean over its benchmarks; None where it has no rows."""
    responses, labels, model = source.responses, source.labels, source.exhibit.model
    columns, benchmarks = _turn_columns(responses, "T1", "T2", "T3", "T4", MEAN), responses.benchmarks(model)
    blocks = []
    for benchmark in benchmarks:
        shown = [condition for condition in MAIN if condition in responses.conditions(model, benchmark)]
        lines = _lines(labels, shown, ("stair",), model=model, benchmark=benchmark)
        # In the paper's tables by turn, the last block is followed by a space, too.
        blocks.append((benchmark_title(labels, benchmark), [*lines[:-1], replace(lines[-1], ruled=True)]))
    values = [
        value
        for value in scores(responses, blocks, columns)
        if value.turn == "T1" or max(responses.turns(model, value.benchmark, value.condition)) > 1
    ]
    caption = f"{labels.printed_model(model)}: results by turn (%). Mean averages T2--T4."
    table = of_rows(source, caption, columns, blocks, values, benchmarks)
    return table if blocks else None


def _turn_columns(responses: Responses, *turns: str) -> list[Column]:
    """A condition's name, and its metrics at each turn. T1 is shared, so nothing is bold there."""
    columns = [Column("Condition", align="l")]
    for turn in turns:
        for metric in metric_names(responses.samples):
            over = "Mean" if turn == MEAN else turn
            columns.append(Column(metric, (metric,), {"turn": turn}, over=over, rival=turn != "T1"))
    return columns


def _lines(labels: Labels, conditions: Iterable[str], ours: Iterable[str], **place: str) -> list[Line]:
    return [condition_line(labels, condition, ours, **place) for condition in conditions]


# ---------------------------------------------------------------- LoRA


def lora_comparison(source: Source) -> Table | None:
    """Means over T2 to T4 with the gains, computed before rounding; None without LoRA's rows.

    Each pair of a model and a benchmark has its block.
    """
    responses, labels = source.responses, source.labels
    columns = [Column("Condition", align="l")]
    columns.append(Column("Trainable params", ("trainable parameters",), text=whole, align="c"))
    for metric in metric_names(responses.samples):
        columns.append(Column("Score", (metric,), over=metric, align="c", rival=True))
        columns.append(Column("Δ (pp)", (f"{metric} gain",), text=signed, over=metric, align="c", rival=True))
    pairs = _lora_pairs(responses)
    blocks = [
        # A rule is between the conditions without LoRA and those with it.
        (title, [replace(line, ruled=number == 1) for number, line in enumerate(lines)])
        for title, lines in _lora_blocks(labels, pairs, turn=MEAN)
    ]
    values = [value for pair in pairs for value in _compared(responses, *pair, source.trained)]
    several = len(pairs) > 1
    subject = "STAIR, LoRA and both trained jointly" if several else _subject(labels, pairs)
    caption = (
        f"{subject} (%). Scores average T2--T4. Δ is computed before rounding, relative to Native for STAIR and to LoRA for "
        f"LoRA + STAIR. Bold marks the highest score and gain for each metric{' in each block' if several else ''}, "
        "including ties."
    )
    benchmarks = [benchmark for _, benchmark in pairs]
    table = of_rows(source, caption, columns, blocks, values, benchmarks)
    return table if pairs else None


def lora_turns(source: Source) -> Table | None:
    """T2, T3, T4 and their mean, a block for each pair; None without LoRA's rows."""
    responses, labels = source.responses, source.labels
    pairs = _lora_pairs(responses)
    columns, blocks = _turn_columns(responses, "T2", "T3", "T4", MEAN), _lora_blocks(labels, pairs)
    values, several = scores(responses, blocks, columns), len(pairs) > 1
    subject = "Standalone" if several else f"{_subject(labels, pairs)}: standalone"
    caption = (
        f"{subject} and jointly trained adapters by turn (%). Mean averages T2--T4; bold marks the highest score in each "
        f"column{' of each block' if several else ''}, including ties."
    )
    benchmarks = [benchmark for _, benchmark in pairs]
    table = of_rows(source, caption, columns, blocks, values, benchmarks)
    return table if pairs else None


def _lora_pairs(responses: Responses) -> list[tuple[str, str]]:
    """The pairs of a model and a benchmark that have LoRA's rows."""
    return [pair for pair in responses.pairs if {"lora", "lora_stair"} & set(responses.conditions(*pair))]


def _subject(labels: Labels, pairs: Sequence[tuple[str, str]]) -> str:
    return comparison_title(labels, *pairs[0]) if pairs else ""


def _lora_blocks(labels: Labels, pairs: Sequence[tuple[str, str]], **place: str) -> list[tuple[str, list[Line]]]:
    return [
        (
            comparison_title(labels, model, benchmark) if len(pairs) > 1 else "",
            _lines(labels, LORA, BASES, model=model, benchmark=benchmark, **place),
        )
        for model, benchmark in pairs
    ]


def _compared(
    responses: Responses, model: str, benchmark: str, trained: Mapping[tuple[str, str], int | Gap]
) -> Iterator[Value]:
    """Parameters, means over T2 to T4 and gains of every condition on one model and benchmark."""
    for condition in LORA:
        place = {"model": model, "benchmark": benchmark, "condition": condition, "turn": MEAN}
        unknown = Gap(f"{model}, {condition}: response rows do not tell how many parameters were trained")
        count = trained.get((model, condition), 0 if condition == "native" else unknown)
        yield Value(model, benchmark, condition, MEAN, "", "trainable parameters", count, "")
        base = BASES.get(condition)
        added = gains(responses, condition, base, model=model, benchmark=benchmark) if base else []
        for metric in metric_names(responses.samples):
            yield score(responses, metric=metric, **place)
            yield from (gain for gain in added if gain.metric == f"{metric} gain")
