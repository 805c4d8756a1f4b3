"""Tables history-<model> and history-correctness-summary: accuracy by whether the session's first answer was correct."""

from __future__ import annotations

from collections.abc import Mapping

from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, plain_header, rounded
from stair.paper.tables.table import (
    Table,
    benchmark_title,
    in_words,
    notes,
    reported,
    sources,
    stacked,
)
from stair.statistics.conditioning import CONDITIONS, GROUPS, history_tables, pooled_history
from stair.statistics.grid import Gap, Responses, TurnKey, unique
from stair.statistics.metrics import REFERENCE
from stair.statistics.values import Value


def build(responses: Responses, labels: Labels, model: str) -> Table | None:
    """One model's table over its benchmarks; None where no benchmark has all conditions."""
    values: list[Value] = []
    blocks: list[tuple[str, list[Row]]] = []
    benchmarks = [b for b in responses.benchmarks(model) if _complete(responses, model, b)]
    for benchmark in benchmarks:
        of_benchmark = history_tables(responses, model, benchmark)
        values += of_benchmark
        rows: list[Row] = []
        numbers = {(v.turn, v.group, v.condition, v.metric): v.value for v in of_benchmark}
        for turn in ("T2", "T3", "T4"):
            for group in GROUPS:
                cells = [
                    Cell(turn),
                    Cell(group.removeprefix("T1 ").capitalize()),
                    Cell(_count(numbers[turn, group, "", "n"])),
                ]
                correct = {c: numbers[turn, group, c, "correct"] for c in (REFERENCE, *CONDITIONS)}
                best = _best(correct)
                for condition in (REFERENCE, *CONDITIONS):
                    accuracy = numbers[turn, group, condition, "accuracy"]
                    text = DASH if isinstance(accuracy, Gap) else f"{_count(correct[condition])} ({rounded(accuracy)})"
                    bold = condition in CONDITIONS and text != DASH and correct[condition] == best
                    cells.append(Cell(text, bold=bold, shaded=_shade(condition)))
                rows.append(Row(tuple(cells)))
        blocks.append((benchmark_title(labels, benchmark), rows))
    if not blocks:
        return None
    artifact = paper_labels.history(model)
    caption = (
        f"{labels.printed_model(model)}: current-answer correct counts and conditional accuracy (%) by actual T1 correctness. "
        "Bold compares Native and STAIR within each group, including ties."
    )
    columns = ("Turn", "T1 answer", "𝑛", *(labels.printed_condition(c) for c in (REFERENCE, *CONDITIONS)))
    layout = Layout(
        artifact,
        caption,
        plain_header(*columns),
        stacked(blocks, "addlinespace"),
        notes(labels, responses, values, benchmarks),
        columns="llcccc",
        separation=6,
    )
    shows = sources(responses, lambda key: key.model == model and key.benchmark in benchmarks and _counted(key))
    return Table(f"history_{model}", artifact, tuple(values), layout, shows)


def build_pooled(responses: Responses, labels: Labels) -> Table | None:
    """The pooled comparison over T2 to T4, all models and the mathematical benchmarks."""
    mathematical = unique(benchmark for _, benchmark in responses.pairs if benchmark in labels.mathematical)
    complete = mathematical and all(_complete(responses, m, b) for m in responses.models for b in mathematical)
    if not complete:
        return None
    values = pooled_history(responses, mathematical)
    numbers = {(v.group, v.condition, v.metric): v.value for v in values}
    rows = []
    for group in GROUPS:
        accuracies = {c: numbers[group, c, "accuracy"] for c in (REFERENCE, *CONDITIONS)}
        best = _best(accuracies)
        cells = [Cell(group.removeprefix("T1 ").capitalize()), Cell(_count(numbers[group, "", "n"]))]
        cells += [Cell(rounded(a), bold=c in CONDITIONS and a == best, shaded=_shade(c)) for c, a in accuracies.items()]
        rows.append(Row(tuple(cells)))
    columns = ("T1", "𝑛", *(labels.printed_condition(c) for c in (REFERENCE, *CONDITIONS)))
    models, benchmarks = (
        f"{in_words(count)} {noun}{'s' if count > 1 else ''}"
        for count, noun in ((len(responses.models), "model"), (len(mathematical), "mathematical benchmark"))
    )
    # No benchmark is named, so none carries the dagger that a note would explain.
    layout = Layout(
        paper_labels.POOLED,
        f"Accuracy (%) pooled over T2--T4 across {models} and {benchmarks}; 𝑛 counts responses.",
        plain_header(*columns),
        tuple(rows),
        notes(labels, responses, values),
        columns="lcccc",
        separation=3,
    )
    shows = sources(responses, lambda key: key.benchmark in mathematical and _counted(key))
    return Table("history_correctness_summary", paper_labels.POOLED, tuple(values), layout, shows)


def _best(numbers: Mapping[str, float | Gap]) -> float | None:
    """The greater number of the compared conditions; None where one of them is a gap."""
    compared = [number for c in CONDITIONS if not isinstance(number := numbers[c], Gap)]
    return max(compared) if len(compared) == len(CONDITIONS) else None


def _shade(condition: str) -> str | None:
    return "stairrow" if condition == "stair" else None


def _counted(key: TurnKey) -> bool:
    return key.condition in (REFERENCE, *CONDITIONS) and reported(key)


def _complete(responses: Responses, model: str, benchmark: str) -> bool:
    return set(responses.conditions(model, benchmark)) >= {REFERENCE, *CONDITIONS}


def _count(value: float | Gap) -> str:
    return DASH if isinstance(value, Gap) else f"{int(value):,}"
