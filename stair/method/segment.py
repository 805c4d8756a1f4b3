"""The captured states of one answer (appendix B.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from stair.method.storage import digest_tensors, read_tensors, write_tensors


class Segment:
    """Keys after key normalisation and before RoPE, and values after projection, of `tokens` consecutive tokens.

    `keys` and `values` are [layers, kv_heads, tokens, head_dim] of one dtype, detached here; do not write to them afterwards.
    `layers` are the zero-based layers they come from. Raises ValueError for shapes that do not fit.
    """

    def __init__(self, layers: Sequence[int], keys: Tensor, values: Tensor) -> None:
        if keys.dim() != 4 or keys.shape != values.shape or keys.dtype != values.dtype or keys.shape[0] != len(layers):
            raise ValueError(
                f"a segment of layers {list(layers)} cannot hold keys {list(keys.shape)} {keys.dtype} "
                f"and values {list(values.shape)} {values.dtype}"
            )
        self.layers = tuple(int(layer) for layer in layers)
        self.keys = keys.detach()
        self.values = values.detach()

    @classmethod
    def of_layers(cls, layers: Sequence[int], states: Sequence[tuple[Tensor, Tensor]]) -> Self:
        """Return the segment of each layer's keys and values, both [kv_heads, tokens, head_dim]."""
        keys, values = zip(*states, strict=True)
        return cls(layers, torch.stack(keys), torch.stack(values))

    @property
    def tokens(self) -> int:
        return self.keys.shape[2]

    @property
    def nbytes(self) -> int:
        """Bytes of keys and values together."""
        return self.keys.nbytes + self.values.nbytes

    @cached_property
    def digest(self) -> str:
        """SHA-256 over layers and the dtype, shape and bytes of keys and values; computed once."""
        return digest_tensors(f"segment {list(self.layers)}", {"keys": self.keys, "values": self.values})

    def pin(self) -> None:
        """Move the states to page-locked host memory, for copies beside other work. Does nothing without CUDA."""
        if torch.cuda.is_available() and not self.keys.is_pinned():
            self.keys, self.values = self.keys.cpu().pin_memory(), self.values.cpu().pin_memory()

    def save(self, path: str | Path, *, durable: bool = True) -> None:
        """Write a safetensors file, beside and renamed; its header holds layers and digest. `durable` as in `write_tensors`."""
        header = {"kind": "segment", "layers": self.layers, "digest": self.digest}
        write_tensors(path, {"keys": self.keys, "values": self.values}, header, durable=durable)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what `save` wrote, on the CPU. Raises ValueError for a damaged file: cut, of another kind, or altered."""
        tensors, header = read_tensors(path)
        if header.get("kind") != "segment" or set(tensors) != {"keys", "values"}:
            raise ValueError(f"{path} holds {header.get('kind', 'no segment')!r}, not a bank segment")
        try:
            segment = cls(header["layers"], tensors["keys"], tensors["values"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if segment.digest != header.get("digest"):
            raise ValueError(f"{path} is damaged: its content does not have the digest that its header names")
        return segment
