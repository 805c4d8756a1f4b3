"""Keys and values that the native model computed for earlier text: a detached prefix of later turns (appendix B.4)."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor
from transformers.cache_utils import Cache

from stair.backbones.architecture import Architecture
from stair.backbones.cached_layer import PrefixLayer


class NativeHistory:
    """The native model's keys and values of the latest text that it processed, at every layer.

    A later turn's text begins with most of an earlier one's. Only what lies before the current user message is ever
    reused, and only as far as the tokens are the same.
    """

    def __init__(self) -> None:
        self._ids: list[int] = []
        self._layers: list[tuple[Tensor, Tensor]] = []

    @staticmethod
    def supported(architecture: Architecture) -> bool:
        """Whether every layer is full attention; the recurrent state of a hybrid has no prefix to cut off."""
        return len(architecture.full_attention_layers) == architecture.layers

    def shared(self, ids: Sequence[int], limit: int) -> int:
        """How many leading tokens of `ids`, at most `limit`, are known."""
        known = min(len(self._ids), limit)
        return next((place for place in range(known) if self._ids[place] != ids[place]), known)

    def prefix(self, length: int) -> Cache | None:
        """The first `length` tokens' keys and values, for a pass that leaves them as they are; None for no tokens."""
        return self._cache(length, grows=False) if length else None

    def growing(self, length: int, layers: int, like: Tensor, heads: tuple[int, int]) -> Cache:
        """The same, for a pass whose own states are to be known afterwards (`learn`)."""
        if not length:
            empty = like.new_empty(1, heads[0], 0, heads[1])
            return Cache(layers=[PrefixLayer(empty, empty, True) for _ in range(layers)])
        return self._cache(length, grows=True)

    def learn(self, ids: Sequence[int], cache: Cache) -> None:
        """Keeps a pass's states, in place of those known before."""
        self._ids = list(ids)
        self._layers = [(layer.keys, layer.values) for layer in cache.layers if isinstance(layer, PrefixLayer)]

    def _cache(self, length: int, grows: bool) -> Cache:
        return Cache(
            layers=[PrefixLayer(keys[:, :, :length], values[:, :, :length], grows) for keys, values in self._layers]
        )
