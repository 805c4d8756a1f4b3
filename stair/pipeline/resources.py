"""The GPUs and the host memory that a job needs, for the plan. Imports no torch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from stair.core import TURNS
from stair.pipeline.jobs import JOBS, STAGES, gpus_of
from stair.pipeline.run import Run

FETCH_RULES = ("fetch", "fetch_hub")
"""They run beside the driver, so they are not submitted, and no plan counts them."""

_MB = 2**20
_LIBRARIES_MB, _CUDA_MB = 1_500, 6_000
"""A process with torch and Snakemake (a tiny run's jobs take at most 1,000 MB); what CUDA's libraries and pinned buffers add."""
_ROWS_MB = 4_000
"""Rows of a real run, which are read 64 at a time, and the columns that are kept of them."""


@dataclass(frozen=True)
class Resources:
    """What one job needs."""

    gpus: int
    mem_mb: int
    """Host memory."""


def resources(run: Run, rule: str, wildcards: Mapping[str, str]) -> Resources:
    """The needs of a job, for the plan."""
    if rule not in JOBS or JOBS[rule].engine is None:
        tiny = all(run.shape(model).small for model in run.config.models)
        return Resources(0, _LIBRARIES_MB + (0 if tiny else _ROWS_MB))
    gpus = gpus_of(run.config, rule, wildcards)
    workers = run.config.training.workers if rule in STAGES["training"] else 1
    weights = math.ceil(run.shape(wildcards["model"]).weight_bytes / _MB)
    memory = _LIBRARIES_MB + workers * (weights + (_CUDA_MB if gpus else 0))
    return Resources(gpus, memory + _banks_mb(run, rule, wildcards))


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
