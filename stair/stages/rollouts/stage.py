"""The rollouts stage: shards that generate, and the seal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import Problem, user_message
from stair.engines.base import Engine
from stair.records.rows import SourceRecord
from stair.records.schemas import ROLLOUTS, TRAINING_POOL
from stair.records.seeds import seed_of
from stair.records.shards import Shard
from stair.records.tables import rows_as, write_table
from stair.sessions.backbone import Backbone
from stair.sessions.prompt_check import check_lengths
from stair.sessions.run import report_missing, run_shard, sealed_rows
from stair.sessions.trajectory import Generation, Question, Trajectory


def _trajectories(config: Config, backbone: Backbone, records: Iterable[SourceRecord]) -> Iterator[Trajectory]:
    """One trajectory of one turn for each sample. A record's samples are consecutive, because they share their prompt."""
    sampling = backbone.settings.rollout_sampling
    settings = Generation(
        model_revision=backbone.revision,
        engine=backbone.engine,
        renderer=backbone.renderer,
        sampling=backbone.sampling(sampling),
        max_new_tokens=sampling.max_new_tokens,
        columns=tuple(ROLLOUTS.names),
    )
    prompt, data_set, model = config.prompts[config.training_pool.prompt], config.training_pool.name, backbone.key
    for record in records:
        user = user_message(prompt, record.problem)
        for sample in range(config.rollouts.samples):
            names = dict(model=model, record_id=record.record_id, problem_id=record.problem_id, sample=sample)
            seed = seed_of(config.rollouts.seed, data_set, model, record.record_id, sample)
            yield Trajectory(settings, [Question(user, seed, names)])


def _records(paths: RunPaths, model: str) -> list[SourceRecord]:
    return [*rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)]


def generate(config: Config, paths: RunPaths, model: str, shard: Shard) -> None:
    """Generates one shard of a model's rollouts."""
    backbone = Backbone.open(config, paths, model, config.rollout_engine(model))
    all_records = _records(paths, model)
    _check_lengths(config, paths, backbone, all_records)
    records = shard.share(all_records)
    with ExitStack() as stack:

        def load() -> Engine:
            log = paths.log("rollouts", model, f"server-{shard.number}-of-{shard.of}")
            return stack.enter_context(backbone.running(log))

        run_shard(
            lambda load: _trajectories(config, backbone, records),
            paths.work("rollouts", model),
            shard,
            load,
            (paths.progress, f"rollouts/{model}/{shard.number}"),
            _logs_to_reuse(config, paths, model),
            accept_missing=config.accept_missing,
        )


def _logs_to_reuse(config: Config, paths: RunPaths, model: str) -> list[Path]:
    """A seed contains the model's key, so only this model's logs can have an equal response."""
    return [other.work("rollouts", model, "log") for other in paths.reused(config).values()]


def _check_lengths(config: Config, paths: RunPaths, backbone: Backbone, records: Iterable[SourceRecord]) -> None:
    prompt, limit = config.prompts[config.training_pool.prompt], backbone.settings.rollout_sampling.max_new_tokens
    problems = (Problem(record.record_id, user_message(prompt, record.problem)) for record in records)
    table = paths.training_pool(backbone.key)
    check_lengths(backbone.renderer, backbone.architecture.context, problems, limit, table)


def seal(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Writes a model's rollouts from the logs, without a model; returns facts for the manifest."""
    backbone = Backbone.open(config, paths, model, config.rollout_engine(model))
    trajectories = _trajectories(config, backbone, _records(paths, model))
    facts: dict[str, Any] = {"model_revision": backbone.revision}
    output = paths.rollouts(model)
    others, accept = _logs_to_reuse(config, paths, model), config.accept_missing
    rows = sealed_rows(trajectories, paths.work("rollouts", model), facts, others, accept_missing=accept)
    write_table(output, ROLLOUTS, rows)
    report_missing(output, facts)
    return facts
