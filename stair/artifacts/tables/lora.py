"""Tables lora-comparison and lora-turns: STAIR and low-rank adaptation, alone and trained jointly."""

from __future__ import annotations

from collections.abc import Mapping

from stair.artifacts import mapping
from stair.artifacts.labels import Labels
from stair.artifacts.layout import DASH, Cell, Layout, Row, signed
from stair.artifacts.tables.table import Table, by_place, notes, number_cells
from stair.backbones.parameters import controller_parameters, lora_parameters
from stair.backbones.published import CONFIGS, CONTROLLED_LAYERS
from stair.scoring.grid import Gap, Responses
from stair.scoring.metrics import MEAN, gains, metric_names, turn_metrics
from stair.scoring.tidy import Value

SHOWN = ("native", "stair", "lora", "lora_stair")
BASES = {"stair": "native", "lora_stair": "lora"}
"""What a gain is counted from."""
RANK = 2
_TURNS = ("T2", "T3", "T4", MEAN)


def compared(responses: Responses) -> tuple[str, str] | None:
    """The model and benchmark that have LoRA's rows: the first, where there are several."""
    pairs = ((m, b) for m in responses.models for b in responses.benchmarks(m))
    return next(((m, b) for m, b in pairs if {"lora", "lora_stair"} & set(responses.conditions(m, b))), None)


def trainable_parameters(model: str, condition: str) -> int | Gap:
    """Parameters that a condition trains on a model of the paper."""
    if condition == "native":
        return 0
    if model not in CONFIGS:
        return Gap(f"{model}, {condition}: response rows do not tell how many parameters were trained")
    normals = controller_parameters(CONFIGS[model], CONTROLLED_LAYERS)
    if condition == "stair":
        return normals
    lora = lora_parameters(CONFIGS[model], RANK)
    return lora + normals if condition == "lora_stair" else lora


def build_comparison(
    responses: Responses, labels: Labels, trained: Mapping[tuple[str, str], int] | None = None
) -> Table | None:
    """Means over T2 to T4 with the gains, computed before rounding; None without LoRA's rows.

    `trained` says how many parameters (model, condition) trains; what it does not say is known of the paper's models alone.
    """
    pair = compared(responses)
    if pair is None:
        return None
    model, benchmark = pair
    metrics = tuple(metric_names(responses.samples))
    numbers = by_place(turn_metrics(responses))
    scores = {
        m: {c: numbers.get((*pair, c, MEAN, m), Gap(f"{model}, {benchmark}, {c}: no responses")) for c in SHOWN}
        for m in metrics
    }
    added = {
        (condition, value.metric): value
        for condition, base in BASES.items()
        for value in gains(responses, condition, base, model=model, benchmark=benchmark)
    }
    known = {condition: (trained or {}).get((model, condition)) for condition in SHOWN}
    parameters = {c: trainable_parameters(model, c) if count is None else count for c, count in known.items()}
    values: list[Value] = []
    for condition in SHOWN:
        values.append(Value(*pair, condition, MEAN, "", "trainable parameters", parameters[condition], ""))
        for metric in metrics:
            values.append(Value(*pair, condition, MEAN, "", metric, scores[metric][condition], "%"))
            if condition in BASES:
                values.append(added[condition, f"{metric} gain"])
    columns: list[dict[str, Cell]] = []
    for metric in metrics:
        columns.append(number_cells(scores[metric], SHOWN))
        gained = {condition: added[condition, f"{metric} gain"].value for condition in BASES}
        marks = number_cells(gained, BASES)
        columns.append({c: Cell(signed(value), bold=marks[c].bold) for c, value in gained.items()})
    rows = []
    for condition in SHOWN:
        count = parameters[condition]
        ours = condition in BASES
        rows.append(
            Row(
                (
                    Cell(labels.condition(condition), bold=ours),
                    Cell(DASH if isinstance(count, Gap) else f"{count:,}"),
                    *(column.get(condition, Cell(DASH)) for column in columns),
                ),
                shaded="stairrow" if ours else None,
            )
        )
    header = (
        (("", 1), ("", 1), *((metric, 2) for metric in metrics)),
        (("Condition", 1), ("Trainable params", 1), *(((name, 1)) for _ in metrics for name in ("Score", "Δ (pp)"))),
    )
    caption = (
        f"{labels.model(model)} on {labels.benchmark(benchmark)} (%). Scores average T2--T4. Δ is computed before rounding, "
        "relative to Native for STAIR and to LoRA for LoRA + STAIR. Bold marks the highest score and gain for each metric, "
        "including ties."
    )
    layout = Layout(mapping.LORA, caption, header, tuple(rows), notes(labels, values, [benchmark]))
    return Table("lora_comparison", mapping.LORA, tuple(values), layout)


def build_turns(responses: Responses, labels: Labels) -> Table | None:
    """T2, T3, T4 and their mean; None without LoRA's rows."""
    pair = compared(responses)
    if pair is None:
        return None
    model, benchmark = pair
    metrics = tuple(metric_names(responses.samples))
    numbers = by_place(turn_metrics(responses))
    values: list[Value] = []
    lines: dict[str, list[Cell]] = {condition: [] for condition in SHOWN}
    for turn in _TURNS:
        for metric in metrics:
            column = {
                c: numbers.get((*pair, c, turn, metric), Gap(f"{model}, {benchmark}, {c}, {turn}: no responses"))
                for c in SHOWN
            }
            values += [Value(*pair, c, turn, "", metric, value, "%") for c, value in column.items()]
            for condition, cell in number_cells(column, SHOWN).items():
                lines[condition].append(cell)
    rows = tuple(
        Row((Cell(labels.condition(c), bold=c in BASES), *lines[c]), shaded="stairrow" if c in BASES else None)
        for c in SHOWN
    )
    titles = ("T2", "T3", "T4", "Mean")
    header = (
        (("", 1), *((title, len(metrics)) for title in titles)),
        (("Condition", 1), *((metric, 1) for _ in titles for metric in metrics)),
    )
    caption = (
        f"{labels.model(model)} on {labels.benchmark(benchmark)}: standalone and jointly trained adapters by turn (%). Mean "
        "averages T2--T4; bold marks the highest score in each column, including ties."
    )
    layout = Layout(mapping.LORA_TURNS, caption, header, rows, notes(labels, values, [benchmark]))
    return Table("lora_turns", mapping.LORA_TURNS, tuple(values), layout)
