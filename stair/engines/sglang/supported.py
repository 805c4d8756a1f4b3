"""The limits of the SGLang engine, checked before anything is loaded. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

from stair.engines.base import Request, SamplingSettings

ARCHITECTURES = ("qwen3", "qwen3_5")
_ENGINE_KEYS = "rollouts.engine, models.<key>.rollout_engine, evaluation.engine, evaluation.engine_changes"
_OTHER_ENGINE = f"use the Transformers engine ({_ENGINE_KEYS})"


def check_architecture(name: str, device: str) -> None:
    """Raises ValueError if SGLang does not run an architecture on a device."""
    # Gated DeltaNet's kernels in SGLang are Triton's.
    known = ARCHITECTURES if device == "cuda" else ARCHITECTURES[:1]
    if name not in known:
        gpu = " (its kernels need a GPU)" if name in ARCHITECTURES else ""
        raise ValueError(f"SGLang on {device} runs {', '.join(known)}, not {name}{gpu}; {_OTHER_ENGINE}")


def check_sampling(sampling: SamplingSettings) -> None:
    """Raises ValueError if SGLang does not draw by the sampling law."""
    truncates = sampling.temperature > 0 and sampling.top_k and sampling.top_p < 1
    for wrong, problem in (
        (sampling.min_p != 0, f"min_p is {sampling.min_p}: SGLang crashes with seeds unless it is 0"),
        (
            sampling.repetition_penalty != 1,
            f"repetition_penalty is {sampling.repetition_penalty}: SGLang counts generated tokens only, the sampling law "
            "those of the prompt too; it must be 1",
        ),
        (
            abs(sampling.presence_penalty) > 2,
            f"presence_penalty is {sampling.presence_penalty}: SGLang takes -2 to 2",
        ),
        (
            truncates and sampling.truncation != "joint",
            "SGLang applies top_k and top_p jointly, not in sequence",
        ),
    ):
        if wrong:
            raise ValueError(f"{problem}; set it so, or {_OTHER_ENGINE}")


def check_request(request: Request, ends: Iterable[int]) -> None:
    """Raises ValueError if the engine cannot serve a request.

    Args:
        ends: the end tokens in the model folder's configuration, at which SGLang always stops.
    """
    name = f"request {request.key[:12]}"
    if request.read is not None or request.capture is not None or request.adapter is not None:
        raise ValueError(f"{name} reads, captures or has an adapter, which the SGLang engine does not do")
    if unknown := sorted(set(ends) - set(request.stop_ids)):
        raise ValueError(
            f"{name}: the model's own configuration ends at {unknown}, which the stop ids {request.stop_ids} lack"
        )
    check_sampling(request.sampling)
