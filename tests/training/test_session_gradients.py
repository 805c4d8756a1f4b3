"""A whole four-turn session: its gradients, and what is supervised (appendices B.4 and B.5)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from stair.method import Reflector
from stair.sessions.renderer import Exchange, Renderer
from stair.stages.training.loop import UpdateRecord
from stair.stages.training.objective import ObjectiveParts
from stair.stages.training.teacher_forcing import Recompute, RecordedTurn
from tests.conftest import LAYERS
from tests.training.training_cases import (
    KINDS,
    gradient_of,
    naive_objective,
    session,
    student_of,
    taken_gradient,
    teacher_forcing,
    training,
)

Models = Callable[..., PreTrainedModel]
every = pytest.mark.parametrize("backbone", ["qwen3", "qwen3_5", "llama"], indirect=True)


@pytest.fixture(params=["qwen3_5"])
def backbone(
    request: pytest.FixtureRequest, small_model: Models, renderer: Renderer, thinking_renderer: Renderer
) -> tuple[PreTrainedModel, Renderer]:
    """A model in float64 with the renderer of its mode; the hybrid where one shows it."""
    model = small_model(request.param, torch.float64)
    return model, renderer if request.param != "qwen3_5" else thinking_renderer


@every
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_a_session_is_that_of_the_objective_as_printed(
    backbone: tuple[PreTrainedModel, Renderer], kind: str
) -> None:
    model, renderer = backbone
    turns, every_way = session(renderer), ({}, {"recompute": Recompute.LAYERS})
    with student_of(model, kind) as student:
        results = [gradient_of(teacher_forcing(student, renderer, **options), turns) for options in every_way]
        expected = naive_objective(student, renderer, turns)
        expected.backward()
        wanted = taken_gradient(student)
    assert wanted.norm() > 1e-3
    for (value, found), options in zip(results, every_way, strict=True):
        assert value == pytest.approx(float(expected.detach()), rel=1e-9), options
        assert float((found - wanted).norm() / wanted.norm()) < 1e-8, options
        if kind == "stair":  # every head of every controlled layer learns
            assert (found.view(len(LAYERS), 4, 16).norm(dim=-1) > 0).all()


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-10), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("kind", ["bank_free", "lora_stair"])
def test_recomputation_changes_no_number(
    kind: str,
    dtype: torch.dtype,
    bound: float,
    small_model: Models,
    thinking_renderer: Renderer,
) -> None:
    turns = session(thinking_renderer)
    with student_of(small_model("qwen3_5", dtype), kind, dtype) as student:
        found = [gradient_of(teacher_forcing(student, thinking_renderer, recompute=what), turns) for what in Recompute]
    loss, gradient = found[0]
    for again, again_gradient in found[1:]:
        assert again == pytest.approx(loss, rel=bound)
        assert (again_gradient - gradient).norm() <= bound * gradient.norm()
    (loss, gradient), (again, again_gradient) = found[1:]
    assert again == loss and torch.equal(again_gradient, gradient)


def test_the_reference_has_the_controllers_smoothing(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    turns = session(renderer)
    with student_of(model, "stair", smoothing=0.3) as student:
        value, found = gradient_of(teacher_forcing(student, renderer), turns)
        expected = naive_objective(student, renderer, turns, smoothing=0.3)
        expected.backward()
        wanted = taken_gradient(student)
    assert value == pytest.approx(float(expected.detach()), rel=1e-9)
    assert float((found - wanted).norm() / wanted.norm()) < 1e-8


def test_an_update_is_adamws_step_on_the_mean_over_its_responses(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    sessions = [session(renderer, seed) for seed in (0, 1)]
    with student_of(model, "stair") as student:
        assert student.controller is not None
        start = student.controller.weights.detach().clone()
        record = training(student, renderer, "stair").update(0, sessions)
        after = student.controller.weights.detach().clone()
        student.controller.weights.data.copy_(start)
        adam = torch.optim.AdamW(
            student.controller.parameters(), lr=0.02, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0
        )
        loss = torch.stack([naive_objective(student, renderer, turns) for turns in sessions]).mean()
        loss.backward()
        assert student.controller.weights.grad is not None
        norm = float(student.controller.weights.grad.norm())
        adam.step()
        assert torch.allclose(after, student.controller.weights, rtol=1e-7, atol=1e-9)
    assert (record.sessions, record.responses) == (2, 6)
    assert record.tokens == sum(len(turn.response_ids) for turns in sessions for turn in turns[1:])
    assert record.loss == pytest.approx(float(loss.detach()), rel=1e-9)
    assert record.gradient_norm == pytest.approx(norm, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_only_what_is_trained_learns(backbone: tuple[PreTrainedModel, Renderer], kind: str) -> None:
    model, renderer = backbone
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    with student_of(model, kind) as student:
        start = {
            f"{part}.{name}": each.detach().clone()
            for part, named in student.parts().items()
            for name, each in named.items()
        }
        assert set(student.parts()) == {"controller", "adapter"} - (
            {"adapter"} if "lora" not in kind else {"controller"} if kind == "lora" else set()
        )
        course = training(student, renderer, kind)
        for number in range(2):  # the first update of a warm-up changes nothing
            course.update(number, [session(renderer)])
        for part, named in student.parts().items():
            for name, each in named.items():
                assert not torch.equal(each, start[f"{part}.{name}"]), (part, name)
        trained = {id(each) for named in student.parts().values() for each in named.values()}
        assert all(
            each.grad is None and not each.requires_grad for each in model.parameters() if id(each) not in trained
        )
    assert {name for name, _ in model.named_parameters()} == set(before)
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_an_adapter_has_the_seven_projections_of_all_layers(small_model: Models) -> None:
    model = small_model("qwen3", torch.float64)
    with student_of(model, "lora") as student:
        adapted = {name.rsplit(".", 3)[0] for name in student.parts()["adapter"]}
        seven = {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
        assert {name.rsplit(".", 1)[1] for name in adapted} == seven
        assert len(adapted) == 7 * 4
        assert all(
            name.endswith((".lora_A.default.weight", ".lora_B.default.weight")) for name in student.parts()["adapter"]
        )


def test_the_first_turn_gives_history_and_bank_and_no_loss(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    turns, seen = session(renderer), []
    with student_of(model, "stair") as student:
        forcing = teacher_forcing(student, renderer)
        counts = forcing.run(turns, lambda turn, parts: seen.append((turn, parts)))
        assert [turn for turn, _ in seen] == turns[1:]
        assert counts.tokens == sum(len(turn.response_ids) for turn in turns[1:])
        assert all(parts.loss.requires_grad for _, parts in seen)
        # But its answer matters: through the bank and the visible history.
        other = [RecordedTurn(turns[0].user, tuple(reversed(turns[0].response_ids[:-1])), 0.0), *turns[1:]]
        changed: list[ObjectiveParts] = []
        forcing.run(other, lambda turn, parts: changed.append(parts))
    assert abs(float(changed[0].loss) - float(seen[0][1].loss)) > 1e-6


def test_banks_come_from_the_native_path_at_t1_then_from_the_student_and_never_from_the_teacher(
    backbone: tuple[PreTrainedModel, Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Appendix B.1: of every pass through the model, whether the branch is on and whether states are captured."""
    model, renderer = backbone
    passes: list[list[str]] = []
    active: list[str] = []
    with student_of(model, "stair") as student:

        def noted(name: str, original: Callable[..., AbstractContextManager[object]]) -> Callable[..., object]:
            @contextmanager
            def within(*given: object) -> Iterator[object]:
                active.append(name)
                with original(*given) as result:
                    yield result
                active.remove(name)

            return within

        for name in ("controlling", "capturing"):
            monkeypatch.setattr(student.attachment, name, noted(name, getattr(student.attachment, name)))
        layers = model.get_decoder().layers
        hook = layers[0].register_forward_pre_hook(lambda *_: passes.append(sorted(active)))  # type: ignore[union-attr]
        try:
            teacher_forcing(student, renderer).run(session(renderer), lambda turn, parts: None)
        finally:
            hook.remove()
    teacher: list[str] = []
    t1, student_path, without_successor = ["capturing"], ["capturing", "controlling"], ["controlling"]
    assert passes == [t1, teacher, student_path, teacher, student_path, teacher, without_successor]


def test_an_adapter_acts_on_history_and_first_turn(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    """With the reads fixed, the joint model's bank and history carry the adapter's terms; STAIR's carry none."""
    model, renderer = backbone
    turns = session(renderer)
    banks: dict[str, list[torch.Tensor]] = {"stair": [], "lora_stair": []}
    for kind, found in banks.items():
        with student_of(model, kind) as student:
            assert student.attachment is not None

            def look(index: int, keys: torch.Tensor, values: torch.Tensor, into: list[torch.Tensor] = found) -> None:
                into.append(values.detach().clone())

            capturing = student.attachment.capturing
            student.attachment.capturing = lambda sink, capturing=capturing: capturing(  # type: ignore[method-assign]
                lambda *state: (look(*state), sink(*state))[1]
            )
            teacher_forcing(student, renderer).run(turns, lambda turn, parts: None)
    first, joint = banks["stair"][0], banks["lora_stair"][0]
    assert first.shape == joint.shape
    assert ((first - joint).abs().amax((0, 2, 3)) > 1e-4).all()


def test_without_a_read_the_student_is_its_teacher(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    """A first answer without states leaves an empty bank: nothing is read at T2, and nothing is learned from it."""
    model, renderer = backbone
    turns = session(renderer)
    turns[0] = RecordedTurn(turns[0].user, (renderer.stop_ids[0],), 0.0)
    seen: list[ObjectiveParts] = []
    with student_of(model, "stair") as student:
        course = training(student, renderer, "stair")
        course.forcing.run(turns, lambda turn, parts: seen.append(parts))
        assert float(seen[0].kl) == pytest.approx(0.0, abs=1e-12)
        assert not seen[0].loss.requires_grad
        assert float(seen[1].kl) > 1e-6
        assert student.controller is not None
        start = student.controller.weights.detach().clone()
        record = course.update(0, [turns[:2]])
        assert torch.equal(student.controller.weights, start)
        assert record.gradient_norm == 0.0


@pytest.mark.parametrize("kind", KINDS)
def test_training_starts_from_the_native_model_but_for_the_read(
    backbone: tuple[PreTrainedModel, Renderer], kind: str
) -> None:
    from stair.stages.training.student import Student
    from tests.training.training_cases import settings

    model, renderer = backbone
    student = Student.new(model, settings(kind), "small")
    try:
        seen: list[ObjectiveParts] = []
        with torch.no_grad():
            teacher_forcing(student, renderer).run(session(renderer), lambda turn, parts: seen.append(parts))
        divergences = [float(parts.kl) for parts in seen]
        if kind in ("stair", "lora_stair"):
            assert min(divergences) > 1e-6
        else:
            assert max(abs(one) for one in divergences) < 1e-12
        if isinstance(student.controller, Reflector):
            assert student.controller.weights.dtype == torch.float32
    finally:
        if student.adapted is not None:
            student.adapted.unload()


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_falls_on_one_repeated_session(backbone: tuple[PreTrainedModel, Renderer], kind: str) -> None:
    model, renderer = backbone
    records: list[UpdateRecord] = []
    with student_of(model, kind) as student:
        training(student, renderer, kind).run([[session(renderer)]] * 8, records.append)
    losses = [record.loss for record in records if record.loss is not None]
    assert [record.update for record in records] == list(range(1, 9))
    assert losses[-1] < losses[0] - 0.02


def test_no_ids_come_back_from_the_device(
    backbone: tuple[PreTrainedModel, Renderer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a GPU, such a copy waits for all work under way."""
    model, renderer = backbone
    turns = session(renderer)
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: pytest.fail(f"{tuple(tensor.shape)} was copied"))
    with student_of(model, "stair") as student:
        counts = teacher_forcing(student, renderer).run(turns, lambda turn, parts: None)
    assert counts.tokens == sum(len(turn.response_ids) for turn in turns[1:])


class Counted:
    """Counts the tokens that every layer processes."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.tokens = [0] * len(model.model.layers)
        self.handles = [
            layer.mlp.register_forward_pre_hook(lambda _, args, number=number: self._add(number, args[0].shape[1]))
            for number, layer in enumerate(model.model.layers)
        ]

    def _add(self, number: int, tokens: int) -> None:
        self.tokens[number] += tokens

    def __enter__(self) -> Counted:
        return self

    def __exit__(self, *_: object) -> None:
        for handle in self.handles:
            handle.remove()


def counted(model: PreTrainedModel, renderer: Renderer, kind: str, **options: Any) -> list[int]:
    with student_of(model, kind) as student, Counted(model) as counts:
        gradient_of(teacher_forcing(student, renderer, **options), session(renderer))
    return counts.tokens


def test_layers_before_the_first_controlled_one_are_not_run_again(
    backbone: tuple[PreTrainedModel, Renderer],
) -> None:
    model, renderer = backbone
    plain = counted(model, renderer, "stair")
    again = counted(model, renderer, "stair", recompute=Recompute.LAYERS)
    assert len(set(plain)) == 1
    assert again[: LAYERS[0]] == plain[: LAYERS[0]]
    assert all(more > less for more, less in zip(again[LAYERS[0] :], plain[LAYERS[0] :], strict=True))
    # An adapter is in the first layer already.
    assert min(counted(model, renderer, "lora", recompute=Recompute.LAYERS)) > max(counted(model, renderer, "lora"))
    assert all("forward" not in vars(layer) for layer in model.model.layers)


@every
def test_earlier_text_is_processed_once_where_the_architecture_has_a_prefix(
    backbone: tuple[PreTrainedModel, Renderer],
) -> None:
    model, renderer = backbone
    prompts: list[int] = []
    history: list[Exchange] = []
    for turn in session(renderer):
        prompts.append(len(renderer.prompt_ids(history, turn.user)) + len(turn.response_ids) - 1)
        history.append(Exchange(turn.user, renderer.visible_answer(turn.response_ids)))
    whole, found = prompts[0] + 2 * sum(prompts[1:]), counted(model, renderer, "stair")[0]
    if model.config.model_type == "qwen3_5_text":
        assert found == whole
    else:
        assert found < 0.6 * whole
