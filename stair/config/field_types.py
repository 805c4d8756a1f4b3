"""Field types that all parts of the configuration share."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

Key = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]*$")]
"""A key that names files: lower case letters, digits, dot, dash, underscore."""


Text = Annotated[str, Field(min_length=1)]
Positive = Annotated[int, Field(ge=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Layers = Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(strict=False, min_length=1)]
Keys = Annotated[tuple[Key, ...], Field(strict=False)]
Texts = Annotated[tuple[str, ...], Field(strict=False)]
Identity = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) is int else value)]
"""A data set's name for one of its problems; YAML may spell it as a number."""

Identities = Annotated[tuple[Identity, ...], Field(strict=False)]


class Strict(BaseModel):
    """Refuses unknown keys and values of another type; cannot be changed once made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
