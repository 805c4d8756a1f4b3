"""Table controller_configuration: the size of STAIR's controllers, from their own files."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper import paper_labels
from stair.paper.controlled import Controlled, of_models, read_controlled
from stair.paper.labels import Labels
from stair.paper.layout import Cell, Layout, Row, plain_header
from stair.paper.tables.table import Table
from stair.statistics.values import Value


def of_run(config: Config, paths: RunPaths, labels: Labels) -> Table:
    """The table of a run."""
    return build(of_models(config, paths, _read), labels)


def build(models: Sequence[Controlled], labels: Labels) -> Table:
    """One row for each model; the models share their controlled layers, which the configuration names once."""
    values: list[Value] = []
    rows = []
    for each in models:
        # Appendix B.5: normals are drawn from N(0, 1/d_h).
        deviation = each.head_dim**-0.5
        numbers = {
            "query heads per layer": each.query_heads,
            "head dimension": each.head_dim,
            "initial standard deviation": deviation,
            "trainable parameters": each.parameters,
        }
        values += [Value(each.model, "", "", "", "", metric, number, "") for metric, number in numbers.items()]
        cells = (f"{each.query_heads}", f"{each.head_dim}", _one_over_root(each.head_dim), f"{each.parameters:,}")
        rows.append(Row((Cell(labels.printed_model(each.model)), *(Cell(text) for text in cells))))
    layers = ",".join(map(str, models[0].layers))
    layout = Layout(
        paper_labels.CONTROLLERS,
        f"Controller configuration. All query heads are controlled at layers [{layers}] (zero-based). Normals are separate for "
        "each layer and head.",
        plain_header("Model", "Query heads/layer", "𝑑ₕ", "Init. std.", "Parameters"),
        tuple(rows),
        labels.notes,
        trimmed=False,
    )
    return Table("controller_configuration", paper_labels.CONTROLLERS, tuple(values), layout)


def _read(model: str, folder: Path) -> Controlled:
    return read_controlled(model, folder / "controller.safetensors")


def _one_over_root(number: int) -> str:
    """1 / sqrt(number) as the paper prints it: without the root where it is whole."""
    root = isqrt(number)
    return f"1∕{root}" if root**2 == number else f"1∕√{number}"
