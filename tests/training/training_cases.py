"""Sessions, students of every kind, and the objective as printed: whole logits, the read as printed, autograd alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from stair.config.training import ControllerSettings
from stair.core import SMOOTHING, ReadSpecification
from stair.method import Attachment, Bank, BankFree, Read, Segment
from stair.sessions.renderer import Exchange, Renderer
from stair.stages.training.loop import Training
from stair.stages.training.objective import ObjectiveParts
from stair.stages.training.optimizers import Optimizers
from stair.stages.training.student import Student
from stair.stages.training.teacher_forcing import RecordedTurn, TeacherForcing
from tests.conftest import LAYERS

Session = list[RecordedTurn]
KINDS = ("stair", "bank_free", "lora", "lora_stair")


def settings(kind: str, **changes: Any) -> ControllerSettings:
    """A controller's settings for the small models."""
    parts: dict[str, Any] = {"kind": kind, "seed": "test"}
    if kind != "lora":
        parts |= {"layers": LAYERS, "optimizer": {"learning_rate": 0.02}}
    if kind.startswith("lora"):
        parts["adapter"] = {"warmup_updates": 1, "optimizer": {"learning_rate": 0.01}}
    return ControllerSettings.model_validate(parts | changes)


def session(renderer: Renderer, seed: int = 0, lengths: tuple[int, ...] = (9, 6, 11, 7)) -> Session:
    """Four recorded turns, one of which did not end; in thinking mode with a marker in three of them."""
    generator = torch.Generator().manual_seed(seed)
    turns = []
    for number, length in enumerate(lengths):
        ids = torch.randint(30, 250, (length,), generator=generator).tolist()
        if renderer.end_of_thinking is not None and number != 1:
            ids[length // 2] = renderer.end_of_thinking
        if number != 2:
            ids.append(renderer.stop_ids[0])
        turns.append(RecordedTurn(f"What is {number} + {seed}?", tuple(ids), 0.0 if number == 0 else 0.5 + number))
    return turns


@contextmanager
def student_of(
    model: PreTrainedModel, kind: str, dtype: torch.dtype = torch.float64, **changes: Any
) -> Iterator[Student]:
    """A student whose scales and adapter are not at the zeros that training starts from; the model is as it was afterwards."""
    student = Student.new(model, settings(kind, **changes), "small")
    generator = torch.Generator().manual_seed(11)
    if student.controller is not None:
        student.controller.to(dtype)
    for part, named in student.parts().items():
        for name, parameter in named.items():
            if isinstance(student.controller, BankFree) or (part == "adapter" and "lora_B" in name):
                parameter.data += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(dtype)
    try:
        yield student
    finally:
        if student.adapted is not None:
            student.adapted.unload()


def teacher_forcing(student: Student, renderer: Renderer, **options: Any) -> TeacherForcing:
    """Teacher-forced passes of the student."""
    return TeacherForcing(student=student, renderer=renderer, **options)


def training(student: Student, renderer: Renderer, kind: str, updates: int = 8, **options: Any) -> Training:
    """A training of the student."""
    return Training(teacher_forcing(student, renderer, **options), Optimizers(student, settings(kind), updates))


def kept(ids: tuple[int, ...], renderer: Renderer) -> int:
    """How many leading tokens of a response have states in the bank (appendix B.1)."""
    body = [token for token in ids if token not in renderer.stop_ids]
    if renderer.end_of_thinking in body:
        return len(body) - 1 - body[::-1].index(renderer.end_of_thinking)
    return min(len(body), len(ids) - 1)


def naive_objective(student: Student, renderer: Renderer, turns: Session, smoothing: float = SMOOTHING) -> Tensor:
    """The mean over T2 to T4 of w (CE + KL): no chunks, no cache, no checkpoints."""
    model, controller = student.model, student.controller
    bank, history, losses = Bank(LAYERS), [], []
    for number, turn in enumerate(turns):
        prompt = renderer.prompt_ids(history, turn.user)
        ids = torch.tensor([[*prompt, *turn.response_ids]])
        states: list[tuple[Tensor, Tensor]] = []

        def logits(prompt: list[int] = prompt, ids: Tensor = ids) -> Tensor:
            found = model(ids, attention_mask=torch.ones_like(ids), use_cache=False).logits
            return found[0, len(prompt) - 1 : -1].log_softmax(-1)

        attachment = Attachment(model, LAYERS, backend="naive")
        with torch.no_grad(), student.adapted.disable_adapter() if student.adapted else nullcontext():
            native = logits()
        header = list(renderer.user_header)
        start = max(place for place in range(len(prompt)) if prompt[place : place + len(header)] == header)
        keep = attachment.capturing(lambda _, keys, values, into=states: into.append((keys[0], values[0])))
        if number == 0:
            with keep:
                logits()
        else:
            rows = [
                None
                if controller is None
                else Read(bank, controller, (start, len(prompt)), ReadSpecification(smoothing=smoothing))
            ]
            with attachment.controlling(rows, torch.arange(ids.shape[1])[None]), keep:
                answer = logits()
            ce = torch.nn.functional.nll_loss(answer, ids[0, len(prompt) :])
            kl = (native.exp() * (native - answer)).sum(-1).mean()
            losses.append(turn.weight * (ce + kl))
        part = slice(len(prompt), len(prompt) + kept(turn.response_ids, renderer))
        keys, values = (
            torch.stack([layer[which][part].detach().transpose(0, 1) for layer in states]) for which in (0, 1)
        )
        bank.append(Segment(LAYERS, keys, values))
        history.append(Exchange(turn.user, renderer.visible_answer(turn.response_ids)))
    return torch.stack(losses).mean()


def gradient_of(forcing: TeacherForcing, turns: Session) -> tuple[float, Tensor]:
    """The update's objective and its gradient as one vector, as the training loop forms them."""
    total = 0.0

    def supervise(turn: RecordedTurn, parts: ObjectiveParts) -> None:
        nonlocal total
        share = parts.loss * (turn.weight / 3)
        share.backward()
        total += float(share.detach())

    forcing.run(turns, supervise)
    return total, taken_gradient(forcing.student)


def taken_gradient(student: Student) -> Tensor:
    """All gradients as one vector; they are gone from the parameters then."""
    found = []
    for named in student.parts().values():
        for parameter in named.values():
            assert parameter.grad is not None
            found.append(parameter.grad.flatten())
            parameter.grad = None
    return torch.cat(found)
