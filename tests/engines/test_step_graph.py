"""What a recorded decoding step relies on: its tensors keep their places while its kind stays (the GPU's part: tests/device)."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from stair.engines.transformers import batch as batch_module
from stair.engines.transformers import step_graph
from stair.engines.transformers.slots import SlotCache
from stair.engines.transformers.step_graph import Forward, StepGraph
from tests.engines.engine_cases import assert_same, request, run, various
from tests.flash_attention import flash_model, use_flash_attention


class Watched(SlotCache):
    made: list[Watched]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        Watched.made.append(self)


class RunAgain(StepGraph):
    """Launches by running the recorded forward on the recorded inputs; checks that memory is where it was."""

    made: list[RunAgain]

    def __init__(self, usable: bool) -> None:
        super().__init__(True)
        self.cache = Watched.made[-1]
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
        logits = self._forward(*self._inputs)
        assert self.places() == self._places
        return logits


def watch(monkeypatch: pytest.MonkeyPatch) -> None:
    RunAgain.made, Watched.made = [], []
    monkeypatch.setattr(batch_module, "StepGraph", RunAgain)
    monkeypatch.setattr(batch_module, "SlotCache", Watched)


def test_steps_of_one_kind_use_the_same_tensors_and_give_the_same_bits(
    small_model: Callable[..., PreTrainedModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    model, requests = small_model("qwen3_5"), various(torch.float32)
    expected = run(model, requests)
    watch(monkeypatch)
    found = run(model, requests)
    (graph,) = RunAgain.made
    assert graph.launches > 20 and len(graph.kinds) > 1
    for each in requests:
        assert_same(found[each.key], expected[each.key])


@pytest.mark.parametrize(
    ("architecture", "attention", "kinds"),
    [("qwen3", "flash_attention_2", 4), ("qwen3_5", "flash_attention_3", 4), ("qwen3_5", "sdpa", 7)],
)
def test_a_step_is_recorded_again_only_where_its_shapes_change(
    architecture: str, attention: str, kinds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that takes lengths reads the whole cache: new shapes come with its growth, not with each block of 8."""
    use_flash_attention(monkeypatch, attention)
    watch(monkeypatch)
    requests = [request(f"{number}", 24, 60, stop_ids=(), capture=None) for number in range(2)]
    model = flash_model(architecture, torch.float64, attention)
    assert len(run(model, requests, width=2, block=8)) == 2
    (graph,) = RunAgain.made
    assert len(graph.kinds) == kinds


@pytest.mark.parametrize(
    "error", [RuntimeError("operation not permitted"), torch.OutOfMemoryError("CUDA out of memory.")]
)
def test_a_recording_that_fails_is_reported_and_concerns_its_own_batch(
    error: RuntimeError, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(step_graph, "torch", FakeCuda())
    monkeypatch.setattr(FakeCuda.cuda, "error", error)
    ids, mask = torch.zeros(2, 1), torch.zeros(2, 1)
    for _ in range(2):
        graph = StepGraph(True)
        for _ in range(2 * step_graph.FORWARDS):
            assert not graph.prepare(0, lambda ids, mask: ids, ids, mask)
        (warning,) = capsys.readouterr().err.splitlines()
        assert warning.startswith("warning: ") and warning.endswith(str(error))


class FakeCuda:
    """torch with a device on which no step can be recorded."""

    class cuda:
        error = RuntimeError()
        CUDAGraph = set_stream = staticmethod(lambda *_: None)
        graph_pool_handle = current_stream = staticmethod(lambda *_: None)
        device = staticmethod(lambda _: nullcontext())

        @staticmethod
        def graph(*_: object, **__: object) -> None:
            raise FakeCuda.cuda.error

    class _C:
        _cuda_endAllocateToPool = staticmethod(lambda *_: None)
