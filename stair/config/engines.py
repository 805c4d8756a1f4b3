"""The settings of the two engines, and the facts about engines that the configuration checks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from stair.config.field_types import Count, Positive, Share, Strict, Texts
from stair.config.sglang_arguments import decisive_arguments

EngineName = Literal["transformers", "sglang"]


class TransformersEngine(Strict):
    """The reference engine."""

    reads: ClassVar[bool] = True
    """Whether it reads banks, captures states and answers with adapters."""
    is_server: ClassVar[bool] = False
    """Whether it is a server of its own, with an environment of its own."""

    device: Literal["auto", "cpu", "cuda"] = Field(
        "auto", description="Where it computes; auto: a GPU if there is one."
    )
    attention: Literal["auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3"] = Field(
        "sdpa",
        description="Native attention's implementation; auto takes FlashAttention2 where it is installed and the model "
        "works in bfloat16 on a GPU, else sdpa. FlashAttention3 needs a Hopper GPU and the package flash-attn-3. Rows record "
        "what it was.",
    )
    batch_width: int = Field(ge=1, le=10_000, description="Rows of a decoding batch, always all computed.")
    prefill_width: int = Field(
        1, ge=1, le=10_000, description="Prompts that are processed together, padded to whole blocks."
    )
    prefill_chunk: Positive = Field(
        8192,
        multiple_of=64,  # Gated DeltaNet's own blocks
        description="Tokens of a prompt that are processed at once; bounds the memory of long conversations.",
    )
    cache_block: Positive = Field(
        multiple_of=32,  # partial vectors would make sums depend on how long a neighbour's cache is
        description="The cache grows and is read in whole blocks of this many positions.",
    )

    @property
    def gpus(self) -> int:
        """How many GPUs a job may use."""
        return 0 if self.device == "cpu" else 1

    @property
    def decisive(self) -> dict[str, Any]:
        """The settings that enter response keys."""
        return {"attention": self.attention}


class SGLangEngine(Strict):
    """SGLang's server, which every job that generates with it starts for itself."""

    reads: ClassVar[bool] = False
    is_server: ClassVar[bool] = True

    environment: str | None = Field(
        None,
        description="The folder of the server's own Python environment; null is the one that `make sglang-env` builds for "
        "the device, .venv-sglang-cpu or .venv-sglang-cuda.",
    )
    version: str = Field("0.5.23", description="The SGLang that must be in it; enters every response key.")
    device: Literal["cuda", "cpu"] = Field("cuda", description="Where it computes.")
    attention: Literal["fa3", "flashinfer", "triton", "torch_native"] = Field(
        "fa3", description="Attention backend; one with a deterministic mode. On a CPU: torch_native."
    )
    tensor_parallel: int = Field(1, ge=1, le=1000, description="GPUs that share the model.")
    memory_fraction: Share | None = Field(None, description="Share of GPU memory; null: SGLang decides.")
    cache_tokens: int | None = Field(None, ge=1, le=10**12, description="Tokens of the cache; null: SGLang decides.")
    concurrency: Count = Field(256, description="Requests that a job has under way. Changes no result.")
    start_seconds: float = Field(3600, gt=0, description="How long a server may take to load.")
    stall_seconds: float = Field(300, gt=0, description="The longest time without a sign of life.")
    arguments: Texts = Field((), description="Further arguments of `sglang.launch_server`.")

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
