"""The resources that a job requests: GPUs, host memory and time. Imports no torch.

They decide no result, so they enter no params and no key. A local run limits its jobs by their GPUs alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from stair.config.resolve import ConfigError
from stair.config.site import SITE, Site
from stair.core import TURNS
from stair.pipeline.job_list import ListedJob
from stair.pipeline.jobs import JOBS, STAGES, gpus_of
from stair.pipeline.run import Run

FETCH_RULES = ("fetch", "fetch_hub")
"""They run beside the driver, so they are not submitted, and no plan counts them."""

REQUESTED = ("gpu", "mem_mb", "runtime", "gpu_model", "slurm_partition", "slurm_account", "slurm_extra")
"""The names of a rule's resources."""

_RESUMING_RULES = (*(rule for rule, job in JOBS.items() if job.is_shard), *STAGES["training"])
_LONG_RULES = ("replay_statistics", "score_condition", "score_controls")

_MB = 2**20
_LIBRARIES_MB, _CUDA_MB = 1_500, 6_000
"""A process with torch and Snakemake (a tiny run's jobs take at most 1,000 MB); what CUDA's libraries and pinned buffers add."""
_ROWS_MB = 4_000
"""Rows of a real run, which are read 64 at a time, and the columns that are kept of them."""

_TINY_MINUTES, _SHORT_MINUTES, _LONG_MINUTES = 5, 20, 240
"""Jobs that start over when they are stopped: those of a tiny run, short ones, and long ones, which took at most an hour."""
_RESUMABLE_MINUTES = 1440
"""Jobs that resume, without a site's limit."""
_LIMITS = (
    ("gpus", "GPUs", "", ", or change training.workers, sglang.tensor_parallel or transformers.device"),
    ("mem_mb", "MB", " with its GPUs", ", or change transformers.batch_width or training.workers"),
    ("minutes", "minutes", "", ""),
)
"""A partition's limits: key, unit, a remark, and other keys that change the request."""


@dataclass(frozen=True)
class Resources:
    """What one job requests."""

    gpus: int
    mem_mb: int
    """Host memory."""
    minutes: int
    resumes: bool
    """Whether the job resumes after its time limit, so that it takes the longest limit of a site."""


def resources(run: Run, rule: str, wildcards: Mapping[str, str], *, site: Site | None = None) -> Resources:
    """The request of a job. A job that resumes takes the longest time limit of the site."""
    if rule not in JOBS or JOBS[rule].engine is None:
        tiny = all(run.shape(model).small for model in run.config.models)
        memory = _LIBRARIES_MB + (0 if tiny else _ROWS_MB)
        minutes = _TINY_MINUTES if tiny else _LONG_MINUTES if rule in _LONG_RULES else _SHORT_MINUTES
        return Resources(0, memory, minutes, resumes=False)
    gpus = gpus_of(run.config, rule, wildcards)
    workers = run.config.training.workers if rule in STAGES["training"] else 1
    shape = run.shape(wildcards["model"])
    memory = _LIBRARIES_MB + workers * (math.ceil(shape.weight_bytes / _MB) + (_CUDA_MB if gpus else 0))
    memory += _banks_mb(run, rule, wildcards)
    resumes = rule in _RESUMING_RULES
    restarting = _TINY_MINUTES if shape.small else _LONG_MINUTES
    minutes = (site and site.longest(gpus, memory)) or _RESUMABLE_MINUTES if resumes else restarting
    return Resources(gpus, memory, minutes, resumes)


def request(
    run: Run, rule: str, wildcards: Mapping[str, str], *, attempt: int = 1, site: Site | None = None
) -> dict[str, int | str | None]:
    """The values of `REQUESTED`. The n-th attempt asks for n times the memory: the one before may have run out of it."""
    need = resources(run, rule, wildcards, site=site)
    values: dict[str, int | str | None] = dict.fromkeys(REQUESTED)
    values |= {"gpu": need.gpus, "mem_mb": need.mem_mb, "runtime": need.minutes}
    if site is None:
        return values
    partition = site.partition_for(need.gpus, need.mem_mb, need.minutes)
    if partition is None:  # `check_fits` rejects it
        return values
    limit = site.partitions[partition]
    return values | {
        "mem_mb": min(need.mem_mb * attempt, limit.mem_mb),
        "gpu_model": limit.gpu_model if need.gpus else None,
        "slurm_partition": partition,
        "slurm_account": site.account,
        # Other jobs would be warned at their start, because their requests are short.
        "slurm_extra": f"--signal=USR1@{site.signal_seconds}" if need.resumes else None,
    }


def check_fits(run: Run, site: Site, jobs: Iterable[ListedJob]) -> None:
    """Rejects a run with a job that fits no partition of the site: Slurm would accept it and never start it.

    Raises:
        ConfigError: one line with the job, the resource, the limit and the keys.
    """
    for job in jobs:
        if job.rule in FETCH_RULES:
            continue
        need = resources(run, job.rule, job.wildcards, site=site)
        fitting = list(site.partitions.values())
        for key, unit, where, change in _LIMITS:
            largest = max(getattr(limit, key) for limit in fitting)
            fitting = [limit for limit in fitting if getattr(limit, key) >= getattr(need, key)]
            if not fitting:
                names = (value for name, value in job.wildcards.items() if name not in ("shard", "of"))
                raise ConfigError(
                    f"{' '.join((job.rule, *names))} asks for {getattr(need, key)} {unit}, and partitions.*.{key}{where} is "
                    f"at most {largest} in {SITE}: name a larger partition there{change}"
                )


def _banks_mb(run: Run, rule: str, wildcards: Mapping[str, str]) -> int:
    """The host memory of banks, at most: each row of a batch has its own, and all turns reach the output limit."""
    config, model = run.config, wildcards["model"]
    if rule in ("replay_shard", "rollout_shard"):
        return 0
    if rule in STAGES["training"]:
        controller, rows, turns = wildcards["controller"], 1, TURNS
        tokens = config.models[model].rollout_sampling.max_new_tokens
    elif rule == "measure_runtime":
        controller, turns, tokens = run.runtime.controller, 1, max((0, *run.runtime.curve))
        # A GPU's bank has a page-locked copy beside it, for which torch takes up to twice its size.
        rows = 3 if config.gpus_for("transformers") else 1
    else:
        study = config if rule == "evaluation_shard" else run.shared_t1.config
        condition = study.conditions[wildcards["condition"]]
        if not study.reads_bank(wildcards["condition"]):
            return 0
        assert condition.controller is not None
        controller, rows = condition.controller, condition.batch_width or config.transformers.batch_width
        turns = condition.turns - 1
        tokens = config.models[model].sampling_for(wildcards["benchmark"]).max_new_tokens
    layers = len(config.controllers[controller].controlled_layers) if controller in config.controllers else 3
    shape = run.shape(model)
    return math.ceil(rows * turns * tokens * layers * shape.cache_numbers * shape.width / _MB)
