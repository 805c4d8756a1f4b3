"""Optimiser updates over sessions: one epoch, eight sessions an update, the final update is the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import torch

from stair.config.model import Optimizer
from stair.training.objective import ObjectiveParts
from stair.training.replay import RecordedTurn, SessionReplay

Session = Sequence[RecordedTurn]


@dataclass(frozen=True)
class UpdateRecord:
    """One line of the training curve; means over the update's supervised responses."""

    update: int
    loss: float
    """The weighted objective (eq. method-weighted-objective)."""
    cross_entropy: float
    kl: float
    gradient_norm: float
    sessions: int
    responses: int
    tokens: int

    def as_dict(self) -> dict[str, float]:
        """For the curve's CSV."""
        return asdict(self)


@dataclass(frozen=True)
class ValidationRecord:
    """Unweighted means over the supervised responses of the validation sessions."""

    loss: float
    cross_entropy: float
    kl: float
    responses: int


def train(
    replay: SessionReplay,
    updates: Sequence[Sequence[Session]],
    optimizer: Optimizer,
    told: Callable[[UpdateRecord], None],
) -> None:
    """Trains the replay's controller in place.

    Args:
        replay: what sessions are replayed with.
        updates: the sessions of every update, in order.
        optimizer: AdamW's settings.
        told: called after every update.

    Raises:
        FloatingPointError: an update's loss or gradient is not finite.
    """
    adam = torch.optim.AdamW(
        replay.controller.parameters(),
        lr=optimizer.learning_rate,
        betas=optimizer.betas,
        eps=optimizer.eps,
        weight_decay=optimizer.weight_decay,
    )
    for number, sessions in enumerate(updates, start=1):
        responses = sum(len(session) - 1 for session in sessions)
        total = ce = kl = 0.0
        tokens = 0

        def supervise(turn: RecordedTurn, parts: ObjectiveParts, count: int = responses) -> None:
            nonlocal total, ce, kl
            # The update's mean runs over the responses that it really has.
            share = parts.loss * (turn.weight / count)
            if share.requires_grad:  # an empty bank leaves nothing to read, and the normals without influence
                share.backward()
            total += float(share.detach())
            ce += float(parts.cross_entropy) / count
            kl += float(parts.kl) / count

        for session in sessions:
            tokens += replay.run(session, supervise)
        gradients = [p.grad for p in replay.controller.parameters() if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0
        if not (abs(total) < float("inf") and norm < float("inf")):
            raise FloatingPointError(f"update {number}: the loss is {total}, its gradient's norm {norm}")
        adam.step()
        adam.zero_grad(set_to_none=True)
        told(UpdateRecord(number, total, ce, kl, norm, len(sessions), responses, tokens))


def validate(replay: SessionReplay, sessions: Sequence[Session]) -> ValidationRecord | None:
    """The objective on validation sessions, without an update; None where there are none."""
    sums, count = [0.0, 0.0, 0.0], 0

    def supervise(turn: RecordedTurn, parts: ObjectiveParts) -> None:
        nonlocal count
        count += 1
        for index, value in enumerate(parts):
            sums[index] += float(value)

    with torch.no_grad():
        for session in sessions:
            replay.run(session, supervise)
    if not count:
        return None
    loss, cross_entropy, kl = (value / count for value in sums)
    return ValidationRecord(loss, cross_entropy, kl, count)
