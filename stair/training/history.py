"""The native model's keys and values of earlier text: a detached prefix of later turns (appendix B.4)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from transformers.cache_utils import Cache

from stair.backbones.architecture import Architecture
from stair.backbones.cached_layer import PrefixLayer


class NativeHistory:
    """The native model's keys and values of the last processed text, at every layer.

    A later turn's text begins with most of an earlier one's. Only tokens before the current user message are reused, up to
    the first difference.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._layers: list[tuple[Tensor, Tensor]] = []

    @staticmethod
    def supported(architecture: Architecture) -> bool:
        """Whether every layer is full attention; the recurrent state of a hybrid cannot be cut to a prefix."""
        return len(architecture.full_attention_layers) == architecture.layers

    def common_prefix(self, ids: Sequence[int], limit: int) -> int:
        """The number of leading tokens of `ids`, at most `limit`, whose keys and values are stored."""
        stored = min(len(self._ids), limit)
        return next((place for place in range(stored) if self._ids[place] != ids[place]), stored)

    def prefix(self, length: int) -> Cache | None:
        """The keys and values of the first `length` tokens, for a pass that does not extend them; None for no tokens."""
        return self._cache(length, grows=False) if length else None

    def growing(self, length: int, layers: int, like: Tensor, heads: tuple[int, int]) -> Cache:
        """The same, for a pass whose own states are stored afterwards (`store`)."""
        if not length:
            empty = like.new_empty(1, heads[0], 0, heads[1])
            return Cache(layers=[PrefixLayer(empty, empty, True) for _ in range(layers)])
        return self._cache(length, grows=True)

    def store(self, ids: Sequence[int], cache: Cache) -> None:
        """Replaces the stored states by those of a pass."""
        self._ids = list(ids)
        self._layers = [(layer.keys, layer.values) for layer in cache.layers if isinstance(layer, PrefixLayer)]

    def _cache(self, length: int, grows: bool) -> Cache:
        return Cache(
            layers=[PrefixLayer(keys[:, :, :length], values[:, :, :length], grows) for keys, values in self._layers]
        )
