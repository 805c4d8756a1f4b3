"""Training responses, the orders of sessions, the controllers and their training."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Count, Keys, Layers, Natural, Positive, Shards, Strict, Text, Texts


class Rollouts(Strict):
    """Training responses."""

    samples: Literal[4] = 4
    engine: EngineName = "transformers"
    shards: Shards
    seed: Text = "rollouts"


class Sessions(Strict):
    """Four-turn sessions for training and the evaluation's schedule."""

    seed: Text = "sessions"


class Optimizer(Strict):
    """AdamW."""

    learning_rate: float = Field(gt=0)
    weight_decay: float = Field(0.0, ge=0)
    betas: tuple[float, float] = Field((0.9, 0.999), strict=False)
    eps: float = Field(1e-8, gt=0)


_ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_TOLD_FILES = ("curve.csv", "README.md")
CONTROLLER_FILES = {
    "stair": ("controller.safetensors", *_TOLD_FILES),
    "bank_free": ("controller.safetensors", *_TOLD_FILES),
    "lora": (*_ADAPTER_FILES, *_TOLD_FILES),
    "lora_stair": ("controller.safetensors", *_ADAPTER_FILES, *_TOLD_FILES),
}
"""The files of a trained controller's folder beside its manifest, by kind: normals or scales, an adapter in PEFT's format."""


class Adapter(Strict):
    """Low-rank adaptation of the backbone's projections, without dropout, with an optimiser and a schedule of its own."""

    rank: Count = 2
    alpha: Positive = 4
    projections: Texts = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"), min_length=1
    )
    warmup_updates: Natural
    optimizer: Optimizer


class ControllerSettings(Strict):
    """Something that is trained on a frozen backbone."""

    kind: Literal["stair", "bank_free", "lora", "lora_stair"]
    models: Keys | None = None
    layers: Layers | None = None
    smoothing: float = Field(1e-6, ge=1e-12, lt=1)
    path: Text | None = None
    seed: Text
    optimizer: Optimizer | None = None
    adapter: Adapter | None = None

    @model_validator(mode="after")
    def _parts(self) -> Self:
        for part, needed in (("layers", self.controls), ("optimizer", self.controls), ("adapter", self.adapts)):
            if (getattr(self, part) is not None) != needed:
                raise ValueError(f"a controller of kind '{self.kind}' {'needs' if needed else 'has no'} {part}")
        return self

    @property
    def controls(self) -> bool:
        """Whether it acts at controlled layers: it has normals or scales."""
        return self.kind != "lora"

    @property
    def reads(self) -> bool:
        """Whether it reads the bank."""
        return self.kind in ("stair", "lora_stair")

    @property
    def adapts(self) -> bool:
        """Whether it has an adapter."""
        return self.kind in ("lora", "lora_stair")

    @property
    def controlled_layers(self) -> tuple[int, ...]:
        """The layers that it controls: none for an adapter alone."""
        return self.layers or ()

    @property
    def files(self) -> tuple[str, ...]:
        """The files of its folder beside the manifest, weights first."""
        return CONTROLLER_FILES[self.kind]


class TrainingSettings(Strict):
    """What all controllers share."""

    sessions_per_update: Positive = 8
    epochs: Count = 1
    cross_entropy: float = Field(1.0, ge=0)
    kl: float = Field(1.0, ge=0)
    validation_sessions: Natural
    validation_every: Positive | None = None
    checkpoint_activations: bool | Literal["auto"] = "auto"
    allow_torch_recurrence: bool = False
    workers: int = Field(1, ge=1, le=1000)
