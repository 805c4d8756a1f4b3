"""The rollouts stage: shards that generate, and the seal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.engines.base import Engine
from stair.engines.choice import Needs
from stair.jobs.shards import Shard
from stair.protocol.backbone import Backbone
from stair.protocol.chain import Missing
from stair.protocol.chain_shards import run_shard, sealed_rows, tidy
from stair.protocol.failures import report_entries
from stair.records.files import read_mapping
from stair.records.manifest import write_manifest
from stair.records.schemas import ROLLOUTS, TRAINING_POOL
from stair.records.tables import read_table, write_table
from stair.rollouts.chain import RolloutChain, RolloutSettings
from stair.rollouts.servers import record_server, servers


def _settings(config: Config, backbone: Backbone) -> RolloutSettings:
    """What all chains of a model share."""
    sampling = backbone.settings.rollout_sampling
    return RolloutSettings(
        model=backbone.key,
        data_set=config.training_pool.name,
        model_revision=backbone.revision,
        engine=backbone.engine,
        renderer=backbone.renderer,
        sampling=backbone.sampling(sampling),
        max_new_tokens=sampling.max_new_tokens,
        prompt=config.prompts[config.training_pool.prompt],
        seed_name=config.rollouts.seed,
    )


def _records(paths: RunPaths, model: str) -> list[dict[str, Any]]:
    """A model's source records."""
    return read_table(paths.training_pool(model), TRAINING_POOL)


Lost = Mapping[tuple[str, int], Missing]
"""The responses that the configuration names as missing, by record and sample."""


def _lost(config: Config, paths: RunPaths, model: str, records: Sequence[dict[str, Any]]) -> Lost:
    """A model's responses that the configuration names as missing."""
    lost = {(gap.record, gap.sample): Missing(1, gap.reason) for gap in config.rollouts.missing if gap.model == model}
    if strange := sorted({record for record, _ in lost} - {record["record_id"] for record in records}):
        raise ValueError(f"rollouts.missing: {paths.training_pool(model)} has no record '{strange[0]}'")
    return lost


def _chains(
    settings: RolloutSettings, records: Sequence[dict[str, Any]], samples: int, lost: Lost
) -> Iterator[RolloutChain]:
    """Chains, made as they are drawn. A record's samples stay together: they share their prompt."""
    return (
        RolloutChain(settings, record, sample, lost.get((record["record_id"], sample)))
        for record in records
        for sample in range(samples)
    )


def generate(config: Config, paths: RunPaths, model: str, shard: int, of: int) -> None:
    """Generates one shard of a model's rollouts."""
    backbone = Backbone.open(config, paths, model, config.rollout_engine(model), generating="training_pool")
    settings, samples = _settings(config, backbone), config.rollouts.samples
    servers_folder = paths.work("rollouts", model, "servers")
    everything = _records(paths, model)
    records, lost = Shard(shard, of).share(everything), _lost(config, paths, model, everything)
    with ExitStack() as ended:

        def load() -> Engine:
            name = f"{shard}-of-{of}"
            needs = Needs(
                log=paths.log("rollouts", model, f"server-{name}"),
                started=lambda facts: record_server(servers_folder, f"shard-{name}", settings.digest, facts),
                longest=lambda: _longest(paths, backbone),
            )
            return ended.enter_context(backbone.running(needs))

        run_shard(
            lambda generating: _chains(settings, records, samples, lost),
            paths.work("rollouts", model),
            Shard(shard, of),
            load,
            (paths.progress, f"rollouts/{model}/{shard}"),
            paths.shard(str(shard), str(of), "rollouts", model),
            {run: other.work("rollouts") for run, other in paths.reused(config).items()},
            "rollouts.missing",
        )


def _longest(paths: RunPaths, backbone: Backbone) -> int:
    """Tokens of the longest prompt, as preflight has counted them, with the longest response that the context leaves room for."""
    limit = read_mapping(paths.preflight_limits(backbone.key, "training_pool"))
    return min(backbone.architecture.context, limit["longest_prompt"] + limit["max_new_tokens"])


def seal(config: Config, paths: RunPaths, model: str) -> None:
    """Writes a model's rollouts from the logs, without a model."""
    backbone = Backbone.open(config, paths, model, config.rollout_engine(model))
    shared = _settings(config, backbone)
    records = _records(paths, model)
    lost = _lost(config, paths, model, records)
    chains = _chains(shared, records, config.rollouts.samples, lost)
    gaps: list[dict[str, Any]] = []
    output = paths.rollouts(model)
    seen: Counter[str] = Counter()
    count = write_table(output, ROLLOUTS, _counted(sealed_rows(chains, paths.work("rollouts", model), gaps), seen))
    settings = {"sampling": backbone.settings.rollout_sampling.model_dump(), "model_revision": backbone.revision}
    facts = {
        "missing": gaps,
        "batch_invariant": dict(seen),
        "servers": servers(paths.work("rollouts", model, "servers"), shared.digest),
    }
    write_manifest(output, stage="rollouts", settings=settings, responses=count, **facts)
    lacking = {(gap["record_id"], gap["sample"]) for gap in gaps}
    existing = [f"record {record}, sample {sample}" for record, sample in lost if (record, sample) not in lacking]
    # Snakemake plans training anew before it can see that the responses are the same.
    price = " (the next start then trains this model's controllers again), or keep it: it leaves nothing out"
    report_entries(output, "rollouts.missing", len(gaps), existing, price)
    tidy(paths.work("rollouts", model))


def _counted(rows: Iterable[dict[str, Any]], seen: Counter[str]) -> Iterator[dict[str, Any]]:
    """Rows as they pass, with what was seen of the engine's determinism counted."""
    for row in rows:
        seen[{True: "yes", False: "no", None: "not known"}[row["batch_invariant"]]] += 1
        yield row
