"""The backbones: their folders and their sampling."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Key, Natural, Positive, Share, Strict, check_one_source


class Sampling(Strict):
    """How a response is drawn; docs/protocol.md has the law."""

    temperature: float = Field(1.0, ge=0)
    top_p: Share = 1.0
    top_k: Natural = 0
    min_p: float = Field(0.0, ge=0, lt=1)
    presence_penalty: float = 0.0
    repetition_penalty: float = Field(1.0, gt=0)
    max_new_tokens: Positive


class Model(Strict):
    """A backbone: where it lies, how it talks, how it samples."""

    label: str
    repository: str | None = None
    revision: str | None = None
    path: str | None = None
    template_sha256: str | None = Field(None, pattern=r"^[0-9a-f]{64}$")
    thinking: bool
    dtype: Literal["bfloat16", "float32", "float64"] = "bfloat16"
    rollout_engine: EngineName | None = None
    rollout_sampling: Sampling
    evaluation_sampling: Sampling
    evaluation_changes: dict[Key, Sampling] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _whole_changes(cls, values: Any) -> Any:
        """A benchmark's change keeps the keys of `evaluation_sampling` that it leaves out."""
        match values:
            case {"evaluation_sampling": dict(base), "evaluation_changes": dict(changes)}:
                whole = {key: base | change if isinstance(change, dict) else change for key, change in changes.items()}
                return values | {"evaluation_changes": whole}
        return values

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        check_one_source(self, "repository", "path")
        return self

    def sampling_for(self, benchmark: str) -> Sampling:
        return self.evaluation_changes.get(benchmark, self.evaluation_sampling)
