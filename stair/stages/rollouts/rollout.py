"""A rollout: a chain of one turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from stair.core import EngineIdentity, user_message
from stair.engines.base import Completion, Engine, Reconstruction, Request, SamplingSettings
from stair.records.keys import digest_of, ids_digest, response_key
from stair.records.rows import SourceRecord
from stair.records.seeds import seed_of
from stair.sessions.renderer import Renderer
from stair.sessions.session import response_columns

if TYPE_CHECKING:
    from stair.method import Segment


class Prompt(NamedTuple):
    """A rendered prompt and its identity."""

    ids: tuple[int, ...]
    digest: str


@dataclass(frozen=True)
class RolloutSettings:
    """The settings that all rollouts of a model share."""

    model: str
    data_set: str
    model_revision: str
    engine: EngineIdentity
    renderer: Renderer
    sampling: SamplingSettings
    max_new_tokens: int
    prompt: str
    """The user message, with {problem} in place of the problem's text."""
    seed_name: str
    _prompts: dict[str, Prompt] = field(default_factory=dict, compare=False, repr=False)

    def key(self, prompt_ids_sha256: str, seed: int) -> str:
        """The response key of a prompt and a seed."""
        return response_key(
            model_revision=self.model_revision,
            prompt_ids_sha256=prompt_ids_sha256,
            adapter=None,
            controller=None,
            bank=None,
            read=None,
            sampling=self.sampling.as_dict(),
            seed=seed,
            max_new_tokens=self.max_new_tokens,
            engine=self.engine.as_key(),
        )

    @cached_property
    def digest(self) -> str:
        """The digest of all settings that decide responses, without the problems."""
        return digest_of(
            dict(
                model=self.model_revision,
                engine=self.engine.as_key(),
                sampling=self.sampling.as_dict(),
                max_new_tokens=self.max_new_tokens,
                prompt=self.prompt,
                seed=self.seed_name,
            )
        )

    def prompt_of(self, source: SourceRecord) -> Prompt:
        """The prompt of a source record. The last one is cached, because the samples of a record follow one another."""
        if source.record_id not in self._prompts:
            ids = tuple(self.renderer.prompt_ids([], user_message(self.prompt, source.problem)))
            self._prompts.clear()
            self._prompts[source.record_id] = Prompt(ids, ids_digest(ids))
        return self._prompts[source.record_id]


@dataclass
class RolloutChain:
    """One sample of one source record; implements `Chain`."""

    settings: RolloutSettings
    source: SourceRecord
    sample: int
    missing: str | None = None
    rows: list[dict[str, Any]] = field(default_factory=list)
    _prompt: Prompt | None = None

    @cached_property
    def seed(self) -> int:
        """A function of data set, model, source record and sample."""
        settings = self.settings
        return seed_of(settings.seed_name, settings.data_set, settings.model, self.source.record_id, self.sample)

    @property
    def name(self) -> str:
        return f"record {self.source.record_id}, sample {self.sample}"

    def generates(self) -> int:
        return 1

    def gaps(self) -> list[dict[str, Any]]:
        if self.missing is None:
            return []
        return [dict(record_id=self.source.record_id, sample=self.sample, reason=self.missing)]

    @property
    def prompt(self) -> Prompt:
        if self._prompt is None:
            self._prompt = self.settings.prompt_of(self.source)
        return self._prompt

    def next(self) -> str | None:
        return None if self.rows else self.settings.key(self.prompt.digest, self.seed)

    def append_record(self, record: Mapping[str, Any]) -> None:
        self.rows.append(
            dict(
                model=self.settings.model,
                record_id=self.source.record_id,
                problem_id=self.source.problem_id,
                sample=self.sample,
                seed=self.seed,
                prompt_tokens=len(self.prompt.ids),
                prompt_ids_sha256=self.prompt.digest,
                **{"batch_invariant": None, **record},
            )
        )

    def lost(self, engine: Engine) -> Reconstruction | None:
        """A rollout reads no states."""
        return None

    def restore(self, segment: Segment) -> None:
        """A rollout reads no states."""
        raise AssertionError("a rollout reads no states")

    def request(self, engine: Engine) -> Request:
        return Request(
            key=self.settings.key(self.prompt.digest, self.seed),
            prompt_ids=self.prompt.ids,
            sampling=self.settings.sampling,
            seed=self.seed,
            max_new_tokens=self.settings.max_new_tokens,
            stop_ids=self.settings.renderer.stop_ids,
        )

    def record(self, completion: Completion, engine: Engine) -> dict[str, Any]:
        columns = response_columns(completion, engine, self.settings.renderer)
        return columns | {"batch_invariant": completion.batch_invariant}
