"""Tables history-<model> and history-correctness-summary: accuracy by whether the session's first answer was correct."""

from __future__ import annotations

from stair.artifacts import mapping
from stair.artifacts.labels import Labels
from stair.artifacts.layout import DASH, Cell, Layout, Row, rounded
from stair.artifacts.tables.table import Table, benchmark_title, notes
from stair.scoring.conditioning import GROUPS, history_tables, pooled_history
from stair.scoring.grid import Gap, Responses
from stair.scoring.tidy import Value

REFERENCE = "vanilla"
COMPARED = ("native", "stair")


def build(responses: Responses, labels: Labels, model: str) -> Table | None:
    """One model's table over its benchmarks; None where no benchmark has all conditions."""
    values: list[Value] = []
    rows: list[Row] = []
    benchmarks = [b for b in responses.benchmarks(model) if _complete(responses, model, b)]
    for benchmark in benchmarks:
        of_benchmark = history_tables(responses, model, benchmark, conditions=COMPARED, reference=REFERENCE)
        values += of_benchmark
        rows.append(Row((Cell(benchmark_title(labels, benchmark)),), heading=True))
        numbers = {(v.turn, v.group, v.condition, v.metric): v.value for v in of_benchmark}
        for turn in ("T2", "T3", "T4"):
            for group in GROUPS:
                cells = [
                    Cell(turn),
                    Cell(group.removeprefix("T1 ").capitalize()),
                    Cell(_count(numbers[turn, group, "", "n"])),
                ]
                correct = {c: numbers[turn, group, c, "correct"] for c in (REFERENCE, *COMPARED)}
                best = max((n for c in COMPARED if not isinstance(n := correct[c], Gap)), default=None)
                for condition in (REFERENCE, *COMPARED):
                    accuracy = numbers[turn, group, condition, "accuracy"]
                    text = DASH if isinstance(accuracy, Gap) else f"{_count(correct[condition])} ({rounded(accuracy)})"
                    cells.append(Cell(text, bold=condition in COMPARED and text != DASH and correct[condition] == best))
                rows.append(Row(tuple(cells)))
    if not rows:
        return None
    artifact = mapping.history(model)
    caption = (
        f"{labels.model(model)}: current-answer correct counts and conditional accuracy (%) by actual T1 correctness. Bold "
        "compares Native and STAIR within each group, including ties."
    )
    columns = ("Turn", "T1 answer", "n", *(labels.condition(c) for c in (REFERENCE, *COMPARED)))
    header = (tuple((name, 1) for name in columns),)
    layout = Layout(artifact, caption, header, tuple(rows), notes(labels, values, benchmarks), left_columns=2)
    return Table(f"history_{model}", artifact, tuple(values), layout)


def build_pooled(responses: Responses, labels: Labels) -> Table | None:
    """The pooled comparison over T2 to T4, all models and the mathematical benchmarks."""
    mathematical = list(
        dict.fromkeys(b for m in responses.models for b in responses.benchmarks(m) if b in labels.mathematical)
    )
    complete = mathematical and all(_complete(responses, m, b) for m in responses.models for b in mathematical)
    if not complete:
        return None
    values = pooled_history(responses, mathematical, conditions=COMPARED, reference=REFERENCE)
    numbers = {(v.group, v.condition, v.metric): v.value for v in values}
    rows = []
    for group in GROUPS:
        accuracies = {c: numbers[group, c, "accuracy"] for c in (REFERENCE, *COMPARED)}
        best = max((a for c in COMPARED if not isinstance(a := accuracies[c], Gap)), default=None)
        cells = [Cell(group.removeprefix("T1 ").capitalize()), Cell(_count(numbers[group, "", "n"]))]
        cells += [Cell(rounded(a), bold=c in COMPARED and a == best) for c, a in accuracies.items()]
        rows.append(Row(tuple(cells)))
    header = (tuple((name, 1) for name in ("T1", "n", *(labels.condition(c) for c in (REFERENCE, *COMPARED)))),)
    number = {1: "one model", 2: "two models", 3: "three models"}.get(
        len(responses.models), f"{len(responses.models)} models"
    )
    caption = f"Accuracy (%) pooled over T2--T4 across {number} and the mathematical benchmarks; n counts responses."
    layout = Layout(mapping.POOLED, caption, header, tuple(rows), notes(labels, values, mathematical))
    return Table("history_correctness_summary", mapping.POOLED, tuple(values), layout)


def _complete(responses: Responses, model: str, benchmark: str) -> bool:
    return set(responses.conditions(model, benchmark)) >= {REFERENCE, *COMPARED}


def _count(value: float | Gap) -> str:
    return DASH if isinstance(value, Gap) else f"{int(value):,}"
