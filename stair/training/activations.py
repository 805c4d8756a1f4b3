"""Activation checkpointing: a layer keeps its input alone and is run again in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


@contextmanager
def checkpointed(model: Any, enabled: bool = True) -> Iterator[None]:
    """Checkpoints every decoder layer in the forwards inside that record a graph.

    Transformers' own switch wants the model in training mode, makes the embeddings require gradients, which draws every
    layer into the graph, and drops the cache. Layers before the first one with something to train keep nothing at all.
    """
    layers = model.get_decoder().layers if enabled else []

    def run(forward: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(partial(forward, **kwargs), *args, use_reentrant=False, preserve_rng_state=False)

    try:
        for layer in layers:
            layer.forward = partial(run, layer.forward)
        yield
    finally:
        for layer in layers:
            with suppress(AttributeError):  # the class's own forward shows again
                del layer.forward
