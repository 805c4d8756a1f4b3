"""The attention mask as a model's own code takes it."""

from __future__ import annotations

from typing import Any

from torch import Tensor


def layer_masks(model: Any, full: Tensor, linear: Tensor | None) -> Tensor | dict[str, Tensor | None]:
    """Return the mask of full attention, or one mask by kind of layer where the model has kinds of layers."""
    if getattr(model.config, "layer_types", None) is None:
        return full
    return {"full_attention": full, "linear_attention": linear}
