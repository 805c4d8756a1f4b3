"""Tables history_<model>, history_correctness_summary and native_accuracy: current answers by first ones."""

from __future__ import annotations

from stair.paper.exhibits import MAIN
from stair.paper.labels import Labels
from stair.paper.layout import rounded, signed
from stair.paper.source import Source
from stair.paper.tables.table import Column, Line, Table, benchmark_title, comparison_title, in_words, of_rows, whole
from stair.statistics.conditioning import CONDITIONS, GROUPS, history_tables, pooled_history
from stair.statistics.grid import Responses, unique
from stair.statistics.metrics import LATER_TURNS, MEAN, REFERENCE
from stair.statistics.transitions import TRANSITIONS, answer_transitions

_TURNS = [f"T{turn}" for turn in LATER_TURNS]


def history(source: Source) -> Table | None:
    """One model's accuracy by the session's first answer; None where no benchmark has all conditions."""
    responses, labels, model = source.responses, source.labels, source.exhibit.model
    benchmarks = [benchmark for benchmark in responses.benchmarks(model) if _complete(responses, model, benchmark)]
    values = [value for benchmark in benchmarks for value in history_tables(responses, model, benchmark)]
    places = [(turn, group) for turn in _TURNS for group in GROUPS]
    blocks = [
        (
            benchmark_title(labels, benchmark),
            [
                Line((turn, _answer(group)), {"model": model, "benchmark": benchmark, "turn": turn, "group": group})
                for turn, group in places
            ],
        )
        for benchmark in benchmarks
    ]
    columns = [Column("Turn", align="l"), Column("T1 answer", align="l"), *_columns(labels, "correct", "accuracy")]
    caption = (
        f"{labels.printed_model(model)}: current-answer correct counts and conditional accuracy (%) by actual T1 correctness. "
        "Bold compares Native and STAIR within each group, including ties."
    )
    table = of_rows(source, caption, columns, blocks, values, benchmarks, across=True)
    return table if blocks else None


def pooled(source: Source) -> Table | None:
    """The pooled comparison over T2 to T4, all models and the mathematical benchmarks."""
    responses, labels = source.responses, source.labels
    mathematical = unique(benchmark for _, benchmark in responses.pairs if benchmark in labels.mathematical)
    if not mathematical or not all(_complete(responses, m, b) for m in responses.models for b in mathematical):
        return None
    values = pooled_history(responses, mathematical)
    models, benchmarks = (
        f"{in_words(count)} {noun}{'s' if count > 1 else ''}"
        for count, noun in ((len(responses.models), "model"), (len(mathematical), "mathematical benchmark"))
    )
    caption = f"Accuracy (%) pooled over T2--T4 across {models} and {benchmarks}; 𝑛 counts responses."
    columns = [Column("T1", align="l"), *_columns(labels, "accuracy")]
    blocks = [("", [Line((_answer(group),), {"turn": MEAN, "group": group}) for group in GROUPS])]
    # No benchmark is named, so none carries the dagger that a note would explain.
    return of_rows(source, caption, columns, blocks, values, across=True)


def _columns(labels: Labels, *metrics: str) -> list[Column]:
    """The size of a group, and each condition's numbers."""
    columns = [Column("𝑛", ("n",), text=whole, align="c")]
    for condition in MAIN:
        name, rival = labels.printed_condition(condition), condition in CONDITIONS
        text, shade = _counts if len(metrics) > 1 else rounded, "stairrow" if condition == "stair" else None
        columns.append(Column(name, metrics, {"condition": condition}, text, align="c", rival=rival, shaded=shade))
    return columns


def _counts(correct: int, accuracy: float) -> str:
    return f"{whole(correct)} ({rounded(accuracy)})"


def _answer(group: str) -> str:
    return group.removeprefix("T1 ").capitalize()


def _complete(responses: Responses, model: str, benchmark: str) -> bool:
    return set(responses.conditions(model, benchmark)) >= set(MAIN)


def transitions(source: Source) -> Table | None:
    """How Native's answers change against Vanilla's T1; None where either has no rows."""
    responses, labels = source.responses, source.labels
    model, benchmark = source.config.transitions.model, source.config.transitions.benchmark
    if not {REFERENCE, "native"} <= set(responses.conditions(model, benchmark)):
        return None
    values = answer_transitions(responses, model, benchmark)
    place = {"model": model, "benchmark": benchmark, "condition": "native"}
    columns = [Column("Turn", align="l")]
    for name, *_ in TRANSITIONS:
        letters = name.replace("wrong", "W").replace("correct", "C")
        columns.append(Column(letters, (name,), text=whole))
    columns.append(Column("Net change", ("net change",), text=signed, align="l"))
    caption = (
        f"{comparison_title(labels, model, benchmark)}: answer transitions relative to Vanilla T1. C and W denote "
        "correct and wrong answers. Net changes are in percentage points."
    )
    blocks = [("", [Line((turn,), {**place, "turn": turn}) for turn in _TURNS])]
    return of_rows(source, caption, columns, blocks, values, [benchmark])
