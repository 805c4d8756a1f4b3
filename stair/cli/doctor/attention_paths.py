"""The attention that each model of a run computes with, and why; the kernels of Gated DeltaNet."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec

from stair.cli.doctor.finding import Finding
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.engines.choice import engine_choice
from stair.models import delta_kernels, flash_kernels
from stair.pipeline.model_shape import shape_of


def attention_findings(config: Config, paths: RunPaths) -> Iterator[Finding]:
    for model in config.models:
        yield _path_of(config, model)
    published = (model for model, settings in config.models.items() if settings.tiny is None)
    hybrids = [model for model in published if shape_of(config, paths, model).hybrid]
    if hybrids and config.transformers.device != "cpu":
        yield _delta_net(config, hybrids)


def _path_of(config: Config, model: str) -> Finding:
    options, dtype = config.transformers, config.models[model].dtype
    path = engine_choice(config, "transformers").identity(dtype).attention
    text = f"{model}: {path}"
    if options.attention != "auto":
        text += ", as transformers.attention says"
        if path in flash_kernels.PACKAGES and not flash_kernels.installed(path):
            text += f", but {flash_kernels.PACKAGES[path][1]} is not installed"
            return Finding("attention", "error", text, flash_kernels.REMEDIES[path])
        if path in flash_kernels.PACKAGES and options.device == "cpu":
            text += ", but transformers.device is cpu"
            return Finding("attention", "error", text, "set transformers.attention to sdpa")
        return Finding("attention", "ok", text)
    if path == "flash_attention_2":
        if flash_kernels.installed(path):
            return Finding("attention", "ok", f"{text} {metadata.version('flash-attn')}, for {dtype} on a GPU")
        text += " is chosen, but the installed flash_attn is another package"
        return Finding("attention", "error", text, "pip uninstall flash-attn-4")
    if options.device == "cpu":
        return Finding("attention", "ok", f"{text}, because transformers.device is cpu")
    if dtype != "bfloat16":
        return Finding("attention", "ok", f"{text}, because FlashAttention2 has no {dtype}")
    text += ", because FlashAttention2 is not installed"
    if config.models[model].tiny is not None:
        return Finding("attention", "ok", text)
    text += "; decoding reads every row up to the longest one's length"
    return Finding("attention", "warning", text, flash_kernels.REMEDIES["flash_attention_2"])


def _delta_net(config: Config, models: list[str]) -> Finding:
    missing = [package for module, package in delta_kernels.PACKAGES.items() if find_spec(module) is None]
    if not missing:
        versions = ", ".join(f"{name} {metadata.version(name)}" for name in delta_kernels.PACKAGES.values())
        return Finding("attention", "ok", f"Gated DeltaNet of {', '.join(models)}: {versions}")
    text = f"Gated DeltaNet of {', '.join(models)} computes with torch, because {' and '.join(missing)} "
    text += f"{'is' if len(missing) == 1 else 'are'} not installed; it is slower"
    trained = {model for controller in config.controllers for model in config.trained(controller)}
    if "flash-linear-attention" in missing and trained & {*models} and not config.training.allow_torch_recurrence:
        text += ", and no GPU trains it so without training.allow_torch_recurrence: true"
    wheel = " CAUSAL_CONV1D_WHEEL=<address of a wheel>" if "causal-conv1d" in missing else ""
    return Finding("attention", "warning", text, f"make env DEVICE=cuda{wheel}")
