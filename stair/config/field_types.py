"""Field types that all parts of the configuration share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field


def once(items: tuple[Any, ...]) -> tuple[Any, ...]:
    """The items, if they differ; raises ValueError otherwise."""
    for number, item in enumerate(items):
        if item in items[:number]:
            raise ValueError(f"lists {item!r} twice; keep one")
    return items


def labels_differ(items: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries, if no two have one label; raises ValueError otherwise."""
    labels: dict[str, str] = {}
    for key, item in items.items():
        if (first := labels.setdefault(item.label, key)) != key:
            raise ValueError(
                f"{key}.label is that of {first} too ('{item.label}'); tables and figures need labels that differ"
            )
    return items


NAME = r"^[a-z0-9][a-z0-9_.-]*$"
Key = Annotated[str, Field(pattern=NAME)]
"""A key that names files: lower case letters, digits, dot, dash, underscore."""


Text = Annotated[str, Field(min_length=1)]
Natural = Annotated[int, Field(ge=0, le=10_000_000)]
Positive = Annotated[int, Field(ge=1, le=10_000_000)]
"""A length or a number of rows. The bound refuses slips of the keyboard, before jobs start that would not end. A key with
another bound is an `int` with both bounds: a bound of its `Field` beside one of these types has no effect."""

Count = Annotated[int, Field(ge=1, le=100_000)]
"""How often something is made, each time by itself."""

Share = Annotated[float, Field(gt=0, le=1)]
Shards = Annotated[int, Field(ge=1, le=1000)]
"""More jobs of one condition keep Snakemake busy for minutes before the first of them starts."""

Layer = Annotated[int, Field(ge=0, lt=1000)]
Layers = Annotated[tuple[Layer, ...], Field(strict=False, min_length=1), AfterValidator(once)]
Keys = Annotated[tuple[Key, ...], Field(strict=False), AfterValidator(once)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
Identity = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""A data set's name for one of its problems; YAML may spell it as a number."""

Identities = Annotated[tuple[Identity, ...], Field(strict=False)]


class Strict(BaseModel):
    """Refuses unknown keys and values of another type; cannot be changed once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def check_one_source(item: BaseModel, *places: str) -> None:
    """Raises ValueError unless a model or a data set has exactly one place that it comes from."""
    given = [name for name in places if getattr(item, name) is not None]
    if len(given) != 1:
        raise ValueError(
            f"give exactly one of {', '.join(places[:-1])} and {places[-1]} (given: {', '.join(given) or 'none'})"
        )
