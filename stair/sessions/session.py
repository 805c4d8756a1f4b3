"""A session under one condition: four turns of one trajectory, each on the history that the condition itself generated."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from stair.core import EngineIdentity, Problem, ReadSpecification
from stair.engines.base import Capture, Completion, Engine, Reconstruction, Request, SamplingSettings
from stair.records.keys import digest_of, ids_digest, response_key
from stair.records.seeds import seed_of
from stair.sessions.banks import BankStore
from stair.sessions.renderer import Exchange, Renderer
from stair.sessions.spans import control_span

if TYPE_CHECKING:
    from stair.method import Bank, BankFree, Read, Reflector, Segment


@dataclass(frozen=True)
class ControllerUse:
    """How a condition uses its controller."""

    digest: str
    layers: tuple[int, ...]
    read: ReadSpecification | None
    """How it reads the bank; None without a read, as in Bank-free."""
    weights: Reflector | BankFree | None = None
    """None for sealing, which needs no weights."""


@dataclass(frozen=True)
class SessionProtocol:
    """The common settings of all sessions of one (model, benchmark, condition)."""

    model: str
    benchmark: str
    condition: str
    model_revision: str
    engine: EngineIdentity
    renderer: Renderer
    sampling: SamplingSettings
    max_new_tokens: int
    study: str
    """Part of every seed."""
    turns: int
    control: ControllerUse | None
    banks: BankStore
    adapter: str | None = None
    """The digest of the adapter of every turn."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """The layout that a repeat condition changes on purpose. Responses of another layout are not reused."""

    @property
    def reads(self) -> bool:
        return self.control is not None and self.control.read is not None

    def seed(self, problem_id: str, sample: int) -> int:
        """Depends on benchmark, problem and sample alone (appendix C.2)."""
        return seed_of(self.study, self.benchmark, problem_id, sample)

    def read(self, problem_id: str, sample: int) -> ReadSpecification | None:
        """How the bank is read for one answer; each answer has its own permutation of values (appendix C.4)."""
        read = self.control.read if self.control is not None else None
        if read is None or read.permutation_seed is None:
            return read
        seed = seed_of("kv_permutation", read.permutation_seed, self.benchmark, problem_id, sample)
        return replace(read, permutation_seed=seed)

    def capture(self) -> Capture | None:
        """The captured states of a turn with a successor; None without a bank."""
        if self.control is None or not self.reads:
            return None
        return Capture(self.control.layers, self.renderer.end_of_thinking)


@dataclass
class _Turn:
    prompt_ids: tuple[int, ...]
    response_ids: tuple[int, ...]
    captured: int | None
    """The number of its states in the bank; None without a bank."""
    name: str | None
    """The name of its captured states; None for a reused T1."""
    segment: Segment | None = None
    source: str | None = None

    @cached_property
    def tokens(self) -> list[str]:
        """How response keys name the turn."""
        return [ids_digest(self.prompt_ids), ids_digest(self.response_ids)]


@dataclass
class SessionChain:
    """One trajectory of one session; implements `Chain`.

    Args:
        sample: the trajectory.
        problems: the problem of every turn.
        first_row: Vanilla's row of the first problem and this sample, if the condition reuses T1.
        missing: why the reused T1, and so the whole trajectory, is missing.
    """

    protocol: SessionProtocol
    session_id: str
    sample: int
    problems: Sequence[Problem]
    first_row: Mapping[str, Any] | None = None
    missing: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    _turns: list[_Turn] = field(default_factory=list)
    _prompt: tuple[int, ...] | None = None

    # ---------------------------------------------------------------- what comes next

    def next(self) -> str | None:
        if not self._turns and self.first_row is not None:
            self._reuse_first()
        ended = len(self._turns) == self.protocol.turns or self.missing is not None
        return None if ended else self._response_key()

    def _captures(self, turn: int) -> bool:
        """Whether a turn's states enter the bank: it has a successor that reads."""
        return self.protocol.reads and turn < self.protocol.turns

    # ---------------------------------------------------------------- what is missing

    @property
    def name(self) -> str:
        return f"session {self.session_id}, sample {self.sample}, turn {len(self._turns) + 1}"

    def generates(self) -> int:
        return self.protocol.turns if self.first_row is None else self.protocol.turns - 1

    def gaps(self) -> list[dict[str, Any]]:
        if self.missing is None:
            return []
        first = len(self._turns) + 1
        return [
            dict(
                session_id=self.session_id,
                sample=self.sample,
                turn=turn,
                problem_id=self.problems[turn - 1].problem_id,
                reason=self.missing if turn == first else f"T{first} of its trajectory is missing: {self.missing}",
            )
            for turn in range(first, self.protocol.turns + 1)
        ]

    # ---------------------------------------------------------------- states and keys

    def _problem(self) -> Problem:
        return self.problems[len(self._turns)]

    def _prompt_ids(self) -> tuple[int, ...]:
        """The full visible conversation, rendered at every turn."""
        if self._prompt is None:
            renderer = self.protocol.renderer
            history = [
                Exchange(problem.user, renderer.visible_answer(turn.response_ids))
                for problem, turn in zip(self.problems, self._turns, strict=False)
            ]
            self._prompt = tuple(renderer.prompt_ids(history, self._problem().user))
        return self._prompt

    def _response_key(self) -> str:
        protocol = self.protocol
        control = protocol.control if self._turns else None  # a controller acts behind a history
        read = protocol.read(self._problem().problem_id, self.sample) if control else None
        key = response_key(
            model_revision=protocol.model_revision,
            prompt_ids_sha256=ids_digest(self._prompt_ids()),
            adapter=protocol.adapter,
            controller=control.digest if control else None,
            bank=[turn.tokens for turn in self._turns] if read else None,
            read=read.as_key() if read else None,
            sampling=protocol.sampling.as_dict(),
            seed=protocol.seed(self._problem().problem_id, self.sample),
            max_new_tokens=protocol.max_new_tokens,
            engine=protocol.engine.as_key(),
        )
        return digest_of({"response": key, "layout": dict(protocol.layout)}) if protocol.layout else key

    # ---------------------------------------------------------------- going on

    def _reuse_first(self) -> None:
        """T1 is Vanilla's saved response, under this session."""
        assert self.first_row is not None
        expected = ids_digest(self._prompt_ids())
        if self.first_row["prompt_ids_sha256"] != expected:
            raise ValueError(
                f"the saved T1 response to {self._problem().problem_id}, sample {self.sample}, was given to another prompt; "
                f"delete the responses of its condition and run again"
            )
        row = dict(self.first_row)
        row |= dict(condition=self.protocol.condition, session_id=self.session_id)
        if self.protocol.reads:
            row |= dict(bank_tokens=0, captured_tokens=self._captured(1, row["response_ids"]))
        self.rows.append(row)
        self._turns.append(_Turn(self._prompt_ids(), tuple(row["response_ids"]), row["captured_tokens"], None))
        self._prompt = None

    def append_record(self, record: Mapping[str, Any]) -> None:
        record, number, problem = dict(record), len(self._turns) + 1, self._problem()
        captured = self._captured(number, record["response_ids"])
        record["captured_tokens"] = captured
        key = self._response_key()
        self.rows.append(
            dict(
                model=self.protocol.model,
                benchmark=self.protocol.benchmark,
                condition=self.protocol.condition,
                session_id=self.session_id,
                turn=number,
                sample=self.sample,
                problem_id=problem.problem_id,
                seed=self.protocol.seed(problem.problem_id, self.sample),
                prompt_tokens=len(self._prompt_ids()),
                prompt_ids_sha256=ids_digest(self._prompt_ids()),
                history_retokenised=any(self.protocol.renderer.retokenised(turn.response_ids) for turn in self._turns),
                bank_tokens=sum(turn.captured or 0 for turn in self._turns) if self.protocol.reads else None,
                **record,
            )
        )
        response_ids = tuple(record["response_ids"])
        self._turns.append(_Turn(self._prompt_ids(), response_ids, captured, _name(key, response_ids)))
        self._prompt = None
        if number == self.protocol.turns:
            self.protocol.banks.forget(turn.name for turn in self._turns if turn.name is not None)

    def _captured(self, turn: int, response_ids: Sequence[int]) -> int | None:
        """The number of states that a response gives to the bank. Another run may have kept states that nothing reads here."""
        return self.protocol.renderer.captured_tokens(response_ids) if self._captures(turn) else None

    # ---------------------------------------------------------------- with a model

    def request(self, engine: Engine) -> Request:
        capture = self.protocol.capture() if self._captures(len(self._turns) + 1) else None
        read = self._read(len(self._turns))
        return Request(
            key=self._response_key(),
            prompt_ids=self._prompt_ids(),
            sampling=self.protocol.sampling,
            seed=self.protocol.seed(self._problem().problem_id, self.sample),
            max_new_tokens=self.protocol.max_new_tokens,
            stop_ids=self.protocol.renderer.stop_ids,
            read=read,
            capture=capture,
            adapter=self.protocol.adapter,
        )

    def _read(self, number: int) -> Read | None:
        """The read of turn `number` (from zero): of the states of all earlier turns, in turn order."""
        control = self.protocol.control
        if control is None or number == 0:
            return None
        from stair.method import Read

        prompt = self._prompt_ids() if number == len(self._turns) else self._turns[number].prompt_ids
        specification = self.protocol.read(self.problems[number].problem_id, self.sample)
        assert control.weights is not None, "a controller is loaded before anything is generated"
        return Read(
            bank=self._bank(number),
            controller=control.weights,
            span=control_span(prompt, self.protocol.renderer.user_header),
            specification=specification or ReadSpecification(),
        )

    def _bank(self, number: int) -> Bank | None:
        """The bank that turn `number` (from zero) reads; None at T1 and without a read."""
        if number == 0 or self.protocol.control is None or not self.protocol.reads:
            return None
        from stair.method import Bank

        segments = [turn.segment for turn in self._turns[:number]]
        assert None not in segments, "lost states are reconstructed first"
        return Bank(self.protocol.control.layers, [segment for segment in segments if segment is not None])

    def _lost(self) -> int | None:
        """The first turn (from zero) whose states are neither in memory nor on disk."""
        for number, turn in enumerate(self._turns if self.protocol.reads else ()):
            if turn.segment is None and turn.name is not None:
                turn.segment, turn.source = self.protocol.banks.load(turn.name), "decoded"
            if turn.segment is None:
                return number
        return None

    def lost(self, engine: Engine) -> Reconstruction | None:
        number, capture = self._lost(), self.protocol.capture()
        if number is None:
            return None
        assert capture is not None
        turn = self._turns[number]
        return Reconstruction(
            key=self._response_key(),
            prompt_ids=turn.prompt_ids,
            response_ids=turn.response_ids,
            stop_ids=self.protocol.renderer.stop_ids,
            capture=capture,
            read=self._read(number),
            adapter=self.protocol.adapter,
        )

    def restore(self, segment: Segment) -> None:
        number = self._lost()
        assert number is not None and segment.tokens == self._turns[number].captured
        self._turns[number].segment, self._turns[number].source = segment, "replayed"

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        receipt, bank = completion.receipt, self._bank(len(self._turns))
        if completion.bank is not None:
            assert completion.bank.tokens == self.protocol.renderer.captured_tokens(completion.response_ids)
            self.protocol.banks.keep(_name(completion.key, completion.response_ids), completion.bank)
        return dict(
            **response_columns(completion, engine, self.protocol.renderer),
            bank_sha256=bank.digest if bank is not None else None,
            bank_source=self._turns[-1].source if bank is not None else None,
            controlled_tokens=receipt.controlled_tokens if receipt else 0,
            readout_norm=receipt.readout_norm if receipt else 0.0,
        )


def _name(key: str, response_ids: Sequence[int]) -> str:
    """The name of a response's captured states."""
    return digest_of([key, ids_digest(response_ids)])


def response_columns(completion: Completion, engine: Engine, renderer: Renderer) -> dict[str, Any]:
    """The columns of a generated row that follow from its completion and engine."""
    return dict(
        response_tokens=len(completion.response_ids),
        response=renderer.text(completion.response_ids),
        finish_reason=completion.finish_reason,
        response_ids=array("i", completion.response_ids),
        **engine.identity.as_columns(),
    )
