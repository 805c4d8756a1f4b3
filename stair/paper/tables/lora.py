"""Tables lora-comparison and lora-turns: STAIR and low-rank adaptation, alone and trained jointly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from stair.models.parameters import controller_parameters, lora_parameters
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.paper import paper_labels
from stair.paper.labels import Labels
from stair.paper.layout import DASH, Cell, Layout, Row, grouped_header, signed
from stair.paper.tables.table import Table, comparison_title, condition_row, notes, number_cells, sources, stacked
from stair.statistics.grid import Gap, Responses, TurnKey
from stair.statistics.metrics import LATER_TURNS, MEAN, at_turn, gains, metric_names, over_later_turns
from stair.statistics.values import Value

SHOWN = ("native", "stair", "lora", "lora_stair")
BASES = {"stair": "native", "lora_stair": "lora"}
"""What a gain is counted from."""
RANK = 2


def compared(responses: Responses) -> list[tuple[str, str]]:
    """The pairs of a model and a benchmark that have LoRA's rows."""
    return [pair for pair in responses.pairs if {"lora", "lora_stair"} & set(responses.conditions(*pair))]


def trainable_parameters(model: str, condition: str) -> int | Gap:
    """Parameters that a condition trains on a model of the paper."""
    if condition == "native":
        return 0
    if model not in CONFIGS:
        return Gap(f"{model}, {condition}: response rows do not tell how many parameters were trained")
    normals = controller_parameters(CONFIGS[model], CONTROLLED_LAYERS)
    if condition == "stair":
        return normals
    if CONFIGS[model]["model_type"] != "qwen3":
        return Gap(
            f"{model}, {condition}: the paper trains LoRA on Qwen3 only, so the run's controllers must give the count"
        )
    lora = lora_parameters(CONFIGS[model], RANK)
    return lora + normals if condition == "lora_stair" else lora


def build_comparison(
    responses: Responses, labels: Labels, trained: Mapping[tuple[str, str], int | Gap] | None = None
) -> Table | None:
    """Means over T2 to T4 with the gains, computed before rounding; None without LoRA's rows.

    Each pair of a model and a benchmark has its block. `trained` gives the parameters that
    (model, condition) trains; for pairs it lacks, they are known for the paper's models alone.
    """
    pairs = compared(responses)
    if not pairs:
        return None
    metrics = tuple(metric_names(responses.samples))
    values: list[Value] = []
    blocks = []
    for pair in pairs:
        of_pair = _comparison(responses, *pair, trained or {})
        values += of_pair
        blocks.append((comparison_title(labels, *pair), _comparison_rows(of_pair, labels, metrics)))
    header = (
        (("", 1), ("", 1), *((metric, 2) for metric in metrics)),
        (("Condition", 1), ("Trainable params", 1), *(((name, 1)) for _ in metrics for name in ("Score", "Δ (pp)"))),
    )
    several = len(pairs) > 1
    subject = "STAIR, LoRA and both trained jointly" if several else blocks[0][0]
    caption = (
        f"{subject} (%). Scores average T2--T4. Δ is computed before rounding, relative to Native for STAIR and to LoRA for "
        f"LoRA + STAIR. Bold marks the highest score and gain for each metric{' in each block' if several else ''}, "
        "including ties."
    )
    layout = Layout(
        paper_labels.LORA,
        caption,
        header,
        stacked(blocks, "midrule", headed=several),
        notes(labels, responses, values, (benchmark for _, benchmark in pairs)),
        columns="lc" + "cc" * len(metrics),
        trimmed=False,
        separation=6,
        stretch=1.12,
    )
    return Table("lora_comparison", paper_labels.LORA, tuple(values), layout, _sources(responses, pairs))


def _comparison(
    responses: Responses, model: str, benchmark: str, trained: Mapping[tuple[str, str], int | Gap]
) -> list[Value]:
    """Parameters, means over T2 to T4 and gains of every condition on one model and benchmark."""
    values: list[Value] = []
    for condition in SHOWN:
        keys = (model, benchmark, condition, MEAN, "")
        trained_count = trained.get((model, condition))
        count = trainable_parameters(model, condition) if trained_count is None else trained_count
        values.append(Value(*keys, "trainable parameters", count, ""))
        added = (
            gains(responses, condition, BASES[condition], model=model, benchmark=benchmark)
            if condition in BASES
            else []
        )
        for name, metric in metric_names(responses.samples).items():
            score = over_later_turns(metric, responses, model, benchmark, condition)
            values.append(Value(*keys, name, score, "%"))
            values += [gain for gain in added if gain.metric == f"{name} gain"]
    return values


def _comparison_rows(values: Sequence[Value], labels: Labels, metrics: Sequence[str]) -> list[Row]:
    """One block: the four conditions, a rule between those without LoRA and those with it."""
    by_metric: dict[str, dict[str, float | Gap]] = {}
    for value in values:
        by_metric.setdefault(value.metric, {})[value.condition] = value.value
    columns: list[dict[str, Cell]] = []
    for metric in metrics:
        columns.append(number_cells(by_metric[metric], SHOWN))
        gained = by_metric[f"{metric} gain"]
        marks = number_cells(gained, BASES)
        columns.append({c: Cell(signed(value), bold=marks[c].bold) for c, value in gained.items()})
    rows = []
    for condition in SHOWN:
        count = by_metric["trainable parameters"][condition]
        cells = (
            Cell(DASH if isinstance(count, Gap) else f"{count:,}"),
            *(column.get(condition, Cell(DASH)) for column in columns),
        )
        rows.append(condition_row(labels, condition, cells, BASES))
    rows[1] = replace(rows[1], rule="midrule")
    return rows


def _sources(responses: Responses, pairs: Sequence[tuple[str, str]]) -> frozenset[TurnKey]:
    return sources(responses, lambda key: key[:2] in pairs and key.condition in SHOWN and key.turn > 1)


def build_turns(responses: Responses, labels: Labels) -> Table | None:
    """T2, T3, T4 and their mean, a block for each pair; None without LoRA's rows."""
    pairs = compared(responses)
    if not pairs:
        return None
    metrics = metric_names(responses.samples)
    values: list[Value] = []
    blocks = []
    for model, benchmark in pairs:
        lines: dict[str, list[Cell]] = {condition: [] for condition in SHOWN}
        for turn in (*LATER_TURNS, None):
            for name, metric in metrics.items():
                column: dict[str, float | Gap] = {}
                for condition in SHOWN:
                    place = (responses, model, benchmark, condition)
                    column[condition] = at_turn(metric, *place, turn) if turn else over_later_turns(metric, *place)
                    title = f"T{turn}" if turn else MEAN
                    values.append(Value(model, benchmark, condition, title, "", name, column[condition], "%"))
                for condition, cell in number_cells(column, SHOWN).items():
                    lines[condition].append(cell)
        rows = [condition_row(labels, condition, cells, BASES) for condition, cells in lines.items()]
        blocks.append((comparison_title(labels, model, benchmark), rows))
    header = grouped_header("Condition", ("T2", "T3", "T4", "Mean"), metrics)
    several = len(pairs) > 1
    subject = "Standalone" if several else f"{blocks[0][0]}: standalone"
    caption = (
        f"{subject} and jointly trained adapters by turn (%). Mean averages T2--T4; bold marks the highest score in each "
        f"column{' of each block' if several else ''}, including ties."
    )
    layout = Layout(
        paper_labels.LORA_TURNS,
        caption,
        header,
        stacked(blocks, "addlinespace", headed=several),
        notes(labels, responses, values, (benchmark for _, benchmark in pairs)),
        separation=2,
    )
    return Table("lora_turns", paper_labels.LORA_TURNS, tuple(values), layout, _sources(responses, pairs))
