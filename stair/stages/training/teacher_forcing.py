"""Teacher forcing over a recorded session of four turns (appendix B.4, session replay)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from stair.method import Bank, Segment, capture_length
from stair.models.architecture import describe
from stair.models.attention import needs_no_mask
from stair.models.device_and_dtype import out_of_memory
from stair.models.prefix import Prefix
from stair.sessions.positions import beyond_context
from stair.sessions.renderer import Exchange, Renderer
from stair.sessions.spans import control_span
from stair.stages.training.objective import ObjectiveParts, response_objective
from stair.stages.training.operations import Span, pass_operations, turn_operations
from stair.stages.training.student import Student, last_hidden
from stair.stages.training.turn_memory import Turn, layers_to_recompute


@contextmanager
def checkpointed(model: Any, count: int) -> Iterator[None]:
    """Recomputes the first `count` decoder layers in the backward pass of the forward passes inside.

    Transformers' own switch needs the model in training mode, makes the embeddings require gradients, so that every layer joins
    the graph, and drops the cache. Layers before the first trained one keep nothing.
    """
    layers = model.get_decoder().layers[:count]

    def run(forward: Any, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(partial(forward, **kwargs), *args, use_reentrant=False, preserve_rng_state=False)

    try:
        for layer in layers:
            layer.forward = partial(run, layer.forward)
        yield
    finally:
        for layer in layers:
            with suppress(AttributeError):  # restores the class's forward
                del layer.forward


Timer = Callable[[str], AbstractContextManager[None]]
"""A context around each part of the work, for measurements of time and memory."""


@dataclass(frozen=True)
class RecordedTurn:
    """A recorded problem and response."""

    user: str
    response_ids: Sequence[int]
    """The stored ids with end markers; those of an incomplete response have none."""
    weight: float
    """The problem-balancing weight w_r."""


class SessionCounts(NamedTuple):
    tokens: int
    """Supervised tokens."""
    beyond_context: int
    """Auxiliary positions beyond the model's context, of queries and of bank entries; 0 where no bank is read."""
    operations: float
    """Operations of the passes and their backward passes, without those of layers that run again (`training.operations`)."""


@dataclass
class TeacherForcing:
    """Teacher-forced passes of a student over recorded sessions.

    Args:
        renderer: renders the ordinary history, as at evaluation.
        cross_entropy, kl: coefficients of the objective.
        reuse_history: whether later turns reuse the native keys and values of earlier text, if the architecture has only full
            attention and, for the student, no adapter changes them.
        recomputed: first decoder layers that run again in the backward pass; None: as many as a turn needs on a GPU, and all on
            a CPU, whose free memory says little. A turn that runs out of memory is tried again with all layers.
        timer: entered around each part of the work, with its name.
        recompute_from: processed tokens of a turn from which all layers run again: of the shortest turn that ran out of memory.
    """

    student: Student
    renderer: Renderer
    cross_entropy: float = 1.0
    kl: float = 1.0
    reuse_history: bool = True
    recomputed: int | None = 0
    timer: Timer = lambda part: nullcontext()
    recompute_from: float = math.inf

    def run(
        self, turns: Sequence[RecordedTurn], supervise: Callable[[RecordedTurn, ObjectiveParts], None]
    ) -> SessionCounts:
        """Processes a session.

        T1 gives history and bank. T2 to T4 run on the student path; `supervise` is called with each one's objective while its
        graph exists, and again if it runs out of memory. The bank grows by detached states of the student path.
        Raises ValueError if the session does not fit the device's memory.
        """
        try:
            return self._run(turns, supervise)
        except RuntimeError as error:
            if not out_of_memory(error):
                raise
            lengths = ", ".join(str(len(turn.response_ids)) for turn in turns)
            raise ValueError(
                f"a session whose responses have {lengths} tokens does not fit the device's memory, with all layers run again "
                f"too ({(str(error).splitlines() or [''])[0]}); use a larger device; docs/training.md estimates its memory"
            ) from None

    def _run(
        self, turns: Sequence[RecordedTurn], supervise: Callable[[RecordedTurn, ObjectiveParts], None]
    ) -> SessionCounts:
        session = _Session(self)
        tokens = 0
        for number, turn in enumerate(turns):
            last = number == len(turns) - 1
            if number == 0:
                session.first(turn)
            else:
                tokens += len(turn.response_ids)
                session.supervised(turn, supervise, last)
            session.history.append(Exchange(turn.user, self.renderer.visible_answer(turn.response_ids)))
        return SessionCounts(tokens, session.beyond_context, session.operations)

    def layers_to_recompute(self, turn: Turn) -> int:
        """The first decoder layers that run again in the backward pass of this turn, whose student pass comes next."""
        student, device = self.student, self.device
        if device.type != "cuda":
            return len(student.model.get_decoder().layers)
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return layers_to_recompute(
            student.model.config.to_dict(),
            turn,
            torch.cuda.mem_get_info(device)[0] + cached,
            weights=0,
            layers=student.layers,
            trained=0,
            adapts=student.adapts,
            width=student.model.dtype.itemsize,
            flash=needs_no_mask(student.model),
        )

    @property
    def device(self) -> torch.device:
        return next(self.student.model.parameters()).device


class _Text(NamedTuple):
    """A turn's prompt and response without its last token, which predicts nothing."""

    prompt: list[int]
    ids: list[int]
    """All processed ids; a copy from the device would wait for its work."""
    tensor: Tensor
    """The same ids on the device, `[1, tokens]`."""


class _Session:
    """The state of one session: its visible history, its bank, and the native model's keys and values of its text."""

    def __init__(self, forcing: TeacherForcing) -> None:
        self.forcing, self.student = forcing, forcing.student
        self.model = forcing.student.model
        self.history: list[Exchange] = []
        self.config = self.model.config.to_dict()
        self.facts = describe(self.config)
        controller = self.student.controller
        self.bank = Bank(controller.layers) if controller is not None and self.student.reads else None
        reuse = forcing.reuse_history and Prefix.can_be_cut(self.facts)
        self.native = Prefix.empty(self.model) if reuse else None
        self.beyond_context = 0
        self.operations = 0.0

    def first(self, turn: RecordedTurn) -> None:
        """T1: the native path, or the adapter's, without a loss. Without a bank only its text is needed."""
        if self.bank is None:
            return
        text = self._text(turn)
        self.operations += sum(pass_operations(self.config, Span(0, len(text.ids))))
        if self.student.adapts:
            with self.forcing.timer("student forward"), torch.no_grad():
                _, segment = self._captured(turn, text, known=0)
        else:
            with self.forcing.timer("teacher"), self.student.native():
                _, segment = self._captured(turn, text, known=0, native=True)
        self.bank.append(segment)

    def supervised(
        self, turn: RecordedTurn, supervise: Callable[[RecordedTurn, ObjectiveParts], None], last: bool
    ) -> None:
        """T2 to T4: the teacher and the student on the same text, the objective, and the student's states for the bank."""
        forcing, student = self.forcing, self.student
        text = self._text(turn)
        prompt, tokens = len(text.prompt), len(text.ids)
        span = control_span(text.prompt, forcing.renderer.user_header)
        if self.bank is not None:
            beyond = beyond_context(self.bank.tokens, span[1] - span[0], prompt, self.facts.context)
            self.beyond_context += sum(beyond)
        known = self.native.common_tokens(text.ids, span[0]) if self.native is not None else 0
        with forcing.timer("teacher"), student.native():
            teacher = self._native_hidden(text, known, last)
        # An adapter changes the history's states too.
        native, known = known, 0 if student.adapts else known
        teacher_span, student_span = (Span(start, tokens - start) for start in (native, known))
        operations = turn_operations(
            self.config,
            teacher_span,
            student_span,
            len(turn.response_ids),
            layers=student.layers,
            adapts=student.adapts,
        )
        self.operations += sum(operations.values())
        every = self.facts.layers
        recomputed = every if tokens - known >= forcing.recompute_from else forcing.recomputed
        if recomputed is None:
            entries = 0 if self.bank is None else self.bank.tokens
            recomputed = forcing.layers_to_recompute(Turn(known, prompt - known, len(turn.response_ids), entries))

        def attempt(recomputed: int) -> Segment | None:
            """The student's pass, its objective and `supervise`."""
            nonlocal teacher
            segment = None
            # The control and the checkpoints stay active through the backward pass, which may recompute layers.
            positions = torch.arange(known, tokens)[None]
            with checkpointed(self.model, recomputed), student.controlling(self.bank, span, positions):
                with forcing.timer("student forward"):
                    if self.bank is not None and not last:
                        hidden, segment = self._captured(turn, text, known)
                    else:
                        hidden = self._student_hidden(text, known)
                with forcing.timer("loss"):
                    parts = response_objective(
                        hidden,
                        teacher,
                        self.model.get_output_embeddings().weight,
                        torch.tensor(list(turn.response_ids), device=forcing.device),
                        cross_entropy=forcing.cross_entropy,
                        kl=forcing.kl,
                    )
                if recomputed == every:  # no further attempt needs it
                    del teacher
                with forcing.timer("backward"):
                    supervise(turn, parts)
            return segment

        while True:
            try:
                segment = attempt(recomputed)
                break
            except RuntimeError as error:
                if recomputed == every or not torch.is_grad_enabled() or not out_of_memory(error):
                    raise
            # Behind the handler: its exception holds the attempt's tensors.
            recomputed, forcing.recompute_from = every, tokens - known
            print(f"warning: out of memory in a turn of {tokens - known:,} tokens; such turns now run all layers again")
        if self.bank is not None and segment is not None:
            self.bank.append(segment)

    def _text(self, turn: RecordedTurn) -> _Text:
        prompt = self.forcing.renderer.prompt_ids(self.history, turn.user)
        ids = [*prompt, *turn.response_ids[:-1]]
        return _Text(prompt, ids, torch.tensor([ids], device=self.forcing.device))

    def _native_hidden(self, text: _Text, known: int, last: bool = False) -> Tensor:
        start = len(text.prompt) - 1
        if self.native is None:
            return last_hidden(self.model, text.tensor, start)
        prefix = self.native.cut(known)
        if last:  # no later turn reuses the states of this text
            if self.student.adapts:
                self.native = None
            return last_hidden(self.model, text.tensor, start, prefix.cache(1))
        cache = prefix.growing_cache()
        del prefix
        self.native = Prefix.empty(self.model)  # frees each layer's earlier states as the pass replaces them
        hidden = last_hidden(self.model, text.tensor, start, cache)
        self.native = self.native.replaced(text.ids, cache)
        return hidden

    def _student_hidden(self, text: _Text, known: int) -> Tensor:
        prefix = self.native.cut(known).cache(1) if self.native is not None and known else None
        return last_hidden(self.model, text.tensor, len(text.prompt) - 1, prefix)

    def _captured(self, turn: RecordedTurn, text: _Text, known: int, native: bool = False) -> tuple[Tensor, Segment]:
        """The hidden states of a pass, and the detached keys and values that the turn adds to the bank."""
        renderer, bank = self.forcing.renderer, self.bank
        assert bank is not None and self.student.attachment is not None
        length = capture_length(
            turn.response_ids,
            end_of_thinking=renderer.end_of_thinking,
            stop_ids=renderer.stop_ids,
        )
        start = len(text.prompt) - known
        kept = slice(start, start + length)
        states: dict[int, tuple[Tensor, Tensor]] = {}

        def sink(index: int, keys: Tensor, values: Tensor) -> None:
            states[index] = (keys[0, kept].detach().transpose(0, 1), values[0, kept].detach().transpose(0, 1))

        with self.student.attachment.capturing(sink):
            hidden = self._native_hidden(text, known) if native else self._student_hidden(text, known)
        return hidden, Segment.of_layers(bank.layers, [states[index] for index in range(len(bank.layers))])
