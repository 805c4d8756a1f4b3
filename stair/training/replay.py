"""Teacher-forced replay of a four-turn session (appendix C.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from stair.conversation.renderer import Exchange, Renderer
from stair.conversation.spans import control_span
from stair.method import Attachment, Bank, Reflector, RowControl, Segment, capture_length
from stair.training.objective import ObjectiveParts, response_objective


@dataclass(frozen=True)
class RecordedTurn:
    """A recorded problem and response."""

    user: str
    response_ids: tuple[int, ...]
    """As stored: end markers included; an incomplete response has what it has."""
    weight: float
    """The problem-balancing weight w_r."""


@dataclass(frozen=True)
class SessionReplay:
    """What a session is replayed with.

    Args:
        model: the frozen backbone, eval mode.
        attachment: hooks on the controlled layers.
        renderer: renders the ordinary history, as at evaluation.
        controller: the reflectors that are trained.
        smoothing: epsilon of the reference distribution.
        cross_entropy, kl: coefficients of the objective.
    """

    model: Any
    attachment: Attachment
    renderer: Renderer
    controller: Reflector
    smoothing: float
    cross_entropy: float
    kl: float

    def run(self, turns: Sequence[RecordedTurn], supervise: Callable[[RecordedTurn, ObjectiveParts], None]) -> int:
        """Replays a session; returns the number of supervised tokens.

        T1 runs on the native path and supplies history and bank. T2 to T4 run on the student path, supervised: `supervise` is
        called with each one's objective while its graph is alive. The bank grows by detached states and ends with the call.
        """
        bank = Bank(self.controller.layers)
        history: list[Exchange] = []
        tokens = 0
        for number, turn in enumerate(turns):
            prompt = self.renderer.prompt_ids(history, turn.user)
            ids = torch.tensor([[*prompt, *turn.response_ids[:-1]]], device=self.device)
            last = number == len(turns) - 1
            if number == 0:
                with torch.no_grad():
                    segment = self._forward(ids, len(prompt), turn)[1]
            else:
                with torch.no_grad():
                    teacher = self._hidden(ids, len(prompt))
                tokens += len(turn.response_ids)
                segment = self._student(ids, prompt, turn, bank, teacher, supervise)
            if not last:
                bank.append(segment)
                history.append(Exchange(turn.user, self.renderer.visible_answer(turn.response_ids)))
        return tokens

    @property
    def device(self) -> torch.device:
        """Where the backbone is."""
        return next(self.model.parameters()).device

    def _student(
        self,
        ids: Tensor,
        prompt: Sequence[int],
        turn: RecordedTurn,
        bank: Bank,
        teacher: Tensor,
        supervise: Callable[[RecordedTurn, ObjectiveParts], None],
    ) -> Segment:
        span = control_span(prompt, self.renderer.user_header)
        control = RowControl(controller=self.controller, bank=bank, span=span, smoothing=self.smoothing)
        positions = torch.arange(ids.shape[1], device=ids.device)[None]
        # The control stays in force until after the backward pass, which may run layers again.
        with self.attachment.controlling([control], positions):
            student, segment = self._forward(ids, len(prompt), turn)
            parts = response_objective(
                student,
                teacher,
                self.model.get_output_embeddings().weight,
                torch.tensor(turn.response_ids, device=ids.device),
                cross_entropy=self.cross_entropy,
                kl=self.kl,
            )
            supervise(turn, parts)
        return segment

    def _hidden(self, ids: Tensor, prompt: int) -> Tensor:
        """Last hidden states `[response tokens, hidden]`: the last prompt position predicts the first response token."""
        output = self.model.get_decoder()(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            position_ids=torch.arange(ids.shape[1], device=ids.device)[None],
            use_cache=False,
        )
        return output.last_hidden_state[0, prompt - 1 :]

    def _forward(self, ids: Tensor, prompt: int, turn: RecordedTurn) -> tuple[Tensor, Segment]:
        """One pass with capture: hidden states as `_hidden`, and the detached states that the turn gives to the bank."""
        length = capture_length(
            turn.response_ids,
            processed=len(turn.response_ids) - 1,
            end_of_thinking=self.renderer.end_of_thinking,
            stop_ids=self.renderer.stop_ids,
        )
        states: dict[int, tuple[Tensor, Tensor]] = {}

        def sink(index: int, keys: Tensor, values: Tensor) -> None:
            kept = slice(prompt, prompt + length)
            states[index] = (keys[0, kept].detach().transpose(0, 1), values[0, kept].detach().transpose(0, 1))

        with self.attachment.capturing(sink):
            hidden = self._hidden(ids, prompt)
        order = range(len(self.controller.layers))
        keys, values = (torch.stack([states[index][part] for index in order]).contiguous() for part in (0, 1))
        return hidden, Segment(self.controller.layers, keys, values)
