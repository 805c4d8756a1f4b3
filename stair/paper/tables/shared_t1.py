"""Tables shared-t1 and bank-prefix-accuracy: conditions that share one T1 history, at T2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths, shared_t1
from stair.core import SEEDED
from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, plain_header, rounded, signed
from stair.paper.table_inputs import bank_lengths
from stair.paper.tables.table import (
    Table,
    benchmark_title,
    comparison_title,
    condition_row,
    in_words,
    notes,
    number_cells,
    sources,
    stacked,
)
from stair.statistics.grid import Gap, Responses
from stair.statistics.metrics import at_turn, metric_names
from stair.statistics.shared_t1_metrics import TURN, median_bank, shared_t1_metrics, truncated_banks
from stair.statistics.values import Value

SHOWN = ("native", "random_reflector", "direct_read", "bank_free", "kv_permutation", "stair")
_SEEDED = dict(zip(SEEDED, ("Random-reflector", "K--V pairing"), strict=True))


def studied(responses: Responses, labels: Labels) -> list[tuple[str, str]]:
    """The pairs of a model and a benchmark that have rows of any of the study's conditions."""
    return [
        pair
        for pair in responses.pairs
        if any(
            name.averaged in SHOWN or name.prefix is not None for name in map(labels.name, responses.conditions(*pair))
        )
    ]


def in_text(config: Config, paths: RunPaths, labels: Labels) -> Iterator[Value]:
    """The number that the text on the shared T1 gives (appendix C.4): each model's median bank length, in K tokens."""
    study, files = shared_t1(config, paths)
    for place in bank_lengths(study):
        rows = pd.read_parquet(files.scored(*place), columns=["model", "benchmark", "condition", "turn", "bank_tokens"])
        median = median_bank(rows, place.model, place.benchmark)
        metric = f"median bank length, shared-T1 {labels.benchmark(place.benchmark)}"
        thousands = median if isinstance(median, Gap) else median / 1000
        yield Value(place.model, "", "", "", "", metric, thousands, "K tokens", paper_labels.SHARED_T1_TEXT)


def build(responses: Responses, labels: Labels) -> Table | None:
    """The controls beside Native and STAIR; None where the study has no rows.

    Each pair of a model and a benchmark has its block. Native and STAIR stand in every block, as
    dashes where they have no rows.
    """
    values: list[Value] = []
    blocks: list[tuple[str, list[Row]]] = []
    pairs = studied(responses, labels)
    for pair in pairs:
        metrics = shared_t1_metrics(responses, *pair, seeds_of=labels.seeds, name_of=labels.name)
        of_pair = [value for condition in SHOWN for value in metrics if value.condition == condition]
        values += of_pair
        blocks.append((comparison_title(labels, *pair), _rows(of_pair, responses, labels)))
    if not pairs:
        return None
    average, passed = metric_names(responses.samples)
    header = plain_header("Condition", average, "Δ (pp)", passed)
    several = len(pairs) > 1
    model, benchmark = pairs[0]
    subject = f"{benchmark_title(labels, benchmark)} results for {labels.printed_model(model)}"
    counts = {len(responses.problems[name]) for _, name in pairs}
    problems = f"{counts.pop()} problems" if len(counts) == 1 else "their problems"
    seeded = {
        name: in_words(labels.seeds(condition))
        for condition, name in _SEEDED.items()
        if any(value.condition == condition for value in values)
    }
    seeds = f"{_averages(seeded)}; other conditions use one evaluation. " if seeded else ""
    caption = (
        f"Shared-T1 {'results' if several else subject} at T2 (%). Conditions share {problems} and "
        f"{in_words(responses.samples)} matched trajectories per problem. {seeds}Δ is the {average} difference from Native."
    )
    layout = Layout(
        paper_labels.SHARED_T1,
        caption,
        header,
        stacked(blocks, "midrule", headed=several),
        notes(labels, responses, values, (benchmark for _, benchmark in pairs)),
        columns="lccc",
        trimmed=False,
        separation=7,
        stretch=1.12,
    )
    shows = sources(
        responses,
        lambda key: key[:2] in pairs and labels.name(key.condition).averaged in SHOWN and key.turn == TURN,
    )
    return Table("shared_t1", paper_labels.SHARED_T1, tuple(values), layout, shows)


def _averages(seeded: Mapping[str, str]) -> str:
    """Which conditions average how many test-time seeds."""
    if len(set(seeded.values())) == 1:
        verb = "average" if len(seeded) > 1 else "averages"
        (count,) = set(seeded.values())
        return f"{' and '.join(seeded)} {verb} {count} test-time seed{'' if count == 'one' else 's'}"
    return " and ".join(f"{name} averages {count}" for name, count in seeded.items()) + " test-time seeds"


def _rows(values: Sequence[Value], responses: Responses, labels: Labels) -> list[Row]:
    """One block: Avg@k, its difference from Native, and Pass@k of every condition."""
    average, passed = metric_names(responses.samples)
    columns = []
    for metric, text in ((average, rounded), (f"{average} minus Native", signed), (passed, rounded)):
        column = {value.condition: value.value for value in values if value.metric == metric}
        marks = number_cells(column, column)
        columns.append({c: Cell(text(value), bold=marks[c].bold) for c, value in column.items()})
    return [condition_row(labels, c, (column[c] for column in columns)) for c in columns[0]]


def build_prefixes(responses: Responses, frame: pd.DataFrame, labels: Labels) -> Table | None:
    """Accuracy by how many of the bank's first entries are readable; None where no prefix has rows.

    Each pair of a model and a benchmark has its block. `frame` holds the rows; with the column
    `bank_tokens`, which scored rows carry, banks longer than the budget are counted.
    """
    values: list[Value] = []
    blocks: list[tuple[str, list[Row]]] = []
    prefixes = {
        pair: [
            condition
            for prefix, condition in sorted((labels.name(c).prefix or 0, c) for c in responses.conditions(*pair))
            if prefix
        ]
        for pair in studied(responses, labels)
    }
    pairs = [pair for pair, conditions in prefixes.items() if conditions]
    for pair in pairs:
        of_pair = _prefix_values(responses, frame, labels, *pair, prefixes[pair])
        values += of_pair
        blocks.append((comparison_title(labels, *pair), _prefix_rows(of_pair, labels)))
    if not pairs:
        return None
    names = tuple(metric_names(responses.samples))
    several = len(pairs) > 1
    on = "" if several else f" {benchmark_title(labels, pairs[0][1])}"
    caption = (
        f"Bank-prefix accuracy on shared-T1{on} at T2 (%). Each condition uses {in_words(responses.samples)} matched sample "
        "seeds per problem. Truncated counts banks longer than the access budget."
    )
    layout = Layout(
        paper_labels.BANK_PREFIXES,
        caption,
        plain_header("Readable bank", "Truncated", *names),
        stacked(blocks, "addlinespace", headed=several),
        notes(labels, responses, values, (benchmark for _, benchmark in pairs)),
        separation=8,
    )
    shows = sources(
        responses,
        lambda key: (
            key[:2] in pairs
            and key.condition in ("native", "stair", *prefixes[key.model, key.benchmark])
            and key.turn == TURN
        ),
    )
    return Table("bank_prefix_accuracy", paper_labels.BANK_PREFIXES, tuple(values), layout, shows)


def _prefix_values(
    responses: Responses, frame: pd.DataFrame, labels: Labels, model: str, benchmark: str, prefixes: Sequence[str]
) -> list[Value]:
    """Truncated banks, Avg@k and Pass@k of Native, every prefix and the full bank."""
    cut = {value.condition: value for value in truncated_banks(frame, model, benchmark, name_of=labels.name)}
    values: list[Value] = []
    for condition in ("native", *prefixes, "stair"):
        place = (model, benchmark, paper_labels.FULL_BANK if condition == "stair" else condition, f"T{TURN}", "")
        if condition in cut:
            values.append(Value(*place, "truncated", cut[condition].value, cut[condition].unit))
        for name, metric in metric_names(responses.samples).items():
            score = at_turn(metric, responses, model, benchmark, condition, TURN)
            values.append(Value(*place, name, score, "%"))
    return values


def _prefix_rows(values: Sequence[Value], labels: Labels) -> list[Row]:
    """One block: Native without a bank, then the prefixes of the bank."""
    cut = {
        value.condition: f"{int(value.value)}/{value.unit.removeprefix('inputs of ')}"
        for value in values
        if value.metric == "truncated" and not isinstance(value.value, Gap)
    }
    columns: dict[str, dict[str, float | Gap]] = {}
    for value in values:
        if value.metric != "truncated":
            columns.setdefault(value.metric, {})[value.condition] = value.value
    marked = [number_cells(column, column) for column in columns.values()]
    return [
        Row(
            (Cell(labels.printed_condition(key)), Cell(cut.get(key, DASH)), *(cells[key] for cells in marked)),
            shaded=None if key == "native" else "stairrow",
        )
        for key in marked[0]
    ]
