"""The RoPE keys of a config.json, in the spellings of Transformers 4 and 5. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Llama3Scaling:
    """Llama 3's scaled RoPE: slow channels turn `factor` times slower, fast ones as before, with a ramp between.

    A channel is slow if it turns less than `low` times within `original_context` tokens, and fast if more than `high` times.
    """

    factor: float
    low: float
    high: float
    original_context: int

    def scaled(self, frequencies: Any) -> Any:
        """Return the frequencies (a tensor or an array, radians per position) after scaling."""
        turns = frequencies * (self.original_context / (2 * math.pi))
        kept = ((turns - self.low) / (self.high - self.low)).clip(0.0, 1.0)
        return frequencies * (kept + (1.0 - kept) / self.factor)


def read_rope(config: Mapping[str, Any], *, default_fraction: float) -> tuple[float, float]:
    """Return (theta, the fraction of each head's channels that is rotated).

    Raises ValueError for another type of RoPE (YaRN and the like): its frequencies follow other rules, and the auxiliary
    positions of the bank must follow the model's own.
    """
    parameters = _parameters(config)
    if _kind(parameters) not in ("default", "mrope", "llama3"):
        raise ValueError(f"RoPE of type {_kind(parameters)!r} is not supported; only 'default' and 'llama3' are")
    theta = parameters.get("rope_theta", config.get("rope_theta", 10_000.0))
    fraction = parameters.get("partial_rotary_factor", config.get("partial_rotary_factor", default_fraction))
    return float(theta), float(fraction)


def read_llama3_scaling(config: Mapping[str, Any]) -> Llama3Scaling | None:
    """Return the scaling of a RoPE of type `llama3`, None of another; KeyError names a key that is missing."""
    parameters = _parameters(config)
    if _kind(parameters) != "llama3":
        return None
    return Llama3Scaling(
        float(parameters["factor"]),
        float(parameters["low_freq_factor"]),
        float(parameters["high_freq_factor"]),
        int(parameters["original_max_position_embeddings"]),
    )


def _parameters(config: Mapping[str, Any]) -> dict[str, Any]:
    # Transformers 5 writes one mapping, Transformers 4 wrote rope_theta and rope_scaling beside each other.
    return dict(config.get("rope_parameters") or config.get("rope_scaling") or {})


def _kind(parameters: Mapping[str, Any]) -> str:
    return str(parameters.get("rope_type", parameters.get("type", "default")))
