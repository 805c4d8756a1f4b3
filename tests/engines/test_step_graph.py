"""What a recorded decoding step relies on: its tensors keep their places while its kind stays (the GPU's part: tests/device)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from stair.engines.transformers import batch as batch_module
from stair.engines.transformers.slots import SlotCache
from stair.engines.transformers.step_graph import Forward, StepGraph
from tests.engines.engine_cases import assert_same, run, various


class RunAgain(StepGraph):
    """Launches by running the recorded forward on the recorded inputs; checks that memory is where it was."""

    made: list[RunAgain]

    def __init__(self, usable: bool, recording: Any) -> None:
        super().__init__(True, recording)
        self.cache: SlotCache = recording.__self__
        self.launches, self.kinds = 0, set[Hashable]()
        RunAgain.made.append(self)

    def prepare(self, kind: Hashable, forward: Forward, ids: Tensor, mask: Tensor) -> bool:
        ready = super().prepare(kind, forward, ids, mask)
        self.kinds |= {kind} if ready else set()
        return ready

    def places(self) -> list[int]:
        layers: list[Any] = self.cache.layers
        states = [
            (layer.keys, layer.values) if hasattr(layer, "keys") else (layer.conv_states[0], layer.recurrent_states[0])
            for layer in layers
        ]
        return [tensor.data_ptr() for pair in states for tensor in pair] + [self.cache.frontier.positions.data_ptr()]

    def _record(self, forward: Forward, ids: Tensor, mask: Tensor) -> None:
        self._forward, self._inputs, self._places = forward, (ids.clone(), mask.clone()), self.places()
        self._graph = self._logits = torch.empty(0)  # type: ignore[assignment]

    def launch(self, ids: Tensor, mask: Tensor) -> Tensor:
        self.launches += 1
        for ours, theirs in zip(self._inputs, (ids, mask), strict=True):
            ours.copy_(theirs)
        with self._recording():
            logits = self._forward(*self._inputs)
        assert self.places() == self._places
        return logits


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
def test_steps_of_one_kind_use_the_same_tensors_and_give_the_same_bits(
    small_model: Callable[..., PreTrainedModel], architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, requests = small_model(architecture), various(torch.float32)
    expected = run(model, requests)
    RunAgain.made = []
    monkeypatch.setattr(batch_module, "StepGraph", RunAgain)
    found = run(model, requests)
    (graph,) = RunAgain.made
    assert graph.launches > 20 and len(graph.kinds) > 1
    for each in requests:
        assert_same(found[each.key], expected[each.key])
