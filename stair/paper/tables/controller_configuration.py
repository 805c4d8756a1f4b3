"""Table controller_configuration: the size of STAIR's controllers, from their own files."""

from __future__ import annotations

from math import isqrt

from stair.paper.controllers import of_models, read_controlled
from stair.paper.source import Source
from stair.paper.tables.table import Column, Line, Table, whole
from stair.statistics.values import Value


def build(source: Source) -> Table:
    """One row for each model; the models share their controlled layers, which the configuration names once."""
    models = of_models(source.config, source.paths, read_controlled)
    values = [
        Value(each.model, "", "", "", "", metric, number, "")
        for each in models
        for metric, number in (
            ("query heads per layer", each.query_heads),
            ("head dimension", each.head_dim),
            # Appendix B.5: normals are drawn from N(0, 1/d_h).
            ("initial standard deviation", each.head_dim**-0.5),
            ("trainable parameters", each.parameters),
        )
    ]
    layers = ",".join(map(str, models[0].layers))
    caption = (
        f"Controller configuration. All query heads are controlled at layers [{layers}] (zero-based). Normals are separate for "
        "each layer and head."
    )
    columns = [
        Column("Model", align="l"),
        Column("Query heads/layer", ("query heads per layer",), text=str),
        Column("𝑑ₕ", ("head dimension",), text=str),
        Column("Init. std.", ("head dimension",), text=_one_over_root),
        Column("Parameters", ("trainable parameters",), text=whole),
    ]
    blocks = [("", [Line((source.labels.printed_model(each.model),), {"model": each.model}) for each in models])]
    return Table.of(source.exhibit, caption, columns, blocks, values, source.labels.notes)


def _one_over_root(number: int) -> str:
    """1 / sqrt(number) as the paper prints it: without the root where it is whole."""
    root = isqrt(number)
    return f"1∕{root}" if root**2 == number else f"1∕√{number}"
