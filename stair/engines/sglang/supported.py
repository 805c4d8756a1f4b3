"""The limits of the SGLang engine, checked before anything is loaded. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterable

from stair.engines.base import Request, SamplingSettings

ARCHITECTURES = ("qwen3", "qwen3_5")
_PENALTY = 2.0
_ENGINE_KEYS = "rollouts.engine, models.<key>.rollout_engine, evaluation.engine, evaluation.engine_changes"
_OTHER_ENGINE = f"use the Transformers engine ({_ENGINE_KEYS})"


def check_sampling(sampling: SamplingSettings) -> None:
    """Raises ValueError, with the setting, the reason and the remedy, if SGLang does not draw by the sampling law."""
    instead = f"; set it so, or {_OTHER_ENGINE}"
    if sampling.min_p:
        raise ValueError(f"min_p is {sampling.min_p}: SGLang crashes with seeds unless min_p is 0{instead}")
    if sampling.repetition_penalty != 1.0:
        raise ValueError(
            f"repetition_penalty is {sampling.repetition_penalty}: SGLang counts generated tokens only, the sampling law "
            f"those of the prompt too; it must be 1{instead}"
        )
    if abs(sampling.presence_penalty) > _PENALTY:
        raise ValueError(f"presence_penalty is {sampling.presence_penalty}: SGLang takes -2 to 2{instead}")
    truncates = sampling.temperature > 0 and sampling.top_k and sampling.top_p < 1
    if truncates and sampling.truncation != "joint":
        raise ValueError(f"SGLang applies top_k and top_p jointly, not in sequence{instead}")


def check_architecture(name: str, device: str) -> None:
    """Raises ValueError if SGLang does not run an architecture on a device."""
    # Gated DeltaNet's kernels in SGLang are Triton's.
    known = ARCHITECTURES if device == "cuda" else ARCHITECTURES[:1]
    if name not in known:
        gpu = " (its kernels need a GPU)" if name in ARCHITECTURES else ""
        raise ValueError(f"SGLang on {device} runs {', '.join(known)}, not {name}{gpu}; {_OTHER_ENGINE}")


def check_request(request: Request, tokens: int, ends: Iterable[int]) -> None:
    """Raises ValueError if the engine cannot serve a request.

    Args:
        tokens: the number of the tokenizer's tokens.
        ends: the end tokens in the model folder's configuration, at which SGLang always stops.
    """
    name = f"request {request.key[:12]}"
    if request.read is not None or request.capture is not None or request.adapter is not None:
        raise ValueError(f"{name} reads, captures or has an adapter, which the SGLang engine does not do")
    # An id beyond the vocabulary kills the server.
    bad = [token for token in (*request.prompt_ids, *request.stop_ids) if not 0 <= token < tokens]
    if bad:
        raise ValueError(f"{name}: token {bad[0]} is outside the vocabulary of {tokens}")
    if not request.stop_ids:
        raise ValueError(f"{name} has no stop ids")
    if unknown := sorted(set(ends) - set(request.stop_ids)):
        raise ValueError(
            f"{name}: the model's own configuration ends at {unknown}, which the stop ids {request.stop_ids} lack"
        )
    try:
        check_sampling(request.sampling)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
