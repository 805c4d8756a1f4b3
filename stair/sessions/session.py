"""A session under one condition: four turns of one trajectory, each on the history that the condition itself generated."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from stair.core import EngineIdentity, Problem, ReadSpecification
from stair.engines.base import Capture, Completion, Engine, Reconstruction, Request, SamplingSettings
from stair.records.keys import bank_digest, digest_of, ids_digest, response_key
from stair.records.seeds import seed_of
from stair.sessions.banks import BankStore
from stair.sessions.chain import Missing, Step
from stair.sessions.renderer import Exchange, Renderer
from stair.sessions.spans import control_span

if TYPE_CHECKING:
    from stair.method import BankFree, Read, Reflector, Segment


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
    segment: str | None = None
    captured: int | None = None
    source: str | None = None


@dataclass
class SessionChain:
    """One trajectory of one session; implements `Chain`.

    Args:
        sample: the trajectory.
        problems: the problem of every turn.
        first_row: Vanilla's row of the first problem and this sample, if the condition reuses T1.
        missing: the response that the configuration names as missing; it can be the reused T1.
    """

    protocol: SessionProtocol
    session_id: str
    sample: int
    problems: Sequence[Problem]
    first_row: Mapping[str, Any] | None = None
    missing: Missing | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    _turns: list[_Turn] = field(default_factory=list)
    _prompt: tuple[int, ...] | None = None
    _remade: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    # ---------------------------------------------------------------- what comes next

    def next(self) -> Step | None:
        if not self._turns and self.first_row is not None:
            self._reuse_first()
        if self.gives_up() and self.missing is not None and self.missing.reused:
            return None
        if self._wants_reconstruction():
            return Step(self._reconstruction_key(len(self._turns) - 1), reconstructs=True)
        if len(self._turns) == self.protocol.turns:
            return None
        return Step(self._response_key())

    def _wants_reconstruction(self) -> bool:
        """Whether the bank lacks the states of T1: it is reused, or another run answered it without capture."""
        return self._captures(1) and len(self._turns) == 1 and self._turns[0].segment is None

    def _captures(self, turn: int) -> bool:
        """Whether a turn's states enter the bank: it has a successor that reads."""
        return self.protocol.reads and turn < self.protocol.turns

    # ---------------------------------------------------------------- what is missing

    @property
    def name(self) -> str:
        return f"session {self.session_id}, sample {self.sample}"

    def entry(self) -> dict[str, Any]:
        return dict(
            model=self.protocol.model,
            benchmark=self.protocol.benchmark,
            condition=self.protocol.condition,
            session=self.session_id,
            sample=self.sample,
            turn=len(self._turns) + 1,
        )

    def gives_up(self) -> bool:
        return self.missing is not None and self.missing.turn == len(self._turns) + 1

    def generates(self) -> int:
        ahead = self.missing is not None and self.missing.turn > len(self._turns)
        turns = self.missing.turn - 1 if self.missing is not None and ahead else self.protocol.turns
        return turns if self.first_row is None else turns - 1

    def gaps(self) -> list[dict[str, Any]]:
        if self.missing is None or not self.gives_up():
            return []
        cause = self.missing.turn
        return [
            dict(
                session_id=self.session_id,
                sample=self.sample,
                turn=turn,
                problem_id=self.problems[turn - 1].problem_id,
                reason=self.missing.reason
                if turn == cause
                else f"T{cause} of its trajectory is missing: {self.missing.reason}",
            )
            for turn in range(cause, self.protocol.turns + 1)
        ]

    # ---------------------------------------------------------------- states and keys

    @property
    def _owner(self) -> str:
        return f"{self.session_id}-{self.sample}"

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

    def _segments(self) -> tuple[str, ...]:
        return tuple(turn.segment for turn in self._turns if turn.segment is not None)

    def _response_key(self) -> str:
        protocol = self.protocol
        control = protocol.control if self._turns else None  # a controller acts behind a history
        read = protocol.read(self._problem().problem_id, self.sample) if control else None
        key = response_key(
            model_revision=protocol.model_revision,
            prompt_ids_sha256=ids_digest(self._prompt_ids()),
            adapter=protocol.adapter,
            controller=control.digest if control else None,
            bank=bank_digest(control.layers, self._segments()) if control and read else None,
            read=read.as_key() if read else None,
            sampling=protocol.sampling.as_dict(),
            seed=protocol.seed(self._problem().problem_id, self.sample),
            max_new_tokens=protocol.max_new_tokens,
            engine=protocol.engine.as_key(),
        )
        return digest_of({"response": key, "layout": dict(protocol.layout)}) if protocol.layout else key

    def _reconstruction_key(self, number: int) -> str:
        turn, capture = self._turns[number], self.protocol.capture()
        assert capture is not None
        return digest_of(
            {
                "replay": 1,
                # Equal answers to one problem are reconstructed for each chain, which owns its states.
                "owner": self._owner,
                "model_revision": self.protocol.model_revision,
                "prompt_ids": ids_digest(turn.prompt_ids),
                "response_ids": ids_digest(turn.response_ids),
                "layers": list(capture.layers),
                "end_of_thinking": capture.end_of_thinking,
                "engine": self.protocol.engine.as_key(),
            }
            | ({"adapter": self.protocol.adapter} if self.protocol.adapter else {})
        )

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
            row["bank_tokens"] = 0
        self.rows.append(row)
        self._turns.append(_Turn(self._prompt_ids(), tuple(row["response_ids"])))
        self._prompt = None

    def append_record(self, record: Mapping[str, Any]) -> None:
        if self._wants_reconstruction():
            turn = self._turns[0]
            turn.segment, turn.captured, turn.source = record["segment"], record["captured_tokens"], "replayed"
            self.rows[0]["captured_tokens"] = turn.captured
            return
        record = dict(record)
        segment = record.pop("segment")
        if not self._captures(len(self._turns) + 1):  # another run may have kept states that nothing reads here
            segment = record["captured_tokens"] = None
        control, before = self.protocol.control, self._turns[-1] if self._turns else None
        reads, problem = self.protocol.reads, self._problem()
        self.rows.append(
            dict(
                model=self.protocol.model,
                benchmark=self.protocol.benchmark,
                condition=self.protocol.condition,
                session_id=self.session_id,
                turn=len(self._turns) + 1,
                sample=self.sample,
                problem_id=problem.problem_id,
                seed=self.protocol.seed(problem.problem_id, self.sample),
                prompt_tokens=len(self._prompt_ids()),
                prompt_ids_sha256=ids_digest(self._prompt_ids()),
                history_retokenised=any(self.protocol.renderer.retokenised(turn.response_ids) for turn in self._turns),
                bank_tokens=sum(turn.captured or 0 for turn in self._turns) if reads else None,
                bank_sha256=bank_digest(control.layers, self._segments()) if control and reads and before else None,
                bank_source=before.source if reads and before else None,
                **record,
            )
        )
        self._turns.append(
            _Turn(
                self._prompt_ids(),
                tuple(record["response_ids"]),
                segment,
                record["captured_tokens"],
                "decoded" if segment else None,
            )
        )
        self._prompt = None
        if len(self._turns) == self.protocol.turns:
            self.protocol.banks.forget(self._owner)

    # ---------------------------------------------------------------- with a model

    def request(self, engine: Engine) -> Request:
        capture = self.protocol.capture() if self._captures(len(self._turns) + 1) else None
        read = self._read(len(self._turns), engine)
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

    def _read(self, number: int, engine: Engine) -> Read | None:
        """The read of turn `number` (from zero): of the states of all earlier turns, in turn order."""
        control = self.protocol.control
        if control is None or number == 0:
            return None
        from stair.method import Bank, Read

        reads = self.protocol.reads
        segments = [self._load(earlier, engine) for earlier in range(number)] if reads else []
        prompt = self._prompt_ids() if number == len(self._turns) else self._turns[number].prompt_ids
        specification = self.protocol.read(self.problems[number].problem_id, self.sample)
        assert control.weights is not None, "a controller is loaded before anything is generated"
        return Read(
            bank=Bank(control.layers, segments) if reads else None,
            controller=control.weights,
            span=control_span(prompt, self.protocol.renderer.user_header),
            specification=specification or ReadSpecification(),
        )

    def _load(self, number: int, engine: Engine) -> Segment:
        """The states of turn `number`. Lost states are reconstructed, and later rows record that."""
        turn = self._turns[number]
        assert turn.segment is not None
        segment = self.protocol.banks.load(self._owner, turn.segment)
        if segment is None:
            (segment,) = engine.reconstruct([self._reconstruction_of(number, engine)])
            lost, turn.segment = turn.segment, self.protocol.banks.keep(self._owner, segment)
            turn.source = "replayed"
            if turn.segment != lost:
                self._remade.append((self._remade_key(number, lost), {"segment": turn.segment}))
        return segment

    def _remade_key(self, number: int, lost: str) -> str:
        return digest_of({"remade": lost, "turn": number, "replay": self._reconstruction_key(number)})

    def remade(self) -> list[tuple[str, dict[str, Any]]]:
        records, self._remade = self._remade, []
        return records

    def substitute(self, log: Callable[[str], Mapping[str, Any] | None]) -> bool:
        changed = False
        for number, turn in enumerate(self._turns):
            # States can have been lost and made again more than once.
            while turn.segment is not None and (record := log(self._remade_key(number, turn.segment))) is not None:
                turn.segment, turn.source, changed = record["segment"], "replayed", True
        return changed

    def _reconstruction_of(self, number: int, engine: Engine) -> Reconstruction:
        turn, capture = self._turns[number], self.protocol.capture()
        assert capture is not None
        return Reconstruction(
            key=self._reconstruction_key(number),
            prompt_ids=turn.prompt_ids,
            response_ids=turn.response_ids,
            stop_ids=self.protocol.renderer.stop_ids,
            capture=capture,
            read=self._read(number, engine),
            adapter=self.protocol.adapter,
        )

    def reconstruction(self, engine: Engine) -> Reconstruction:
        return self._reconstruction_of(len(self._turns) - 1, engine)

    def reconstruction_record(self, segment: Segment) -> dict[str, Any]:
        return {"segment": self.protocol.banks.keep(self._owner, segment), "captured_tokens": segment.tokens}

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        receipt = completion.receipt
        return dict(
            **response_columns(completion, engine, self.protocol.renderer),
            segment=self.protocol.banks.keep(self._owner, completion.bank) if completion.bank is not None else None,
            captured_tokens=completion.bank.tokens if completion.bank is not None else None,
            controlled_tokens=receipt.controlled_tokens if receipt else 0,
            readout_norm=receipt.readout_norm if receipt else 0.0,
        )


def response_columns(completion: Completion, engine: Engine, renderer: Renderer) -> dict[str, Any]:
    """The columns of a generated row that follow from its completion and engine."""
    return dict(
        response_tokens=len(completion.response_ids),
        response=renderer.text(completion.response_ids),
        finish_reason=completion.finish_reason,
        response_ids=array("i", completion.response_ids),
        **engine.identity.as_columns(),
    )
