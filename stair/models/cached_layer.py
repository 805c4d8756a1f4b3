"""One layer's keys and values of a prefix, as a cache before the rows of a pass."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer


class PrefixLayer(DynamicLayer):
    """Keys and values before those of a pass, which are appended only if `grows` is true.

    The prefix [1, kv_heads, tokens, head_dim] serves every row of a pass. A layer that does not grow can serve several
    passes, and a backward pass that computes it again.
    """

    def __init__(self, keys: Tensor, values: Tensor, grows: bool) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys: Tensor = keys
        self.values: Tensor = values
        self.grows = grows

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Return the prefix with the new states behind it."""
        rows = key_states.shape[0]
        keys = torch.cat([self.keys.expand(rows, -1, -1, -1), key_states], dim=-2)
        values = torch.cat([self.values.expand(rows, -1, -1, -1), value_states], dim=-2)
        if self.grows:
            self.keys, self.values = keys, values
        return keys, values
