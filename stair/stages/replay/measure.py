"""The replays of one shared history: its prefixes are computed once, every batch is measured behind each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from stair.models.prefix import Prefix
from stair.stages.replay.batch_files import Shapes, Unit
from stair.stages.replay.measurement.probe import Measured, Probe, Turns
from stair.stages.replay.prompts import Prompts, SourceTokens


class Replayer:
    """Measures a model's batches behind shared histories.

    Args:
        model: the unmodified backbone.
        prompts: its prompts.
        shapes: the shapes of the tensors that come out.
        rows: current problems of a batch; a smaller one is padded with rows that are dropped.
        columns: tokens of the longest current turn; shorter ones are padded on the right.
    """

    def __init__(self, model: Any, prompts: Prompts, shapes: Shapes, *, rows: int, columns: int) -> None:
        self._model, self._prompts, self._shapes = model, prompts, shapes
        self._rows, self._columns = rows, columns
        self._device = next(model.parameters()).device
        self._plain, self._with_reads = Probe(model), Probe(model, shapes.measured)

    def replay(
        self, sources: Sequence[SourceTokens], units: Sequence[Unit]
    ) -> Iterator[tuple[Unit, dict[str, np.ndarray]]]:
        """Yields each unit of one history with its tensors, FP32 on the host, in the shapes of `Shapes`.

        `sources` are the history's prefixes by depth, each of which begins with the one before; the empty one for references.
        Raises ValueError, with the batch and the tensor, for a number that is not finite.
        """
        prefix, prefixes = Prefix.empty(self._model), []
        for source in sources:
            prefix = prefix.extended(source.ids)
            prefixes.append(prefix)
        for unit in units:
            turns = Turns.pad(
                [self._prompts.turn(problem) for problem in unit.batch.problems],
                rows=self._rows,
                columns=self._columns,
                device=self._device,
            )
            tensors: dict[str, Tensor] = {}
            for depth, source, computed in zip(unit.depths(self._shapes.deepest), sources, prefixes, strict=True):
                reads = unit.has_reads(depth, self._shapes.deepest)
                probe = self._with_reads if reads else self._plain
                measured = probe.measure(computed, source.categories, turns)
                tensors |= {f"{depth}/{name}": part for name, part in _named(measured, depth, reads).items()}
            arrays = {name: part.float().cpu().contiguous().numpy() for name, part in tensors.items()}
            for name, array in arrays.items():
                if not np.isfinite(array).all():
                    raise ValueError(
                        f"{unit.name}: {name} contains a number that is not finite, so the batch is not kept; check the "
                        "model's dtype and transformers.attention"
                    )
            yield unit, arrays


def _named(measured: Measured, depth: int, reads: bool) -> dict[str, Tensor]:
    """The tensors of one depth, layers first."""
    tensors = {"block_outputs": measured.block_outputs.transpose(0, 1), "masses": measured.masses.transpose(0, 1)}
    if depth == 0:
        tensors["embedding"] = measured.embedding
    if reads:
        tensors |= {"reads": measured.reads.transpose(0, 1), "next_mlp": measured.next_mlp.transpose(0, 1)}
    return tensors
