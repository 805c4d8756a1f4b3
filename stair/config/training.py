"""Training responses, the orders of sessions, the controllers and their training."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from stair.config.engines import EngineName
from stair.config.field_types import Count, Key, Keys, Layers, Natural, Positive, Shards, Strict, Text, Texts, once


class MissingRollout(Strict):
    """A training response that no attempt could generate."""

    model: Key = Field(description="The model's key.")
    record: Text = Field(description="The source record; the shard that failed names it.")
    sample: int = Field(ge=0, le=3, description="The sample, from 0.")
    reason: Text = Field(description="The error, one line.")


def _named_once(gaps: tuple[MissingRollout, ...]) -> tuple[MissingRollout, ...]:
    return once(gaps, lambda gap: f"{gap.record}, sample {gap.sample} of {gap.model}")


class Rollouts(Strict):
    """Training responses."""

    samples: Literal[4] = Field(4, description="Responses to a source record: one for each of the four turn columns.")
    engine: EngineName = Field("transformers", description="The engine that generates them; a model can have another.")
    shards: Shards = Field(description="How many jobs share a model's rollouts. Changes no result.")
    seed: Text = Field("rollouts", description="Enters every sample's seed.")
    missing: Annotated[tuple[MissingRollout, ...], Field(strict=False), AfterValidator(_named_once)] = Field(
        (),
        description="Training responses that no attempt could generate: each is left out, by name, and its record is in no "
        "session. Where a log has one nevertheless, it is used.",
    )


class Sessions(Strict):
    """Four-turn sessions for training and the evaluation's schedule."""

    seed: Text = Field("sessions", description="Names every order that is drawn.")


class Optimizer(Strict):
    """AdamW."""

    learning_rate: float = Field(gt=0, description="Learning rate.")
    weight_decay: float = Field(0.0, ge=0, description="Decoupled weight decay.")
    betas: tuple[float, float] = Field((0.9, 0.999), strict=False, description="Decay rates of the moments.")
    eps: float = Field(1e-8, gt=0, description="Added to the denominator.")


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

    rank: Count = Field(2, description="Rank of every update.")
    alpha: Positive = Field(4, description="Numerator of the update's scale, alpha / rank.")
    projections: Texts = Field(
        ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
        min_length=1,
        description="Projections that are adapted, in all layers.",
    )
    warmup_updates: Natural = Field(description="Updates of linear warm-up; then a cosine to zero.")
    optimizer: Optimizer = Field(description="The optimiser's settings; its learning rate is the schedule's peak.")


class Controller(Strict):
    """Something that is trained on a frozen backbone."""

    kind: Literal["stair", "bank_free", "lora", "lora_stair"] = Field(
        description="What it is: reflected reads of the bank, scales that read no bank, an adapter, or an adapter with reads."
    )
    models: Keys | None = Field(None, description="The models it is trained for; null is all.")
    layers: Layers | None = Field(None, description="Controlled layers with full attention, from 0. Null for lora.")
    smoothing: float = Field(1e-6, ge=1e-12, lt=1, description="Epsilon of the reference distribution (Eq. 6).")
    seed: Text = Field(description="Names the initial values and the order of sessions.")
    optimizer: Optimizer | None = Field(None, description="The optimiser of normals or scales. Null for lora.")
    adapter: Adapter | None = Field(None, description="The adapter of lora and lora_stair.")

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


class Training(Strict):
    """What all controllers share."""

    sessions_per_update: Positive = Field(8, description="Four-turn sessions in an optimiser step.")
    epochs: Count = Field(1, description="Passes over the training sessions.")
    cross_entropy: float = Field(1.0, ge=0, description="Coefficient of the cross entropy.")
    kl: float = Field(1.0, ge=0, description="Coefficient lambda of KL(native || student) (Eq. 10).")
    validation_sessions: Natural = Field(description="Sessions of each kind whose loss is measured.")
    validation_every: Positive | None = Field(
        None, description="Updates between measurements; null: before and after alone."
    )
    checkpoint_activations: bool | Literal["auto"] = Field(
        "auto",
        description="Whether the backward pass runs layers again; auto: as many as the GPU's free memory requires.",
    )
    allow_torch_recurrence: bool = Field(
        False, description="Whether a hybrid is trained on a GPU without flash-linear-attention; slow."
    )
    workers: int = Field(1, ge=1, le=1000, description="Processes that share an update, one GPU each.")
