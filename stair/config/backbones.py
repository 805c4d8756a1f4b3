"""The backbones: their folders and their sampling."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Count, Key, Natural, Positive, Share, Strict


class Sampling(Strict):
    """How a response is drawn; docs/protocol.md has the law."""

    temperature: float = Field(1.0, ge=0, description="Softmax temperature; 0 is greedy decoding.")
    top_p: Share = Field(1.0, description="Nucleus mass.")
    top_k: Natural = Field(0, description="How many of the most probable tokens stay; 0 keeps all.")
    min_p: float = Field(0.0, ge=0, lt=1, description="Least probability, as a share of the most probable token's.")
    presence_penalty: float = Field(0.0, description="Subtracted from the logits of generated tokens.")
    repetition_penalty: float = Field(1.0, gt=0, description="Divides positive logits of seen tokens.")
    max_new_tokens: Positive = Field(description="Output limit: newly generated tokens of one response.")


class SamplingChange(Strict):
    """Sampling keys that one benchmark changes; what is left out stays as the model has it."""

    temperature: float | None = Field(None, ge=0)
    top_p: Share | None = None
    top_k: Natural | None = None
    min_p: float | None = Field(None, ge=0, lt=1)
    presence_penalty: float | None = None
    repetition_penalty: float | None = Field(None, gt=0)
    max_new_tokens: Positive | None = None


Width = Annotated[int, Field(ge=1, le=100_000)]


class TinyBackbone(Strict):
    """A small model of a real architecture that the workflow trains itself; it stands for the model that it is listed as."""

    architecture: str = Field(description="A file of stair/models/architectures.")
    layers: int = Field(ge=12, le=1000, description="Transformer blocks.")
    hidden_size: Width = Field(description="Width of the residual stream.")
    heads: Width = Field(description="Query heads.")
    kv_heads: Width = Field(description="Key/value heads.")
    head_dim: Width = Field(description="Width of a head.")
    ffn: Width = Field(description="Width of the MLP.")
    steps: Count = Field(description="Training steps.")
    batch_tokens: Positive = Field(description="Tokens in a training step.")
    learning_rate: float = Field(gt=0, description="Peak learning rate of AdamW.")
    seeds: tuple[str, ...] = Field(
        strict=False,
        min_length=1,
        description="Names of seeds, tried in order until accuracies lie within bounds; the last is kept in any case.",
    )

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

    label: str = Field(description="The name in tables and figures.")
    repository: str | None = Field(None, description="The model's repository on the hub.")
    revision: str | None = Field(None, description="The repository's commit; null where none has been recorded yet.")
    path: str | None = Field(None, description="A local model folder, in place of the repository.")
    tiny: TinyBackbone | None = Field(None, description="A small backbone to train, in place of both.")
    template_sha256: str | None = Field(
        None,
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the chat template that the model must have; null takes the one of the first preflight.",
    )
    thinking: bool = Field(description="Thinking mode: responses open with reasoning that ends at `</think>`.")
    dtype: Literal["bfloat16", "float32", "float64"] = Field("bfloat16", description="Working precision.")
    rollout_engine: EngineName | None = Field(None, description="The engine of its rollouts; null: `rollouts.engine`.")
    rollout_sampling: Sampling = Field(description="Sampling of the training responses (appendix C.1).")
    evaluation_sampling: Sampling = Field(description="Sampling at evaluation (appendix C.2).")
    evaluation_changes: dict[Key, SamplingChange] = Field(
        default_factory=dict, description="Changed sampling by benchmark."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sources = [name for name in ("repository", "path", "tiny") if getattr(self, name) is not None]
        if len(sources) != 1:
            raise ValueError(f"give exactly one of repository, path and tiny (given: {', '.join(sources) or 'none'})")
        return self

    def sampling_for(self, benchmark: str) -> Sampling:
        change = self.evaluation_changes.get(benchmark)
        return self.evaluation_sampling.model_copy(update=change.model_dump(exclude_none=True) if change else {})
