"""Teacher forcing over a recorded session of four turns (appendix B.4, session replay)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from stair.method import Bank, Segment, capture_length
from stair.models.architecture import describe
from stair.models.device_and_dtype import out_of_memory
from stair.models.prefix import Prefix
from stair.sessions.positions import beyond_context
from stair.sessions.renderer import Exchange, Renderer, control_span
from stair.stages.training.objective import ObjectiveParts, response_objective
from stair.stages.training.student import Student, last_hidden


class Recompute(IntEnum):
    """What runs again in the backward pass, by the memory that it needs: a turn that runs out of it takes the next one."""

    NOTHING = 0
    LAYERS = 1
    """Every decoder layer; only its input is kept. Layers before the first trained one keep nothing at all."""
    FROM_HOST = 2
    """Every decoder layer; its input waits in host memory."""


@contextmanager
def recomputing(model: Any, what: Recompute) -> Iterator[None]:
    """Runs a part of the model again in the backward pass of the forward passes inside.

    Transformers' own switch needs the model in training mode, makes the embeddings require gradients, so that every layer joins
    the graph, and drops the cache.
    """
    with ExitStack() as stack:
        for layer in model.get_decoder().layers if what else ():
            stack.enter_context(_running_again(layer, save_on_cpu if what == Recompute.FROM_HOST else nullcontext))
        yield


@contextmanager
def _running_again(layer: Any, keeping: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Keeps of the forward passes of `layer` the input alone, in the context `keeping`."""
    forward = layer.forward

    def replaced(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        with keeping():
            return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    layer.forward = replaced
    try:
        yield
    finally:
        del layer.forward  # the class's own is behind it


_MOST = max(Recompute)

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


@dataclass
class TeacherForcing:
    """Teacher-forced passes of a student over recorded sessions.

    Args:
        renderer: renders the ordinary history, as at evaluation.
        cross_entropy, kl: coefficients of the objective.
        recompute: what runs again in the backward pass of every turn. A turn that runs out of memory is tried again with more
            of it, and later turns of its length begin so.
        timer: entered around each part of the work, with its name.
    """

    student: Student
    renderer: Renderer
    cross_entropy: float = 1.0
    kl: float = 1.0
    recompute: Recompute = Recompute.NOTHING
    timer: Timer = lambda part: nullcontext()
    too_long: dict[Recompute, float] = field(default_factory=dict)
    """The processed tokens of the shortest turn that ran out of memory, by what ran again then."""

    def recompute_at(self, tokens: int) -> Recompute:
        """What runs again in a turn that processes so many tokens."""
        return max(
            (self.recompute, *(Recompute(tried + 1) for tried, least in self.too_long.items() if tokens >= least))
        )

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
                f"too ({(str(error).splitlines() or [''])[0]}); use a larger device; docs/training.md says what it needs"
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
        return SessionCounts(tokens, session.beyond_context)

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
        self.facts = describe(self.model.config.to_dict())
        controller = self.student.controller
        self.bank = Bank(controller.layers) if controller is not None and self.student.reads else None
        self.native = Prefix.empty(self.model) if Prefix.can_be_cut(self.facts) else None
        self.beyond_context = 0

    def first(self, turn: RecordedTurn) -> None:
        """T1: the native path, or the adapter's, without a loss. Without a bank only its text is needed."""
        if self.bank is None:
            return
        text = self._text(turn)
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
        known = 0 if student.adapts else known

        def attempt(recompute: Recompute) -> Segment | None:
            """The student's pass, its objective and `supervise`."""
            nonlocal teacher
            segment = None
            # The control and the checkpoints stay active through the backward pass, which may recompute layers.
            positions = torch.arange(known, tokens)[None]
            with recomputing(self.model, recompute), student.controlling(self.bank, span, positions):
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
                if recompute == _MOST:  # no further attempt needs it
                    del teacher
                with forcing.timer("backward"):
                    supervise(turn, parts)
            return segment

        recompute = forcing.recompute_at(tokens - known)
        while True:
            try:
                segment = attempt(recompute)
                break
            except RuntimeError as error:
                if recompute == _MOST or not torch.is_grad_enabled() or not out_of_memory(error):
                    raise
            # After the handler, because its exception holds the attempt's tensors.
            forcing.too_long[recompute] = tokens - known
            recompute = forcing.recompute_at(tokens - known)
            place = "" if recompute == Recompute.LAYERS else ", with their inputs in host memory"
            print(
                f"warning: out of memory in a turn of {tokens - known:,} tokens; such turns now run all layers again{place}"
            )
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
