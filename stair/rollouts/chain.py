"""A rollout: a chain of one turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stair.conversation.renderer import Renderer
from stair.engines.base import Completion, Engine, Replay, Request, SamplingSettings
from stair.protocol.chain import Step
from stair.protocol.session import response_columns
from stair.records.keys import ids_digest, response_key
from stair.records.seeds import seed_of

if TYPE_CHECKING:
    from stair.method import Segment


@dataclass(frozen=True)
class RolloutSettings:
    """What all rollouts of a model share."""

    model: str
    data_set: str
    model_revision: str
    engine: Mapping[str, str]
    renderer: Renderer
    sampling: SamplingSettings
    max_new_tokens: int
    prompt: str
    """The user message; {problem} stands for the problem's text."""
    seed_name: str


@dataclass
class RolloutChain:
    """One sample of one source record; implements `Chain`."""

    settings: RolloutSettings
    record_row: Mapping[str, Any]
    sample: int
    rows: list[dict[str, Any]] = field(default_factory=list)
    _prompt: tuple[int, ...] | None = None

    @property
    def seed(self) -> int:
        """A function of data set, model, source record and sample."""
        settings = self.settings
        return seed_of(settings.seed_name, settings.data_set, settings.model, self.record_row["record_id"], self.sample)

    def _prompt_ids(self) -> tuple[int, ...]:
        if self._prompt is None:
            user = self.settings.prompt.replace("{problem}", self.record_row["problem"])
            self._prompt = tuple(self.settings.renderer.prompt_ids([], user))
        return self._prompt

    def next(self) -> Step | None:
        """See `Chain.next`."""
        if self.rows:
            return None
        settings = self.settings
        return Step(
            response_key(
                model_revision=settings.model_revision,
                prompt_ids_sha256=ids_digest(self._prompt_ids()),
                adapter=None,
                controller=None,
                bank=None,
                read=None,
                sampling=settings.sampling.as_dict(),
                seed=self.seed,
                max_new_tokens=settings.max_new_tokens,
                engine=settings.engine,
            )
        )

    def take(self, record: Mapping[str, Any]) -> None:
        """See `Chain.take`."""
        self.rows.append(
            dict(
                model=self.settings.model,
                record_id=self.record_row["record_id"],
                problem_id=self.record_row["problem_id"],
                sample=self.sample,
                seed=self.seed,
                prompt_tokens=len(self._prompt_ids()),
                prompt_ids_sha256=ids_digest(self._prompt_ids()),
                **record,
            )
        )

    def substitute(self, log: Callable[[str], Mapping[str, Any] | None]) -> bool:
        """A rollout reads no states."""
        return False

    def remade(self) -> list[tuple[str, dict[str, Any]]]:
        """A rollout keeps no states."""
        return []

    def request(self, engine: Engine) -> Request:
        """See `Chain.request`."""
        step = self.next()
        assert step is not None
        return Request(
            key=step.key,
            prompt_ids=self._prompt_ids(),
            sampling=self.settings.sampling,
            seed=self.seed,
            max_new_tokens=self.settings.max_new_tokens,
            stop_ids=self.settings.renderer.stop_ids,
        )

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        """See `Chain.record`."""
        return response_columns(completion, engine, self.settings.renderer)

    def replay(self, engine: Engine) -> Replay:
        """A rollout keeps no states."""
        raise AssertionError("a rollout is never replayed")

    def replay_record(self, segment: Segment) -> dict[str, Any]:
        """A rollout keeps no states."""
        raise AssertionError("a rollout is never replayed")
