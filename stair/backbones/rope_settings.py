"""The RoPE keys of a config.json, in the spellings of Transformers 4 and 5. Imports no torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def read_rope(config: Mapping[str, Any], *, default_theta: float, default_fraction: float) -> tuple[float, float]:
    """Return (theta, the fraction of each head's channels that is rotated).

    Raises ValueError for a scaled RoPE (YaRN and the like): its frequencies follow other rules, and the auxiliary
    positions of the bank must follow the model's own.
    """
    # Transformers 5 writes one mapping, Transformers 4 wrote rope_theta and rope_scaling beside each other.
    parameters = dict(config.get("rope_parameters") or config.get("rope_scaling") or {})
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind not in ("default", "mrope"):
        raise ValueError(f"RoPE of type {kind!r} is not supported; only the unscaled 'default' is")
    theta = parameters.get("rope_theta", config.get("rope_theta", default_theta))
    fraction = parameters.get("partial_rotary_factor", config.get("partial_rotary_factor", default_fraction))
    return float(theta), float(fraction)
