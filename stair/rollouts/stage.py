"""The rollouts stage: shards that generate, and the seal."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.protocol.backbone import Backbone, sampling_settings
from stair.protocol.chain import Chain
from stair.protocol.shards import run_shard, sealed_chains, share
from stair.records.manifest import write_manifest
from stair.records.schemas import ROLLOUTS, TRAINING_POOL
from stair.records.tables import read_table, write_table
from stair.rollouts.chain import RolloutChain, RolloutSettings


def _chains(config: Config, paths: RunPaths, backbone: Backbone) -> list[RolloutChain]:
    """All chains of a model, in the order of records and samples."""
    sampling = backbone.settings.rollout_sampling
    settings = RolloutSettings(
        model=backbone.key,
        data_set=config.training_pool.name,
        model_revision=backbone.revision,
        engine=backbone.engine,
        renderer=backbone.renderer,
        sampling=sampling_settings(sampling),
        max_new_tokens=sampling.max_new_tokens,
        prompt=config.prompts[config.training_pool.prompt],
        seed_name=config.rollouts.seed,
    )
    records = read_table(paths.training_pool(backbone.key), TRAINING_POOL)
    return [RolloutChain(settings, record, sample) for record in records for sample in range(config.rollouts.samples)]


def generate(config: Config, paths: RunPaths, model: str, shard: int, of: int) -> None:
    """Generates one shard of a model's rollouts."""
    backbone = Backbone.open(config, paths, model)

    def chains(generating: bool) -> list[Chain]:
        # A record's samples stay together: they share their prompt.
        everything = _chains(config, paths, backbone)
        samples = config.rollouts.samples
        groups = [everything[i : i + samples] for i in range(0, len(everything), samples)]
        return [chain for group in share(groups, shard, of) for chain in group]

    run_shard(
        chains,
        len(chains(False)),
        paths.work("rollouts", model),
        (shard, of),
        lambda: backbone.load_engine(config, layers=()),
        (paths.progress, f"rollouts/{model}/{shard}"),
        paths.shard(str(shard), str(of), "rollouts", model),
        {run: other.work("rollouts") for run, other in paths.reused(config).items()},
    )


def seal(config: Config, paths: RunPaths, model: str) -> None:
    """Writes a model's rollouts from the logs, without a model."""
    backbone = Backbone.open(config, paths, model)
    chains: list[RolloutChain] = _chains(config, paths, backbone)
    sealed_chains(list(chains), paths.work("rollouts", model))
    rows = [row for chain in chains for row in chain.rows]
    output = paths.rollouts(model)
    count = write_table(output, ROLLOUTS, rows)
    settings = {"sampling": backbone.settings.rollout_sampling.model_dump(), "model_revision": backbone.revision}
    write_manifest(output, stage="rollouts", settings=settings, responses=count)
