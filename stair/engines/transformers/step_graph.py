"""A decoding step recorded as a CUDA graph: the host launches one graph instead of about 900 kernels."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from contextlib import suppress

import torch
from torch import Tensor

Forward = Callable[[Tensor, Tensor], Tensor]
"""The model's pass over one token a row: (ids, mask) to logits. All else that it reads and writes keeps its place in memory."""

FORWARDS = 3
"""Steps of one kind that are run before the next one is recorded: they choose and compile kernels, and many kinds end sooner."""


class StepGraph:
    """Runs decoding steps; on a GPU it records a step that repeats, and launches the recording from then on.

    A recorded step has the kernels of the step, in their order, on the same tensors, so it gives the same bits. When a recording
    fails, as where memory does not suffice for it, a warning says so, and the steps of this batch run as they are; the next
    batch tries again. Nothing is recorded unless `usable`.
    """

    def __init__(self, usable: bool) -> None:
        self._usable = usable
        self._kind: Hashable = None
        self._forwards = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: tuple[Tensor, ...] = ()
        self._logits: Tensor | None = None

    def prepare(self, kind: Hashable, forward: Forward, ids: Tensor, mask: Tensor) -> bool:
        """Return whether `launch` can run this step; record it first if it has repeated often enough.

        Steps of one `kind` have equal shapes. As long as the recording is launched, they have the same tensors behind them.
        """
        if kind != self._kind:
            self._kind, self._forwards = kind, 0
            self._graph = self._logits = None
        if self._graph is None and self._usable and self._forwards >= FORWARDS:
            self._record(forward, ids, mask)
        self._forwards += 1
        return self._graph is not None

    def launch(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return the step's logits. They are written again by the next launch."""
        assert self._graph is not None and self._logits is not None
        for ours, theirs in zip(self._inputs, (ids, mask), strict=True):
            ours.copy_(theirs)
        self._graph.replay()
        return self._logits

    def _record(self, forward: Forward, ids: Tensor, mask: Tensor) -> None:
        inputs, graph, pool = (ids.clone(), mask.clone()), torch.cuda.CUDAGraph(), torch.cuda.graph_pool_handle()
        stream = torch.cuda.current_stream(ids.device)
        try:
            # Other threads may go on using the GPU.
            with (
                torch.cuda.device(ids.device),
                torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"),
            ):
                logits = forward(*inputs)
        except RuntimeError as error:
            # Out of memory, too: a recording cannot give cached memory back, so the step itself may still fit.
            self._usable = False
            # A recording that CUDA breaks off leaves its stream current, and the allocator in the recording's pool.
            torch.cuda.set_stream(stream)
            with suppress(RuntimeError):
                torch._C._cuda_endAllocateToPool(ids.device.index, pool)
            reason = (str(error.__context__ or error).splitlines() or ["no reason is given"])[0]
            print(
                "warning: a decoding step cannot be recorded as a CUDA graph; this batch decodes without one, up to five times "
                f"slower: {reason}",
                file=sys.stderr,
                flush=True,
            )
            return
        self._graph, self._inputs, self._logits = graph, inputs, logits
