"""A turn that runs out of memory is tried again with all layers run again, and no part of its first gradient is kept."""

from __future__ import annotations

import weakref

import pytest
import torch
from torch.autograd.graph import saved_tensors_hooks
from transformers import PreTrainedModel

from stair.sessions.renderer import Renderer
from stair.stages.training import teacher_forcing as forcing
from stair.stages.training.loop import UpdateRecord
from stair.stages.training.objective import ObjectiveParts
from stair.stages.training.teacher_forcing import Recompute, RecordedTurn
from tests.conftest import random_model
from tests.training.training_cases import session, student_of, teacher_forcing, training

NO_MEMORY = "CUDA out of memory. Tried to allocate 3.00 GiB.\nMore of it."
LIBRARY = RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")


class SmallDevice:
    """Runs out of memory in the n-th pass that keeps the states of layer 2: there, or in its backward pass."""

    def __init__(self, model: PreTrainedModel, number: int, place: str) -> None:
        self.number, self.place = number, place
        self.errors = 0
        self.kept: list[int] = []
        """The tokens of the passes that keep states."""
        self.failed: list[weakref.ref[torch.Tensor]] = []
        self.handle = model.get_decoder().layers[2].register_forward_hook(self._after)

    def _after(self, layer: torch.nn.Module, _: object, output: torch.Tensor) -> None:
        if not torch.is_grad_enabled():
            return
        assert all(result() is None for result in self.failed), "the tensors of the failed pass are gone"
        if "forward" in vars(layer):  # it runs again
            return
        self.kept.append(output.shape[1])
        if len(self.kept) == self.number:
            self.failed.append(weakref.ref(output))
            if self.place == "forward":
                self._fail()
            output.register_hook(lambda _: self._fail())

    def _fail(self) -> None:
        self.errors += 1
        if self.place == "library":
            raise LIBRARY
        raise torch.OutOfMemoryError(NO_MEMORY)


def trained(
    renderer: Renderer,
    kind: str,
    recompute: Recompute,
    number: int = 0,
    place: str = "",
    sessions: int = 1,
    architecture: str = "qwen3",
) -> tuple[UpdateRecord, list[torch.Tensor], SmallDevice]:
    """An update: its record, the trained parameters, the device."""
    model = random_model(architecture)
    device = SmallDevice(model, number, place)
    with student_of(model, kind, torch.float32) as student:
        course = training(student, renderer, kind, recompute=recompute)
        record = course.update(1, [session(renderer, seed) for seed in range(sessions)])
        parameters = [each.detach().clone() for named in student.parts().values() for each in named.values()]
    return record, parameters, device


@pytest.mark.parametrize(
    ("architecture", "kind", "place"),
    [
        *(("qwen3", kind, place) for kind in ("stair", "lora_stair") for place in ("forward", "backward", "library")),
        ("qwen3_5", "stair", "backward"),
        ("qwen3_5", "lora", "forward"),
    ],
)
def test_the_gradients_are_those_of_a_training_that_runs_all_layers_again(
    architecture: str, kind: str, place: str, renderer: Renderer, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bit for bit, whichever turn it is."""
    wanted, parameters, _ = trained(renderer, kind, recompute=Recompute.LAYERS, architecture=architecture)
    for number in (1, 2, 3):
        record, found, device = trained(renderer, kind, Recompute.NOTHING, number, place, architecture=architecture)
        assert device.errors == 1
        assert all(torch.equal(one, other) for one, other in zip(found, parameters, strict=True)), number
        assert (record.loss, record.gradient_norm, record.tokens) == (wanted.loss, wanted.gradient_norm, wanted.tokens)
        assert capsys.readouterr().out.count("warning: out of memory in a turn of ") == 1


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
def test_the_last_resort_keeps_the_input_of_each_layer_in_host_memory(
    architecture: str, renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted, parameters, _ = trained(renderer, "lora", Recompute.LAYERS, architecture=architecture)
    kept: list[tuple[int, ...]] = []

    def host() -> saved_tensors_hooks:
        return saved_tensors_hooks(lambda tensor: kept.append(tuple(tensor.shape)) or tensor, lambda tensor: tensor)

    monkeypatch.setattr(forcing, "save_on_cpu", host)
    record, found, _ = trained(renderer, "lora", Recompute.FROM_HOST, architecture=architecture)
    assert record.loss == wanted.loss and all(map(torch.equal, found, parameters))
    shape = random_model(architecture).config
    assert [(one, width) for one, _, width in kept] == [(1, shape.hidden_size)] * 3 * shape.num_hidden_layers


def test_turns_of_that_length_then_begin_with_all_layers(renderer: Renderer) -> None:
    """T3 of the first session fails; an adapter processes the whole text, so T4 of all sessions are longer."""
    _, _, device = trained(renderer, "lora", Recompute.NOTHING, 2, "forward", sessions=3)
    _, failed, *later = device.kept
    assert later and max(later) < failed
    assert len(device.kept) <= 9 - 3


def test_a_session_that_does_not_fit_is_named_with_the_remedy(renderer: Renderer) -> None:
    attempts = []

    def supervise(turn: RecordedTurn, parts: ObjectiveParts) -> None:
        attempts.append(turn)
        raise torch.OutOfMemoryError(NO_MEMORY)

    said = (
        r"^a session whose responses have 10, 7, 11, 8 tokens does not fit the device's memory, with all layers run again too "
        r"\(CUDA out of memory\. Tried to allocate 3\.00 GiB\.\); use a larger device; docs/training\.md says what it needs$"
    )
    turns = session(renderer)
    with (
        student_of(random_model("qwen3"), "stair", torch.float32) as student,
        pytest.raises(ValueError, match=said),
    ):
        teacher_forcing(student, renderer).run(turns, supervise)
    assert attempts == [turns[1]] * 3
