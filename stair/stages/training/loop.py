"""Optimiser updates over sessions: the mean over an update's supervised responses of all workers."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from stair.stages.training.objective import ObjectiveParts
from stair.stages.training.optimizers import Optimizers, gradients, set_gradients
from stair.stages.training.teacher_forcing import RecordedTurn, TeacherForcing
from stair.stages.training.workers import Workers

Session = Sequence[RecordedTurn]


@dataclass(frozen=True)
class UpdateRecord:
    """One line of the training curve; means over the update's supervised responses."""

    update: int
    """From 1; line 0 holds the measurement before the first update."""
    loss: float | None = None
    """The weighted objective (Eq. 21)."""
    cross_entropy: float | None = None
    kl: float | None = None
    gradient_norm: float | None = None
    validation_loss: float | None = None
    """After the update, if it was measured."""
    sessions: int | None = None
    responses: int | None = None
    tokens: int | None = None
    """Supervised tokens."""
    beyond_context: int | None = None
    """Auxiliary positions beyond the model's context; None without a bank."""
    tokens_per_second: float | None = None
    peak_memory_mib: float | None = None
    """The peak of the first worker so far: allocated on its GPU, or of the process."""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Measurement:
    """Unweighted means over the supervised responses of sessions, which have equal numbers of them."""

    loss: float
    cross_entropy: float
    kl: float
    sessions: int
    responses: int


def session_cost(session: Session) -> float:
    """An estimate of a session's cost: teacher and student process every response after all earlier ones."""
    lengths = [len(turn.response_ids) for turn in session]
    return float(sum(lengths) + sum(sum(lengths[:turn]) for turn in range(1, len(lengths))))


class Training:
    """A student under training: `forcing` processes sessions, `workers` share those of an update."""

    def __init__(self, forcing: TeacherForcing, optimizers: Optimizers, workers: Workers | None = None) -> None:
        self.forcing, self.optimizers, self.workers = forcing, optimizers, workers or Workers()

    def run(
        self, updates: Sequence[Sequence[Session]], on_update: Callable[[UpdateRecord], None], *, first: int = 0
    ) -> None:
        """Runs the updates from number `first` on and calls `on_update` after each.

        Raises FloatingPointError if the loss or gradient of an update is not finite; the update is not applied.
        """
        for number in range(first, len(updates)):
            on_update(self.update(number, updates[number]))

    def update(self, number: int, sessions: Sequence[Session]) -> UpdateRecord:
        """One step on the mean over the update's supervised responses; `number` counts from 0."""
        started = time.monotonic()
        # The mean runs over the actual responses of the update on all workers.
        count = sum(len(session) - 1 for session in sessions)
        sums = torch.zeros(5, dtype=torch.float64)
        parameters = self.optimizers.parameters

        def supervise(turn: RecordedTurn, parts: ObjectiveParts) -> None:
            share = parts.loss * (turn.weight / count)
            if share.requires_grad:  # with an empty bank the normals have no influence
                _add_gradients(share, parameters)
            means = (float(share.detach()), float(parts.cross_entropy) / count, float(parts.kl) / count)
            sums[:3] += torch.tensor(means, dtype=torch.float64)

        for session in self.workers.share(sessions, session_cost):
            sums[3:] += torch.tensor(self.forcing.run(session, supervise), dtype=torch.float64)
        # The same for one worker: parameters without a gradient get zeros, and their step counts.
        total = self.workers.total(gradients(parameters))
        set_gradients(parameters, total)
        sums = self.workers.total(sums.to(total.device)).cpu()
        norm = float(total.norm())
        (loss, cross_entropy, kl), (tokens, beyond) = sums[:3].tolist(), map(int, sums[3:])
        if not (abs(loss) < float("inf") and norm < float("inf")):
            raise FloatingPointError(f"update {number + 1}: the loss is {loss}, its gradient's norm {norm}")
        self.optimizers.step(number)
        seconds = max(time.monotonic() - started, 1e-9)
        return UpdateRecord(
            update=number + 1,
            loss=loss,
            cross_entropy=cross_entropy,
            kl=kl,
            gradient_norm=norm,
            sessions=len(sessions),
            responses=count,
            tokens=tokens,
            beyond_context=beyond if self.forcing.student.reads else None,
            tokens_per_second=round(tokens / seconds, 1),
            peak_memory_mib=round(peak_memory(self.forcing.device) / 2**20, 1),
        )

    def measure(self, sessions: Sequence[Session]) -> Measurement | None:
        """The objective on sessions, without an update; None without sessions."""
        if not sessions:
            return None
        means = torch.zeros(len(sessions), 3, dtype=torch.float64)
        with torch.no_grad():
            for index in self.workers.share(range(len(sessions)), lambda index: session_cost(sessions[index])):
                self._measure_one(sessions[index], means[index])
        if self.workers.count > 1:
            means = self.workers.total(means.to(self.forcing.device)).cpu()
        loss, cross_entropy, kl = (sum(column.tolist()) / len(sessions) for column in means.unbind(1))
        return Measurement(loss, cross_entropy, kl, len(sessions), sum(len(session) - 1 for session in sessions))

    def _measure_one(self, session: Session, mean: Tensor) -> None:
        def supervise(_: RecordedTurn, parts: ObjectiveParts) -> None:
            mean.add_(
                torch.tensor([float(value) for value in parts], dtype=torch.float64), alpha=1 / (len(session) - 1)
            )

        self.forcing.run(session, supervise)


def _add_gradients(loss: Tensor, parameters: Mapping[str, nn.Parameter]) -> None:
    """Adds the gradients of a loss to the parameters', all or none: a turn may be tried again after running out of memory."""
    trained = list(parameters.values())
    for parameter, gradient in zip(trained, torch.autograd.grad(loss, trained, allow_unused=True), strict=True):
        if gradient is not None:
            parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)


def peak_memory(device: torch.device) -> int:
    """The peak of memory in bytes: allocated on a GPU, or resident in this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    # Kilobytes on Linux, bytes on macOS.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def with_validation(record: UpdateRecord, measured: Measurement | None) -> UpdateRecord:
    """The record with the validation loss after its update."""
    return record if measured is None else replace(record, validation_loss=measured.loss)
