"""A whole four-turn session: its gradients, and what is supervised (appendices B.4 and C)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from stair.config.model import Optimizer
from stair.conversation.renderer import Exchange, Renderer
from stair.method import Attachment, Bank, Reflector, RowControl, Segment
from stair.training.loop import UpdateRecord, train, validate
from stair.training.objective import ObjectiveParts
from stair.training.replay import RecordedTurn, SessionReplay
from tests.conftest import LAYERS

Models = Callable[..., PreTrainedModel]
Session = list[RecordedTurn]
ADAM = Optimizer(learning_rate=0.02)


def session(renderer: Renderer, seed: int = 0) -> Session:
    """Four recorded turns, one of which did not end; in thinking mode with a marker in three of them."""
    generator = torch.Generator().manual_seed(seed)
    turns = []
    for number, length in enumerate((9, 6, 11, 7)):
        ids = torch.randint(30, 250, (length,), generator=generator).tolist()
        if renderer.end_of_thinking is not None and number != 1:
            ids[length // 2] = renderer.end_of_thinking
        if number != 2:
            ids.append(renderer.stop_ids[0])
        turns.append(RecordedTurn(f"What is {number} + {seed}?", tuple(ids), 0.0 if number == 0 else 0.5 + number))
    return turns


@contextmanager
def replaying(
    model: PreTrainedModel, renderer: Renderer, dtype: torch.dtype = torch.float64, kl: float = 1.0
) -> Iterator[SessionReplay]:
    """What sessions are replayed with; the normals are drawn anew."""
    controller = Reflector.draw(LAYERS, 4, 16, seed=5).to(dtype)
    with Attachment(model, LAYERS) as attachment:
        yield SessionReplay(
            model=model,
            attachment=attachment,
            renderer=renderer,
            controller=controller,
            smoothing=1e-6,
            cross_entropy=1.0,
            kl=kl,
        )


def kept(ids: tuple[int, ...], renderer: Renderer) -> int:
    """How many leading tokens of a response have states in the bank (appendix B.1)."""
    body = [token for token in ids if token not in renderer.stop_ids]
    if renderer.end_of_thinking in body:
        return len(body) - 1 - body[::-1].index(renderer.end_of_thinking)
    return min(len(body), len(ids) - 1)


def naive_objective(model: PreTrainedModel, renderer: Renderer, controller: Reflector, turns: Session) -> Tensor:
    """The mean over T2 to T4 of w (CE + KL), with whole logits, the read as printed, and autograd alone."""
    bank, history, losses = Bank(LAYERS), [], []
    for number, turn in enumerate(turns):
        prompt = renderer.prompt_ids(history, turn.user)
        ids = torch.tensor([[*prompt, *turn.response_ids]])
        states: list[tuple[Tensor, Tensor]] = []

        def logits(attachment: Attachment, prompt: list[int] = prompt, ids: Tensor = ids) -> Tensor:
            found = model(ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
            return found[0, len(prompt) - 1 : -1].log_softmax(-1)

        with Attachment(model, LAYERS, backend="naive") as attachment:
            with torch.no_grad():
                native = logits(attachment)
            header = list(renderer.user_header)
            start = max(place for place in range(len(prompt)) if prompt[place : place + len(header)] == header)
            control = RowControl(controller, bank, (start, len(prompt)))
            keep = attachment.capturing(lambda _, keys, values, into=states: into.append((keys[0], values[0])))
            if number == 0:
                with keep:
                    logits(attachment)
            else:
                with attachment.controlling([control], torch.arange(ids.shape[1])[None]), keep:
                    student = logits(attachment)
                ce = torch.nn.functional.nll_loss(student, ids[0, len(prompt) :])
                kl = (native.exp() * (native - student)).sum(-1).mean()
                losses.append(turn.weight * (ce + kl))
        part = slice(len(prompt), len(prompt) + kept(turn.response_ids, renderer))
        keys, values = (
            torch.stack([layer[which][part].detach().transpose(0, 1) for layer in states]) for which in (0, 1)
        )
        bank.append(Segment(LAYERS, keys, values))
        history.append(Exchange(turn.user, renderer.visible_answer(turn.response_ids)))
    return torch.stack(losses).mean()


@pytest.fixture(params=["qwen3", "qwen3_5"])
def backbone(
    request: pytest.FixtureRequest, small_model: Models, renderer: Renderer, thinking_renderer: Renderer
) -> tuple[PreTrainedModel, Renderer]:
    """A model in float64 with the renderer of its mode."""
    model = small_model(request.param, torch.float64)
    return model, renderer if request.param == "qwen3" else thinking_renderer


def gradient_of(replay: SessionReplay, turns: Session) -> tuple[float, Tensor]:
    """The update's objective and its gradient, as the training loop forms them."""
    total = 0.0

    def supervise(turn: RecordedTurn, parts: ObjectiveParts) -> None:
        nonlocal total
        share = parts.loss * (turn.weight / 3)
        share.backward()
        total += float(share.detach())

    replay.run(turns, supervise)
    found = replay.controller.normals.grad
    assert found is not None
    return total, found


def test_the_gradient_of_a_session_is_that_of_the_objective_as_printed(
    backbone: tuple[PreTrainedModel, Renderer],
) -> None:
    model, renderer = backbone
    turns = session(renderer)
    with replaying(model, renderer) as replay:
        value, found = gradient_of(replay, turns)
        expected = naive_objective(model, renderer, replay.controller, turns)
        (wanted,) = torch.autograd.grad(expected, replay.controller.normals)
    assert value == pytest.approx(float(expected), rel=1e-9)
    assert wanted.norm() > 1e-3
    assert float((found - wanted).norm() / wanted.norm()) < 1e-8
    # Every head of every controlled layer learns.
    assert (found.norm(dim=-1) > 0).all()


def test_an_update_is_adamws_step_on_the_mean_over_its_responses(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    sessions = [session(renderer, seed) for seed in (0, 1)]
    told: list[UpdateRecord] = []
    with replaying(model, renderer) as replay:
        start = replay.controller.normals.detach().clone()
        train(replay, [sessions], ADAM, told.append)
        after = replay.controller.normals.detach()
    by_hand = Reflector(LAYERS, start).double()
    adam = torch.optim.AdamW(by_hand.parameters(), lr=0.02, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0)
    loss = torch.stack([naive_objective(model, renderer, by_hand, turns) for turns in sessions]).mean()
    loss.backward()
    adam.step()
    assert torch.allclose(after, by_hand.normals, rtol=1e-7, atol=1e-9)
    (record,) = told
    assert (record.sessions, record.responses) == (2, 6)
    assert record.tokens == sum(len(turn.response_ids) for turns in sessions for turn in turns[1:])
    assert record.loss == pytest.approx(float(loss), rel=1e-9)
    assert by_hand.normals.grad is not None
    assert record.gradient_norm == pytest.approx(float(by_hand.normals.grad.norm()), rel=1e-6)


def test_only_the_normals_learn(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    before = {name: parameter.clone() for name, parameter in model.named_parameters()}
    with replaying(model, renderer) as replay:
        start = replay.controller.normals.detach().clone()
        gradient_of(replay, session(renderer))
        assert [name for name, each in replay.controller.named_parameters() if each.grad is not None] == ["normals"]
        train(replay, [[session(renderer)]], ADAM, lambda _: None)
        assert not torch.equal(replay.controller.normals, start)
    for name, parameter in model.named_parameters():
        assert parameter.grad is None
        assert not parameter.requires_grad
        assert torch.equal(parameter, before[name])
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_first_turn_gives_history_and_bank_and_no_loss(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    turns, seen = session(renderer), []
    with replaying(model, renderer) as replay:
        tokens = replay.run(turns, lambda turn, parts: seen.append((turn, parts)))
    assert [turn for turn, _ in seen] == turns[1:]
    assert tokens == sum(len(turn.response_ids) for turn in turns[1:])
    assert all(parts.loss.requires_grad for _, parts in seen)
    # But its answer matters: through the bank and the visible history.
    other = [RecordedTurn(turns[0].user, tuple(reversed(turns[0].response_ids[:-1])), 0.0), *turns[1:]]
    changed = []
    with replaying(model, renderer) as replay:
        replay.run(other, lambda turn, parts: changed.append(parts))
    assert abs(float(changed[0].loss) - float(seen[0][1].loss)) > 1e-6


def test_without_a_read_the_student_is_its_teacher(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    """A first answer without states leaves an empty bank: nothing is read at T2, and nothing is learned from it."""
    model, renderer = backbone
    turns = session(renderer)
    turns[0] = RecordedTurn(turns[0].user, (renderer.stop_ids[0],), 0.0)
    seen = []
    with replaying(model, renderer) as replay:
        replay.run(turns, lambda turn, parts: seen.append(parts))
        assert float(seen[0].kl) == pytest.approx(0.0, abs=1e-12)
        assert not seen[0].loss.requires_grad
        assert float(seen[1].kl) > 1e-6
        train(replay, [[turns]], ADAM, lambda _: None)
        only_that = [turns[:2]]
        start = replay.controller.normals.detach().clone()
        records: list[UpdateRecord] = []
        train(replay, [only_that], ADAM, records.append)
        assert torch.equal(replay.controller.normals, start)
        assert records[0].gradient_norm == 0.0


def test_the_loss_falls_on_one_repeated_session(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    records: list[UpdateRecord] = []
    with replaying(model, renderer) as replay:
        train(replay, [[session(renderer)]] * 8, ADAM, records.append)
    losses = [record.loss for record in records]
    assert [record.update for record in records] == list(range(1, 9))
    assert losses[-1] < losses[0] - 0.02
    assert all(later < earlier for earlier, later in zip(losses[::2], losses[2::2], strict=False))


def test_training_twice_gives_the_same_bits(small_model: Models, renderer: Renderer) -> None:
    model, found = small_model("qwen3"), []
    for _ in range(2):
        with replaying(model, renderer, torch.float32) as replay:
            train(replay, [[session(renderer, seed)] for seed in range(3)], ADAM, lambda _: None)
            found.append(replay.controller.digest)
    assert found[0] == found[1]


def test_validation_measures_without_weights_and_changes_nothing(backbone: tuple[PreTrainedModel, Renderer]) -> None:
    model, renderer = backbone
    turns = session(renderer)
    heavy = [RecordedTurn(turn.user, turn.response_ids, 100.0) for turn in turns]
    with replaying(model, renderer) as replay:
        start = replay.controller.digest
        record = validate(replay, [turns, heavy])
        assert validate(replay, []) is None
        assert replay.controller.digest == start
        assert replay.controller.normals.grad is None
        parts: list[ObjectiveParts] = []
        replay.run(turns, lambda _, each: parts.append(each))
    assert record is not None
    assert record.responses == 6
    assert record.loss == pytest.approx(sum(float(each.loss) for each in parts) / 3)
    assert record.loss == pytest.approx(record.cross_entropy + record.kl)


def test_a_loss_that_is_not_finite_stops_before_the_step(small_model: Models, renderer: Renderer) -> None:
    turns = session(renderer)
    turns[1] = RecordedTurn(turns[1].user, turns[1].response_ids, float("inf"))
    with replaying(small_model("qwen3"), renderer, torch.float32) as replay:
        start = replay.controller.digest
        with pytest.raises(FloatingPointError, match="update 1: the loss is inf"):
            train(replay, [[turns]], ADAM, lambda _: None)
        assert replay.controller.digest == start
