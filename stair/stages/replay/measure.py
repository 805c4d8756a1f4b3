"""The replays of one history: its prefixes are computed once, its problems are measured behind each of them in batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from stair.models.prefix import Prefix
from stair.stages.replay.design.crossed import HistoryWork
from stair.stages.replay.measurement.categories import SourceTokens
from stair.stages.replay.measurement.probe import Probe, Turns
from stair.stages.replay.study import ReplayStudy


def replayed(
    study: ReplayStudy, network: Any, work: HistoryWork, sources: Sequence[SourceTokens]
) -> dict[str, np.ndarray]:
    """Returns the tensors of a history by `<depth>/<name>`, FP32 on the host, layers first, then problems.

    Args:
        study: the model's replay.
        network: the unmodified backbone.
        work: the history and its problems. The last batch and shorter turns are padded to one shape.
        sources: the history's prefixes by depth, each of which begins with the one before; the empty one for references.

    Raises:
        ValueError: a number is not finite; the message has the history and the tensor.
    """
    deepest, rows = study.settings.depth, study.settings.batch_problems
    turns = [study.prompts.turn(problem) for problem in work.problems]
    device = next(network.parameters()).device
    batches = [
        Turns.pad(turns[start : start + rows], rows=rows, columns=study.columns, device=device)
        for start in range(0, len(turns), rows)
    ]
    parts: dict[str, list[Tensor]] = defaultdict(list)
    prefix = Prefix.empty(network)
    for depth, source in zip(work.depths(deepest), sources, strict=True):
        prefix = prefix.extended(source.ids)
        reads = work.has_reads(depth, deepest)
        probe = Probe(network, study.settings.layers if reads else ())
        for batch in batches:
            measured = probe.measure(prefix, source.categories, batch)
            for name in ("block_outputs", "masses", *(("reads", "next_mlp") if reads else ())):
                parts[f"{depth}/{name}"].append(getattr(measured, name).transpose(0, 1).float().cpu())
            if depth == 0:  # which no history changes
                parts["0/embedding"].append(measured.embedding.float().cpu())
    arrays = {
        name: torch.cat(part, dim=0 if name == "0/embedding" else 1).contiguous().numpy()
        for name, part in parts.items()
    }
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            raise ValueError(
                f"{work.name}: {name} contains a number that is not finite, so the history is not kept; check the model's "
                "dtype and transformers.attention"
            )
    return arrays
