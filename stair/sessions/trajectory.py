"""A trajectory: turns in sequence, each on the history that its condition itself generated. A rollout has one turn."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from stair.core import EngineIdentity, Place, Problem, ReadSpecification
from stair.engines.base import Capture, Completion, Reconstruction, Request, SamplingSettings
from stair.records.keys import digest_of, ids_digest, response_key
from stair.records.seeds import seed_of
from stair.sessions.banks import BankStore
from stair.sessions.renderer import Exchange, Renderer, control_span

if TYPE_CHECKING:
    from stair.method import Bank, BankFree, Read, Reflector, Segment

Record = Mapping[str, Any]
"""What a work log holds of a response."""
Finished = tuple[Record, "Segment | None"]
"""A response: its record, and its captured states if it was generated just now."""


@dataclass(frozen=True)
class Control:
    """How a condition uses its controller."""

    digest: str
    layers: tuple[int, ...]
    reads: bool
    """Whether it reads the bank."""
    weights: Reflector | BankFree | None = None
    """None for sealing, which needs no weights."""


class Prompt(NamedTuple):
    """A rendered prompt and its identity."""

    ids: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class Generation:
    """The common settings of all responses of a condition."""

    model_revision: str
    engine: EngineIdentity
    renderer: Renderer
    sampling: SamplingSettings
    max_new_tokens: int
    columns: Sequence[str]
    """The columns of their rows."""
    control: Control | None = None
    adapter: str | None = None
    """The digest of the adapter of every turn."""
    banks: BankStore | None = None
    """Where captured states are saved; needed with a control that reads."""
    layout: Mapping[str, Any] = field(default_factory=dict)
    """The layout that a repeat condition changes on purpose. Responses of another layout are not reused."""
    _openings: dict[str, Prompt] = field(default_factory=dict, compare=False, repr=False)

    @property
    def reads(self) -> bool:
        return self.control is not None and self.control.reads

    def prompt(self, history: Sequence[Exchange], user: str) -> Prompt:
        """The full visible conversation. The last prompt without history is cached: samples of a problem follow one another."""
        if history or user not in self._openings:
            ids = tuple(self.renderer.prompt_ids(history, user))
            prompt = Prompt(ids, ids_digest(ids))
            if history:
                return prompt
            self._openings.clear()
            self._openings[user] = prompt
        return self._openings[user]


@dataclass(frozen=True)
class Question:
    """A turn before its response."""

    user: str
    seed: int
    names: Mapping[str, Any]
    """The columns of its row that name it."""
    read: ReadSpecification | None = None
    """How the bank is read; None without a read."""


def questions(
    place: Place, session: str, sample: int, problems: Sequence[Problem], seed: str, read: ReadSpecification | None
) -> list[Question]:
    """The questions of one trajectory of a session.

    Args:
        seed: the study's name. A seed depends on it, benchmark, problem and sample alone (appendix C.2).
        read: how the condition reads its bank. Each answer has its own permutation of values (appendix C.4).
    """
    found = []
    for turn, problem in enumerate(problems, start=1):
        what = place.benchmark, problem.problem_id, sample
        whose = dict(session_id=session, turn=turn, sample=sample, problem_id=problem.problem_id)
        own = read
        if read is not None and read.permutation_seed is not None:
            own = replace(read, permutation_seed=seed_of("kv_permutation", read.permutation_seed, *what))
        found.append(Question(problem.user, seed_of(seed, *what), place._asdict() | whose, own))
    return found


@dataclass
class Turn:
    """A turn with its response."""

    question: Question
    prompt: Prompt
    response_ids: tuple[int, ...]
    captured: int | None
    """The number of its states in the bank; None if it gives none."""
    saved: str | None
    """The name of its saved states; None for a reused T1."""
    segment: Segment | None = None
    source: str | None = None
    """Whether the segment was `decoded` or `replayed`."""

    @cached_property
    def tokens(self) -> list[str]:
        """How response keys name the turn in a bank."""
        return [self.prompt.digest, ids_digest(self.response_ids)]


class Need(NamedTuple):
    """A response that no log has."""

    request: Request
    record: Callable[[Completion, EngineIdentity], Record]
    """Makes its record; saves captured states first."""


class Trajectory:
    """One trajectory. It needs no model until a log lacks a response.

    Args:
        first: the saved row of the first turn, if the condition reuses it.
        missing: why the first turn, and so the whole trajectory, is missing.

    Attributes:
        rows: the finished turns.
        responses: the number of responses that are generated in all.
        missing: why the next response and all later ones are missing; None if they are not.
    """

    def __init__(
        self,
        settings: Generation,
        questions: Sequence[Question],
        first: Mapping[str, Any] | None = None,
        missing: str | None = None,
    ) -> None:
        self.questions, self.missing = questions, missing
        self.rows: list[dict[str, Any]] = []
        self.responses = 0 if missing is not None else len(questions) - (first is not None)
        self._settings, self._first = settings, first
        self._steps = self._run()

    def advance(self, finished: Finished | Segment | None = None) -> str | Reconstruction | Need | None:
        """The next step; None at the end.

        A step is first the key of the next response. It is answered by the response, or by None if no log has it. Then follow
        reconstructions of lost states, each answered by its segment, and the missing response, answered by the response.
        """
        try:
            return self._steps.send(finished)
        except StopIteration:
            return None

    def close(self) -> None:
        """Stops; lets go of its states."""
        self._steps.close()

    def _run(self) -> Generator[str | Reconstruction | Need, Any, None]:
        settings, turns = self._settings, list[Turn]()
        for question in self.questions if self.missing is None else ():
            renderer = settings.renderer
            history = [Exchange(turn.question.user, renderer.visible_answer(turn.response_ids)) for turn in turns]
            prompt = settings.prompt(history, question.user)
            if not turns and self._first is not None:
                turns.append(self._reused(question, prompt, self._first))
                continue
            key, captures = self._key(question, prompt, turns), settings.reads and len(turns) + 1 < len(self.questions)
            finished: Finished | None = yield key
            if finished is None:
                if settings.reads:
                    yield from self._restore(key, turns)
                request = Request(
                    key=key,
                    prompt_ids=prompt.ids,
                    sampling=settings.sampling,
                    seed=question.seed,
                    max_new_tokens=settings.max_new_tokens,
                    stop_ids=renderer.stop_ids,
                    read=self._read(question, prompt, turns),
                    capture=self._capture() if captures else None,
                    adapter=settings.adapter,
                )
                finished = yield Need(request, partial(self._record, request, turns[-1].source if turns else None))
            record, segment = finished
            response_ids = tuple(record["response_ids"])
            captured = renderer.captured_tokens(response_ids) if captures else None
            row = dict(
                **question.names,
                seed=question.seed,
                prompt_tokens=len(prompt.ids),
                prompt_ids_sha256=prompt.digest,
                history_retokenised=any(renderer.retokenised(turn.response_ids) for turn in turns),
                captured_tokens=captured,
                bank_tokens=sum(turn.captured or 0 for turn in turns) if settings.reads else None,
                **record,
            )
            self.rows.append({name: row[name] for name in settings.columns})
            saved = _name(key, response_ids) if captures else None
            turns.append(Turn(question, prompt, response_ids, captured, saved, segment, "decoded"))
        if settings.banks is not None:
            settings.banks.forget(turn.saved for turn in turns if turn.saved is not None)

    def _reused(self, question: Question, prompt: Prompt, saved: Mapping[str, Any]) -> Turn:
        """The saved T1 response, under this session."""
        if saved["prompt_ids_sha256"] != prompt.digest:
            raise ValueError(
                f"the saved T1 response to {saved['problem_id']}, sample {saved['sample']}, was given to another prompt; "
                f"delete the responses of its condition and run again"
            )
        row, response_ids, captured = {**saved, **question.names}, tuple(saved["response_ids"]), None
        if self._settings.reads:
            captured = self._settings.renderer.captured_tokens(response_ids)
            row |= dict(bank_tokens=0, captured_tokens=captured)
        self.rows.append(row)
        return Turn(question, prompt, response_ids, captured, None)

    def _key(self, question: Question, prompt: Prompt, turns: Sequence[Turn]) -> str:
        settings = self._settings
        control = settings.control if turns else None  # a controller acts behind a history
        reads = control is not None and control.reads
        key = response_key(
            model_revision=settings.model_revision,
            prompt_ids_sha256=prompt.digest,
            adapter=settings.adapter,
            controller=control.digest if control else None,
            bank=[turn.tokens for turn in turns] if reads else None,
            read=question.read.as_key() if reads and question.read else None,
            sampling=settings.sampling.as_dict(),
            seed=question.seed,
            max_new_tokens=settings.max_new_tokens,
            engine=settings.engine.as_key(),
        )
        return digest_of({"response": key, "layout": dict(settings.layout)}) if settings.layout else key

    # ---------------------------------------------------------------- with a model

    def _restore(self, key: str, turns: Sequence[Turn]) -> Generator[Reconstruction, Segment, None]:
        """Loads the states of all turns, and has lost ones reconstructed in turn order."""
        settings = self._settings
        for number, turn in enumerate(turns):
            if turn.segment is None and turn.saved is not None:
                assert settings.banks is not None
                turn.segment = settings.banks.load(turn.saved)
            if turn.segment is None:
                turn.segment = yield Reconstruction(
                    key=key,
                    prompt_ids=turn.prompt.ids,
                    response_ids=turn.response_ids,
                    stop_ids=settings.renderer.stop_ids,
                    capture=self._capture(),
                    read=self._read(turn.question, turn.prompt, turns[:number]),
                    adapter=settings.adapter,
                )
                turn.source = "replayed"
            assert turn.segment.tokens == turn.captured

    def _capture(self) -> Capture:
        assert self._settings.control is not None
        return Capture(self._settings.control.layers, self._settings.renderer.end_of_thinking)

    def _read(self, question: Question, prompt: Prompt, turns: Sequence[Turn]) -> Read | None:
        """The read of a turn: of the states of all turns before it, in turn order."""
        control = self._settings.control
        if control is None or not turns:
            return None
        from stair.method import Bank, Read

        bank: Bank | None = None
        if control.reads:
            bank = Bank(control.layers, [turn.segment for turn in turns if turn.segment is not None])
            assert len(bank.segments) == len(turns), "lost states are reconstructed first"
        assert control.weights is not None, "a controller is loaded before anything is generated"
        return Read(
            bank=bank,
            controller=control.weights,
            span=control_span(prompt.ids, self._settings.renderer.user_header),
            specification=question.read or ReadSpecification(),
        )

    def _record(
        self, request: Request, source: str | None, completion: Completion, identity: EngineIdentity
    ) -> dict[str, Any]:
        """The record of a request's response. `source`: of the entries that the turn before added to its bank."""
        settings, receipt, ids = self._settings, completion.receipt, completion.response_ids
        bank = request.read.bank if request.read is not None else None
        if completion.bank is not None:
            assert settings.banks is not None and completion.bank.tokens == settings.renderer.captured_tokens(ids)
            settings.banks.keep(_name(request.key, ids), completion.bank)
        return dict(
            response_tokens=len(ids),
            response=settings.renderer.text(ids),
            finish_reason=completion.finish_reason,
            response_ids=array("i", ids),
            **identity.as_columns(),
            bank_sha256=bank.digest if bank is not None else None,
            bank_source=source if bank is not None else None,
            controlled_tokens=receipt.controlled_tokens if receipt else 0,
            readout_norm=receipt.readout_norm if receipt else 0.0,
        )

    # ---------------------------------------------------------------- for people and manifests

    def __str__(self) -> str:
        """The next response."""
        names = self.questions[len(self.rows)].names
        labels = {"record_id": "record", "session_id": "session", "sample": "sample", "turn": "turn"}
        return ", ".join(f"{label} {names[name]}" for name, label in labels.items() if name in names)

    def gaps(self) -> list[dict[str, Any]]:
        """The missing responses, each with its reason."""
        if self.missing is None:
            return []
        first, *later = self.questions[len(self.rows) :]
        behind = f"T{len(self.rows) + 1} of its trajectory is missing: {self.missing}"
        return [_gap(first, self.missing), *(_gap(question, behind) for question in later)]


def _gap(question: Question, reason: str) -> dict[str, Any]:
    kept = ("record_id", "session_id", "sample", "turn", "problem_id")
    return {name: value for name, value in question.names.items() if name in kept} | {"reason": reason}


def _name(key: str, response_ids: Sequence[int]) -> str:
    """The name of a response's saved states."""
    return digest_of([key, ids_digest(response_ids)])
