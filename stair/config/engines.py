"""The settings of the two engines, and the facts about engines that the configuration checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from stair.config.field_types import Count, Positive, Share, Strict, Texts
from stair.config.sglang_arguments import decisive_arguments
from stair.core import Truncation

EngineName = Literal["transformers", "sglang"]


class TransformersSettings(Strict):
    """The reference engine. It runs everything that the configuration allows."""

    reads: ClassVar[bool] = True
    """Whether it reads banks, captures states and answers with adapters."""
    is_server: ClassVar[bool] = False
    """Whether it is a server of its own, with an environment of its own."""
    truncation: ClassVar[Truncation] = "sequential"

    device: Literal["auto", "cpu", "cuda"] = "auto"
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3"] = "sdpa"
    batch_width: int = Field(ge=1, le=10_000)
    prefill_width: int = Field(1, ge=1, le=10_000)
    prefill_chunk: Positive = Field(8192, multiple_of=64)  # Gated DeltaNet's own blocks
    # Partial vectors would make sums depend on how long a neighbour's cache is.
    cache_block: Positive = Field(multiple_of=32)

    @property
    def gpus(self) -> int:
        """How many GPUs a job may use."""
        return 0 if self.device == "cpu" else 1

    @property
    def decisive(self) -> dict[str, Any]:
        """The settings that enter response keys."""
        return {"attention": self.attention}


class SGLangSettings(Strict):
    """SGLang's server, which every job that generates with it starts for itself."""

    reads: ClassVar[bool] = False
    is_server: ClassVar[bool] = True
    truncation: ClassVar[Truncation] = "joint"

    environment: str | None = None
    version: str = "0.5.23"
    device: Literal["cuda", "cpu"] = "cuda"
    attention: Literal["fa3", "flashinfer", "triton", "torch_native"] = "fa3"
    tensor_parallel: int = Field(1, ge=1, le=1000)
    memory_fraction: Share | None = None
    cache_tokens: int | None = Field(None, ge=1, le=10**12)
    concurrency: Count = 256
    start_seconds: float = Field(3600, gt=0)
    stall_seconds: float = Field(300, gt=0)
    arguments: Texts = ()

    @field_validator("arguments")
    @classmethod
    def _allowed(cls, arguments: tuple[str, ...]) -> tuple[str, ...]:
        decisive_arguments(arguments)
        return arguments

    @property
    def gpus(self) -> int:
        return self.tensor_parallel if self.device == "cuda" else 0

    @property
    def decisive(self) -> dict[str, Any]:
        """The settings that enter response keys; the arguments only where some can change a response."""
        arguments = decisive_arguments(self.arguments, self.tensor_parallel)
        settings = {"version": self.version, "attention": self.attention}
        return settings | ({"arguments": arguments} if arguments else {})

    @property
    def environment_folder(self) -> Path:
        """The folder of the server's environment."""
        return Path(self.environment or f".venv-sglang-{self.device}")
