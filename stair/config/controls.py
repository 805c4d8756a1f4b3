"""The study with a shared T1 history: which conditions answer T2 after one and the same T1 (appendix C.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from stair.config.evaluation import Condition, expanded
from stair.config.field_types import Key, Keys, Shards, Strict, Text, labels_differ

T1 = "t1"
"""The condition that generates the shared T1 by the native path."""


class Controls(Strict):
    """Conditions that share one T1 history and are evaluated at T2."""

    models: Keys = Field(min_length=1)
    benchmark: Key
    seed: Text = "shared-t1"
    shards: Shards = 1
    conditions: Annotated[dict[Key, Condition], AfterValidator(labels_differ)]

    @field_validator("conditions", mode="before")
    @classmethod
    def _expanded(cls, conditions: Any) -> Any:
        if not isinstance(conditions, Mapping):
            return conditions
        return {
            key: {**({"turns": 1} if key == T1 else {"turns": 2, "first_turn": T1}), **item}
            if isinstance(item, Mapping)
            else item
            for key, item in expanded(conditions).items()
        }

    @model_validator(mode="after")
    def _share_t1(self) -> Self:
        if T1 not in self.conditions:
            raise ValueError(f"conditions lacks '{T1}', whose responses all others share")
        for key, item in self.conditions.items():
            expected = (1, None) if key == T1 else (2, T1)
            if (item.turns, item.first_turn) != expected:
                raise ValueError(
                    f"conditions.{key} has turns {item.turns} and first_turn {item.first_turn}; in this study they are "
                    f"{expected[0]} and {expected[1]}, and can be left out"
                )
            for name, studied in (("models", self.models), ("benchmarks", (self.benchmark,))):
                own = getattr(item, name)
                if own is not None and not set(own) & set(studied):
                    raise ValueError(
                        f"conditions.{key}.{name} is {list(own)}, and the study has {list(studied)}, so the condition "
                        "would run nowhere; remove the key, or leave the condition out with `select`"
                    )
        return self
