"""The typed configuration. Every key has a description in its part and a sentence in `config.yaml`; unknown keys are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

from pydantic import field_validator, model_validator

from stair.config.evaluation import expanded
from stair.config.run_sections import RunSections
from stair.config.section_checks import check_sections


class Config(RunSections):
    """A run: the paper's settings, changed by an overlay and by the command line."""

    @field_validator("conditions", mode="before")
    @classmethod
    def _families(cls, conditions: Any) -> Any:
        return expanded(conditions) if isinstance(conditions, Mapping) else conditions

    @model_validator(mode="after")
    def _sections_agree(self) -> Self:
        check_sections(self)
        return self
