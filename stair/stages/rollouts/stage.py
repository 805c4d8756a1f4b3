"""The rollouts stage: shards that generate, and the seal."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import Problem, user_message
from stair.engines.base import Engine
from stair.engines.choice import Needs
from stair.records.files import matching, write_json
from stair.records.keys import digest_of
from stair.records.rows import SourceRecord
from stair.records.schemas import ROLLOUTS, TRAINING_POOL
from stair.records.seeds import seed_of
from stair.records.shards import Shard, generating_facts
from stair.records.tables import rows_as, write_table
from stair.sessions.backbone import Backbone
from stair.sessions.prompt_check import longest_prompt
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


def _digest(config: Config, backbone: Backbone) -> str:
    """The digest of all settings that decide responses, without the problems."""
    sampling = backbone.settings.rollout_sampling
    return digest_of(
        dict(
            model=backbone.revision,
            engine=backbone.engine.as_key(),
            sampling=backbone.sampling(sampling).as_dict(),
            max_new_tokens=sampling.max_new_tokens,
            prompt=config.prompts[config.training_pool.prompt],
            seed=config.rollouts.seed,
        )
    )


def _records(paths: RunPaths, model: str) -> list[SourceRecord]:
    return [*rows_as(paths.training_pool(model), TRAINING_POOL, SourceRecord)]


def generate(config: Config, paths: RunPaths, model: str, shard: int, of: int) -> None:
    """Generates one shard of a model's rollouts."""
    backbone = Backbone.open(config, paths, model, config.rollout_engine(model))
    settings, all_records = _digest(config, backbone), _records(paths, model)
    longest, records = _longest(config, paths, backbone, all_records), Shard(shard, of).share(all_records)
    servers_folder = paths.work("rollouts", model, "servers")
    with ExitStack() as stack:

        def load() -> Engine:
            name = f"{shard}-of-{of}"
            needs = Needs(
                log=paths.log("rollouts", model, f"server-{name}"),
                started=lambda facts: _record_server(servers_folder, f"shard-{name}", settings, facts),
                longest=lambda: longest,
            )
            return stack.enter_context(backbone.running(needs))

        run_shard(
            lambda load: _trajectories(config, backbone, records),
            paths.work("rollouts", model),
            Shard(shard, of),
            load,
            (paths.progress, f"rollouts/{model}/{shard}"),
            _logs_to_reuse(config, paths, model),
            accept_missing=config.accept_missing,
        )


def _logs_to_reuse(config: Config, paths: RunPaths, model: str) -> list[Path]:
    """A seed contains the model's key, so only this model's logs can have an equal response."""
    return [other.work("rollouts", model, "log") for other in paths.reused(config).values()]


def _longest(config: Config, paths: RunPaths, backbone: Backbone, records: Iterable[SourceRecord]) -> int:
    """Tokens of the longest prompt with its response. Raises as `longest_prompt`."""
    prompt, limit = config.prompts[config.training_pool.prompt], backbone.settings.rollout_sampling.max_new_tokens
    problems = (Problem(record.record_id, user_message(prompt, record.problem)) for record in records)
    table = paths.training_pool(backbone.key)
    return limit + longest_prompt(backbone.renderer, backbone.architecture.context, problems, limit, table)


def seal(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Writes a model's rollouts from the logs, without a model; returns facts for the manifest."""
    backbone = Backbone.open(config, paths, model, config.rollout_engine(model))
    trajectories = _trajectories(config, backbone, _records(paths, model))
    gaps: list[dict[str, Any]] = []
    output = paths.rollouts(model)
    batch_invariant: Counter[str] = Counter()
    others, accept = _logs_to_reuse(config, paths, model), config.accept_missing
    rows = sealed_rows(trajectories, paths.work("rollouts", model), gaps, others, accept_missing=accept)
    count = write_table(output, ROLLOUTS, _count_batch_invariant(rows, batch_invariant))
    report_missing(output, len(gaps))
    return {
        "model_revision": backbone.revision,
        "responses": count,
        "missing": gaps,
        **generating_facts(paths.work("rollouts", model)),
        "batch_invariant": dict(batch_invariant),
        "servers": _servers(paths.work("rollouts", model, "servers"), _digest(config, backbone)),
    }


def _record_server(folder: Path, shard: str, settings: str, facts: Mapping[str, Any]) -> None:
    """Writes a server's report; `shard` names its job, `settings` is the digest of the job's settings."""
    number = len(list(folder.glob(f"{shard}.*.json")))
    write_json(folder / f"{shard}.{number:03d}.json", {"settings": settings, **facts})


def _servers(folder: Path, settings: str) -> list[dict[str, Any]]:
    """The distinct reports of servers with these settings, each with their number; empty if no server was started."""
    counts: dict[str, int] = {}
    for path in matching(folder, "*.json"):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts.pop("settings", None) != settings:
            continue
        text = json.dumps(facts, sort_keys=True)
        counts[text] = counts.get(text, 0) + 1
    return [{**json.loads(text), "servers": count} for text, count in counts.items()]


def _count_batch_invariant(rows: Iterable[dict[str, Any]], counts: Counter[str]) -> Iterator[dict[str, Any]]:
    """Yields the rows and counts their values of `batch_invariant`."""
    for row in rows:
        counts[{True: "yes", False: "no", None: "not known"}[row["batch_invariant"]]] += 1
        yield row
