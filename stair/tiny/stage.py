"""The stages of the embedded run: generated data sets, and small backbones whose accuracy is held to bounds."""

from __future__ import annotations

import shutil
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.records.files import replacing
from stair.records.progress import Progress
from stair.tiny.generated_sets import write_benchmark, write_training_pool


def write_raw(config: Config, paths: RunPaths, name: str) -> None:
    """Writes a generated data set in the schema of the real one: a benchmark, or `training_pool`."""
    dataset = config.training_pool if name == "training_pool" else config.benchmarks[name]
    assert dataset.tiny is not None, "only data sets marked as tiny are generated"
    sizes = {key: item.tiny for key, item in config.benchmarks.items() if item.tiny is not None}
    with replacing(paths.dataset_file(config, name)) as partial:
        if name == "training_pool":
            write_training_pool(partial, dataset.tiny, sizes)
        else:
            write_benchmark(partial, name, dataset.tiny)


def train(config: Config, paths: RunPaths, model: str) -> dict[str, Any]:
    """Trains a small backbone; returns facts for the manifest.

    If its accuracy is out of bounds, tries the next seed; keeps the last one with a warning.
    """
    from stair.models import delta_kernels

    delta_kernels.do_without()  # before Transformers' code of Qwen3.5 is imported
    from stair.tiny.acceptance import measure
    from stair.tiny.backbone_training import BackboneSpec, train_backbone
    from stair.tiny.conversations import BackbonePrompts

    settings = config.models[model]
    assert settings.tiny is not None, "only models marked as tiny are trained here"
    tiny = settings.tiny
    prompts = BackbonePrompts(config.prompts["training"], config.prompts["math"], config.prompts["choice"])
    output = paths.backbone(model)
    attempts = []
    for number, seed in enumerate(tiny.seeds, start=1):
        progress = Progress(paths.progress, f"backbone/{model}", tiny.steps, "steps")
        partial = output.with_name(f".{model}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        facts = train_backbone(partial, BackboneSpec(tiny, settings.thinking, prompts, seed), progress.set)
        accuracy = measure(config, paths, model, partial)
        outside = _outside(config, accuracy)
        attempts.append({"seed": seed, "accuracy": accuracy, "outside": outside, **facts})
        print(f"{model}: " + ", ".join(f"{name} {value:.0%}" for name, value in accuracy.items()))
        if not outside:
            break
        more = "the next seed is tried" if number < len(tiny.seeds) else "the last seed is kept"
        print(f"warning: {model}: accuracy out of bounds (15%, for choices 30%, to 95%): {', '.join(outside)}; {more}")
    shutil.rmtree(output, ignore_errors=True)
    partial.rename(output)
    return {"tried": attempts}


def _outside(config: Config, accuracy: dict[str, float]) -> list[str]:
    """The benchmarks and turns with an accuracy out of bounds; the lower bound is higher if a guess is right once in four."""
    least = {name: 0.30 if config.benchmarks[name.split()[0]].kind == "choice" else 0.15 for name in accuracy}
    return [name for name, share in accuracy.items() if not least[name] <= share <= 0.95]
