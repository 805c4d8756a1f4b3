"""The replays of one shared history: its prefixes are computed once, every batch is measured behind each of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from stair.models.prefix import Prefix
from stair.stages.replay.design.crossed import Batch
from stair.stages.replay.measurement.categories import SourceTokens
from stair.stages.replay.measurement.probe import Probe, Turns
from stair.stages.replay.study import ReplayStudy


def replayed(
    study: ReplayStudy, network: Any, sources: Sequence[SourceTokens], batches: Iterable[Batch]
) -> Iterator[tuple[Batch, dict[str, np.ndarray]]]:
    """Yields each batch of one history with its tensors, FP32 on the host, in the shapes of `study.shapes`.

    Args:
        study: the model's replay.
        network: the unmodified backbone.
        sources: the history's prefixes by depth, each of which begins with the one before; the empty one for references.
        batches: the batches to measure; smaller ones and shorter turns are padded to one shape.

    Raises:
        ValueError: a number is not finite; the message has the batch and the tensor.
    """
    deepest = study.settings.depth
    plain, with_reads = Probe(network), Probe(network, study.settings.layers)
    prefix, prefixes = Prefix.empty(network), []
    for source in sources:
        prefix = prefix.extended(source.ids)
        prefixes.append(prefix)
    for batch in batches:
        turns = Turns.pad(
            [study.prompts.turn(problem) for problem in batch.problems],
            rows=study.settings.batch_problems,
            columns=study.columns,
            device=next(network.parameters()).device,
        )
        tensors: dict[str, Tensor] = {}
        for depth, source, computed in zip(batch.depths(deepest), sources, prefixes, strict=True):
            reads = batch.has_reads(depth, deepest)
            measured = (with_reads if reads else plain).measure(computed, source.categories, turns)
            for name in ("block_outputs", "masses", *(("reads", "next_mlp") if reads else ())):
                tensors[f"{depth}/{name}"] = getattr(measured, name).transpose(0, 1)  # layers first
            if depth == 0:
                tensors["0/embedding"] = measured.embedding
        arrays = {name: part.float().cpu().contiguous().numpy() for name, part in tensors.items()}
        for name, array in arrays.items():
            if not np.isfinite(array).all():
                raise ValueError(
                    f"{batch.name}: {name} contains a number that is not finite, so the batch is not kept; check the "
                    "model's dtype and transformers.attention"
                )
        yield batch, arrays
