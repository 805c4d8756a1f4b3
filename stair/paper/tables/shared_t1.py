"""Tables shared-t1 and bank-prefix-accuracy: conditions that share one T1 history, at T2."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pandas as pd

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import SEEDED
from stair.paper import paper_labels
from stair.paper.exhibits import bank_lengths
from stair.paper.labels import Labels
from stair.paper.layout import DASH, signed
from stair.paper.source import Source
from stair.paper.tables.table import (
    Column,
    Line,
    Table,
    benchmark_title,
    comparison_title,
    condition_line,
    in_words,
    of_rows,
    place_of,
)
from stair.statistics.grid import Gap, Responses, unique
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
    for place in bank_lengths(config):
        rows = pd.read_parquet(paths.scored(*place), columns=["model", "benchmark", "condition", "turn", "bank_tokens"])
        median = median_bank(rows, place.model, place.benchmark)
        metric = f"median bank length, shared-T1 {labels.benchmark(place.benchmark)}"
        thousands = median if isinstance(median, Gap) else median / 1000
        yield Value(place.model, "", "", "", "", metric, thousands, "K tokens", paper_labels.RUNTIME_TEXT)


def build(source: Source) -> Table | None:
    """The controls beside Native and STAIR; None where the study has no rows.

    Each pair of a model and a benchmark has its block. Native and STAIR stand in every block, as
    dashes where they have no rows.
    """
    responses, labels = source.responses, source.labels
    pairs = studied(responses, labels)
    if not pairs:
        return None
    values: list[Value] = []
    blocks = []
    for model, benchmark in pairs:
        metrics = shared_t1_metrics(responses, model, benchmark, seeds_of=labels.seeds, name_of=labels.name)
        of_pair = [value for condition in SHOWN for value in metrics if value.condition == condition]
        place = {"model": model, "benchmark": benchmark, "turn": f"T{TURN}"}
        lines = [condition_line(labels, name, **place) for name in unique(value.condition for value in of_pair)]
        blocks.append((comparison_title(labels, model, benchmark) if len(pairs) > 1 else "", lines))
        values += of_pair
    average, passed = metric_names(responses.samples)
    several = len(pairs) > 1
    model, benchmark = pairs[0]
    subject = f"{benchmark_title(labels, benchmark)} results for {labels.printed_model(model)}"
    counts = {len(responses.problems[name]) for _, name in pairs}
    problems = f"{counts.pop()} problems" if len(counts) == 1 else "their problems"
    shown = {value.condition for value in values}
    seeded = {name: in_words(labels.seeds(condition)) for condition, name in _SEEDED.items() if condition in shown}
    seeds = f"{_averages(seeded)}; other conditions use one evaluation. " if seeded else ""
    caption = (
        f"Shared-T1 {'results' if several else subject} at T2 (%). Conditions share {problems} and "
        f"{in_words(responses.samples)} matched trajectories per problem. {seeds}Δ is the {average} difference from Native."
    )
    columns = [
        Column("Condition", align="l"),
        Column(average, (average,), align="c", rival=True),
        Column("Δ (pp)", (f"{average} minus Native",), text=signed, align="c", rival=True),
        Column(passed, (passed,), align="c", rival=True),
    ]
    benchmarks = [benchmark for _, benchmark in pairs]
    return of_rows(source, caption, columns, blocks, values, benchmarks)


def _averages(seeded: Mapping[str, str]) -> str:
    """Which conditions average how many test-time seeds."""
    if len(set(seeded.values())) == 1:
        verb = "average" if len(seeded) > 1 else "averages"
        (count,) = set(seeded.values())
        return f"{' and '.join(seeded)} {verb} {count} test-time seed{'' if count == 'one' else 's'}"
    return " and ".join(f"{name} averages {count}" for name, count in seeded.items()) + " test-time seeds"


def build_prefixes(source: Source) -> Table | None:
    """Accuracy by how many of the bank's first entries are readable; None where no prefix has rows.

    Each pair of a model and a benchmark has its block. Rows with the column `bank_tokens`, as scored rows have it, give the
    number of banks longer than the budget.
    """
    responses, labels = source.responses, source.labels
    prefixes = {pair: _prefixes(responses, labels, *pair) for pair in studied(responses, labels)}
    pairs = [pair for pair, conditions in prefixes.items() if conditions]
    if not pairs:
        return None
    values: list[Value] = []
    blocks = []
    for pair in pairs:
        values_of_pair = _prefix_values(responses, source.rows, labels, *pair, prefixes[pair])
        title = comparison_title(labels, *pair) if len(pairs) > 1 else ""
        blocks.append((title, _prefix_lines(values_of_pair, labels)))
        values += values_of_pair
    on = "" if len(pairs) > 1 else f" {benchmark_title(labels, pairs[0][1])}"
    caption = (
        f"Bank-prefix accuracy on shared-T1{on} at T2 (%). Each condition uses {in_words(responses.samples)} matched sample "
        "seeds per problem. Truncated counts banks longer than the access budget."
    )
    columns = [Column("Readable bank", align="l"), Column("Truncated")]
    columns += [Column(metric, (metric,), rival=True) for metric in metric_names(responses.samples)]
    benchmarks = [benchmark for _, benchmark in pairs]
    return of_rows(source, caption, columns, blocks, values, benchmarks)


def _prefixes(responses: Responses, labels: Labels, model: str, benchmark: str) -> list[str]:
    """The conditions that read a prefix, the shortest first."""
    conditions = sorted((labels.name(key).prefix or 0, key) for key in responses.conditions(model, benchmark))
    return [condition for prefix, condition in conditions if prefix]


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


def _prefix_lines(values: Sequence[Value], labels: Labels) -> list[Line]:
    """One block: Native without a bank, then the prefixes of the bank."""
    cut = {
        value.condition: f"{int(value.value)}/{value.unit.removeprefix('inputs of ')}"
        for value in values
        if value.metric == "truncated" and not isinstance(value.value, Gap)
    }
    return [
        Line(
            (labels.printed_condition(value.condition), cut.get(value.condition, DASH)),
            place_of(value),
            shaded=None if value.condition == "native" else "stairrow",
        )
        for value in {value.condition: value for value in values}.values()
    ]
