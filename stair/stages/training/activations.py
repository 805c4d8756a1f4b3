"""Activation checkpointing: a layer keeps only its input and is recomputed in the backward pass."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint


@contextmanager
def checkpointed(model: Any, enabled: bool = True) -> Iterator[None]:
    """Checkpoints every decoder layer in the forward passes inside that record a graph.

    Transformers' own switch needs the model in training mode, makes the embeddings require gradients, so that every layer
    joins the graph, and drops the cache. Layers before the first trained one keep nothing.
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
            with suppress(AttributeError):  # restores the class's forward
                del layer.forward
