"""The backbones: their folders and their sampling."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Count, Key, Natural, Positive, Share, Strict, check_one_source


class Sampling(Strict):
    """How a response is drawn; docs/protocol.md has the law."""

    temperature: float = Field(1.0, ge=0)
    top_p: Share = 1.0
    top_k: Natural = 0
    min_p: float = Field(0.0, ge=0, lt=1)
    presence_penalty: float = 0.0
    repetition_penalty: float = Field(1.0, gt=0)
    max_new_tokens: Positive


Width = Annotated[int, Field(ge=1, le=100_000)]


class TinyBackbone(Strict):
    """A small model of a real architecture that the workflow trains itself; it stands for the model that it is listed as."""

    architecture: str
    layers: int = Field(ge=12, le=1000)
    hidden_size: Width
    heads: Width
    kv_heads: Width
    head_dim: Width
    ffn: Width
    steps: Count
    batch_tokens: Positive
    learning_rate: float = Field(gt=0)
    seeds: tuple[str, ...] = Field(strict=False, min_length=1)

    @model_validator(mode="after")
    def _sizes_agree(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads ({self.heads}) must be a multiple of kv_heads ({self.kv_heads})")
        turned = 8 if self.architecture == "qwen3_5" else 2  # RoPE turns pairs; Qwen3.5's, a quarter of the channels
        if self.head_dim % turned:
            raise ValueError(f"head_dim ({self.head_dim}) must be a multiple of {turned}, for the rotary embedding")
        return self

    @property
    def full_attention_layers(self) -> tuple[int, ...]:
        """The layers with full attention, from 0: every fourth of Qwen3.5, all of others."""
        every = 4 if self.architecture == "qwen3_5" else 1
        return tuple(range(every - 1, self.layers, every))


class Model(Strict):
    """A backbone: where it lies, how it talks, how it samples."""

    label: str
    repository: str | None = None
    revision: str | None = None
    path: str | None = None
    tiny: TinyBackbone | None = None
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
        check_one_source(self)
        return self

    def sampling_for(self, benchmark: str) -> Sampling:
        return self.evaluation_changes.get(benchmark, self.evaluation_sampling)
