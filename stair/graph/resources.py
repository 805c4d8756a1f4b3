"""What a job asks a scheduler for: GPUs, host memory and time. Imports no torch.

These are requests, not results: they enter no params and no key. A local run counts its GPUs alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from stair.config.resolve import ConfigError
from stair.config.site import SITE, Site
from stair.core import SHARED_T1_STUDY, TURNS
from stair.graph.output_kind import OutputKind
from stair.graph.outputs import OUTPUTS
from stair.graph.run import Run

_MB = 2**20
"""Bytes of a unit of `mem_mb`, as Slurm counts them."""
_LIBRARIES_MB, _CUDA_MB = 1_500, 6_000
"""A process with torch and Snakemake (a tiny run's jobs take at most 1,000 MB); what CUDA's libraries and pinned buffers add."""
_ROWS_MB = 4_000
"""Rows of a real run, which are read 64 at a time, and the columns that are kept of them."""

_TINY_MINUTES, _SHORT_MINUTES, _LONG_MINUTES = 5, 20, 240
"""Jobs that start over when they are stopped: of a tiny run, short ones, and long ones, which took at most an hour. A group
of short ones asks for the sum over its levels."""
_RESUMABLE_MINUTES = 1440
"""Jobs that resume, where no site limits them."""

_LONG = ("replay_statistics", "runtime", "scores", "shared_t1_scores")
_RESUMABLE = ("rollouts", "responses", SHARED_T1_STUDY, "replay", "controller")
_ON_GPU = (*_RESUMABLE, "runtime")


@dataclass(frozen=True)
class Resources:
    """The request of one job."""

    gpus: int
    mem_mb: int
    """Host memory."""
    minutes: int
    resumes: bool
    """Whether the job resumes after its time limit, so that it takes the longest limit of a site."""


def resources(run: Run, output: OutputKind, *name: str, seals: bool = False, site: Site | None = None) -> Resources:
    """What a job asks for.

    Args:
        run: the run.
        output: the kind of output that the job makes.
        name: the job's name, a value for each wildcard of the output. All shards of an output ask for the same.
        seals: whether the job seals an output that has shards, instead of working on a shard.
        site: its limits give the time of jobs that resume.
    """
    wildcards = output.values(*name)
    if seals or output.name not in _ON_GPU:
        tiny = all(run.shape(model).small for model in run.config.models)
        memory = _LIBRARIES_MB + (0 if tiny else _ROWS_MB)
        minutes = _TINY_MINUTES if tiny else _LONG_MINUTES if output.name in _LONG else _SHORT_MINUTES
        return Resources(0, memory, minutes, resumes=False)
    gpus, workers = _gpus(run, output.name, wildcards)
    shape = run.shape(wildcards["model"])
    memory = _LIBRARIES_MB + workers * (math.ceil(shape.weight_bytes / _MB) + (_CUDA_MB if gpus else 0))
    memory += _banks_mb(run, output.name, wildcards)
    resumes = output.name in _RESUMABLE
    restarting = _TINY_MINUTES if shape.small else _LONG_MINUTES
    minutes = (site and site.longest(gpus, memory)) or _RESUMABLE_MINUTES if resumes else restarting
    return Resources(gpus, memory, minutes, resumes)


def every_request(run: Run, site: Site | None = None) -> Iterator[tuple[str, Resources]]:
    """The name and the request of every job of a run, shards as one."""
    for output in OUTPUTS.values():
        for name in output.jobs(run):
            label = " ".join((output.name, *name))
            yield label, resources(run, output, *name, site=site)
            if output.shards is not None:
                yield f"{label} (seal)", resources(run, output, *name, seals=True, site=site)


def check_fits(run: Run, site: Site) -> None:
    """Refuses a run with a job that no partition can ever run.

    Raises:
        ConfigError: one line with the job, the resource, the limit and the keys.
    """
    for job, asked in every_request(run, site):
        if site.partition_for(asked.gpus, asked.mem_mb, asked.minutes) is not None:
            continue
        limits = site.partitions.values()
        with_gpus = [limit for limit in limits if limit.gpus >= asked.gpus]
        with_memory = [limit for limit in with_gpus if limit.mem_mb >= asked.mem_mb]
        if not with_gpus:
            text = f"{asked.gpus} GPUs, and partitions.*.gpus is at most {max(limit.gpus for limit in limits)}"
            keys = ", or change training.workers, sglang.tensor_parallel or transformers.device"
        elif not with_memory:
            text = f"{asked.mem_mb} MB, and partitions.*.mem_mb with its GPUs is at most {max(p.mem_mb for p in with_gpus)}"
            keys = ", or change transformers.batch_width or training.workers"
        else:
            text = f"{asked.minutes} minutes, and partitions.*.minutes is at most {max(p.minutes for p in with_memory)}"
            keys = ""
        raise ConfigError(f"{job} asks for {text} in {SITE}: name a larger partition there{keys}")


def _gpus(run: Run, output: str, wildcards: Mapping[str, str]) -> tuple[int, int]:
    """GPUs of a job, and processes that load the model."""
    config = run.config
    if output == "rollouts":
        return config.gpus_for(config.rollout_engine(wildcards["model"])), 1
    if output in ("responses", SHARED_T1_STUDY):
        return config.gpus_for(config.engine_for(wildcards["model"], wildcards["benchmark"])), 1
    workers = config.training.workers if output == "controller" else 1
    return workers * config.gpus_for("transformers"), workers


def _banks_mb(run: Run, output: str, wildcards: Mapping[str, str]) -> int:
    """The host memory of banks, at most: each row of a batch has its own, and all turns reach the output limit."""
    config, model = run.config, wildcards["model"]
    if output in ("replay", "rollouts"):
        return 0
    if output == "controller":
        controller, rows, turns = wildcards["controller"], 1, TURNS
        tokens = config.models[model].rollout_sampling.max_new_tokens
    elif output == "runtime":
        assert config.runtime is not None
        controller, turns, tokens = config.runtime.controller, 1, max((0, *config.runtime.curve))
        # A GPU's bank has a page-locked copy beside it, for which torch takes up to twice its size.
        rows = 3 if config.gpus_for("transformers") else 1
    else:
        study = run.config if output == "responses" else run.shared_t1.config
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
