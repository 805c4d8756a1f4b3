"""Checks of the files, rows, columns and layers that a configuration names, before any work. Imports no torch."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from stair.config.engines import EngineName, SGLangSettings
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored, require_folder
from stair.config.resolve import ConfigError
from stair.core import TURNS
from stair.engines.sglang.launch import check_environment
from stair.engines.sglang.supported import check_architecture, check_sampling
from stair.models.flash_kernels import check_installed
from stair.models.hub import check_lock
from stair.models.model_folder import check_weights, known_architecture, read_architecture
from stair.records.files import existing_folder, read_mapping
from stair.records.gpus import visible_gpus
from stair.sessions.backbone import sampling_settings
from stair.stages.data.benchmarks import read_benchmark
from stair.stages.data.reading import check_columns
from stair.stages.data.training_pool import wanted_columns as pool_columns
from stair.stages.training.settings import check_recurrence

UNWRITABLE = "make it writable, or set `results` to another folder"


def refuse(faults: Iterator[str]) -> None:
    """Raises ConfigError with the first fault, one line that names the key and the file, column or layer."""
    for fault in faults:
        raise ConfigError(fault)


def input_faults(config: Config, paths: RunPaths) -> Iterator[str]:
    """The faults of local files and model folders that exist already. Reads whole data sets."""
    yield from _places(config, paths)
    for run, other in paths.reused(config).items():
        if not other.resolved.is_file():
            yield f"reuse: there is no run '{run}' ({other.resolved} does not exist)"
        elif other.folder.resolve() == paths.folder.resolve():
            yield f"reuse: '{run}' is this run itself"
    yield from _said("", check_lock, config, paths)
    for model in config.models:
        yield from _model(config, paths, model)
    for key, benchmark in config.benchmarks.items():
        if benchmark.path is not None:
            yield from _said(f"benchmarks.{key}.path: ", _check_benchmark, config, paths, key)
    if config.training_pool.path is not None:
        file, columns = paths.dataset_file(config, "training_pool"), pool_columns(config.training_pool)
        yield from _said("training_pool.path: ", check_columns, file, columns)
    for key in config.controllers:
        for model in config.trained(key):
            if (folder := paths.published(config, model, key)) is not None:
                yield from _published(config, key, folder)


def _published(config: Config, controller: str, folder: Path) -> Iterator[str]:
    for name in (*config.controllers[controller].files, "folder.manifest.json"):
        if not (folder / name).is_file():
            yield f"controllers.{controller}.path: {folder} lacks {name}; copy the whole folder of the published controller"
            return


def start_faults(config: Config, paths: RunPaths) -> Iterator[str]:
    """What only a start needs: environments of engines that must still generate responses, kernels of hybrids to be trained, and
    a folder that can be written.
    """
    for engine in _engines_to_run(config, paths):
        if isinstance(section := config.engine_section(engine), SGLangSettings):
            yield from _said("", check_environment, section)
        else:
            yield from _said("", check_installed, section.attention)
    device = config.transformers.device
    if device == "cuda" or (device == "auto" and visible_gpus()):
        for controller in config.controllers:
            for model in config.trained(controller):
                known = known_architecture(paths.model_folder(config, model), model)
                trained = paths.controller(model, controller).exists() or config.controllers[controller].path
                if known is not None and not trained:
                    hybrid = len(known.full_attention_layers) < known.layers
                    yield from _said(
                        "", lambda model=model, hybrid=hybrid: check_recurrence(config, model, hybrid=hybrid)
                    )
    for folder in (existing_folder(paths.folder), *(Path(place) for place, _, _ in os.walk(paths.folder))):
        if not os.access(folder, os.W_OK):
            yield f"results: {folder} cannot be written; {UNWRITABLE}"
            break


def _said(place: str, check: Callable[..., object], *arguments: Any) -> Iterator[str]:
    """What a check raises, behind the place of the fault."""
    try:
        check(*arguments)
    except ValueError as error:
        yield f"{place}{error}"


def _engines_to_run(config: Config, paths: RunPaths) -> list[EngineName]:
    """The engines of training and evaluation responses that do not exist yet, each once."""
    needed = [config.rollout_engine(model) for model in config.models if not paths.rollouts(model).exists()]
    needed += [
        config.engine_for(model, benchmark)
        for condition in config.every_condition
        for model, benchmark in config.evaluated(condition)
        if not paths.responses(model, benchmark, condition).exists()
    ]
    return list(dict.fromkeys(needed))


def _places(config: Config, paths: RunPaths) -> Iterator[str]:
    """Paths that Snakemake or Arrow takes for something else. The rules quote all other characters."""
    places = {"results": (config.results, paths.folder), "hub.cache": (config.hub.cache, anchored(config.hub.cache))}
    for key, model in config.models.items():
        if model.path is not None:
            places[f"models.{key}.path"] = (model.path, paths.model_folder(config, key))
    for name in ("training_pool", *config.benchmarks):
        dataset = config.training_pool if name == "training_pool" else config.benchmarks[name]
        if (given := dataset.path or dataset.file) is not None:
            key = f"{name if name == 'training_pool' else f'benchmarks.{name}'}.{'path' if dataset.path else 'file'}"
            places[key] = (given, paths.dataset_file(config, name))
    for key, (given, place) in places.items():
        if given.startswith("~"):
            yield f"{key}: '{given}' begins with ~, which no program here replaces; write the whole path"
        if any(letter in "{}" or not letter.isprintable() for letter in str(place)):
            yield (
                f"{key}: {str(place)!r} contains a brace, or a character that cannot be printed; Snakemake takes braces for "
                "a wildcard, so use another name"
            )
    for part in (paths.folder, *paths.folder.parents):
        if part.exists() and not part.is_dir():
            yield f"results: {part} is a file, so the run's folder {paths.folder} cannot be created"


def _model(config: Config, paths: RunPaths, model: str) -> Iterator[str]:
    """The faults of a model: its architecture, engines, layers and template."""
    settings, folder = config.models[model], paths.model_folder(config, model)
    if settings.path is not None and not config.only_measures:
        yield from _said("", require_folder, folder, f"models.{model}.path")
    if (folder / "config.json").is_file():
        try:
            check_weights(folder)
            architecture = read_architecture(folder)
        except ValueError as error:
            yield str(error)
            return
        name, full, count = architecture.name, architecture.full_attention_layers, architecture.layers
    else:
        name, full, count = "", (), 0  # not fetched yet, so nothing is known
    yield from _engines(config, model, name)
    if count:
        yield from _layers(config, model, full, count)
    if (configured := settings.template_sha256) is not None and (record := paths.preflight(model)).is_file():
        try:
            recorded = read_mapping(record).get("template_sha256")
        except ValueError as error:
            yield str(error)
            return
        if recorded != configured:  # the record may be older than the setting
            yield (
                f"models.{model}.template_sha256 is {configured}, but preflight checked {recorded} ({record}); "
                "set the key to that digest, or delete the file to check the template again"
            )


def _engines(config: Config, model: str, architecture: str) -> Iterator[str]:
    """Settings, sampling and architectures that an engine does not have; an empty architecture is not known yet."""
    settings = config.models[model]
    drawn = [(config.rollout_engine(model), settings.rollout_sampling, "rollout_sampling")]
    for benchmark in config.benchmarks_of(model):
        engine, sampling = config.engine_for(model, benchmark), settings.sampling_for(benchmark)
        drawn.append((engine, sampling, f"evaluation_sampling, on {benchmark}"))
    for engine, sampling, key in drawn:
        if not isinstance(section := config.engine_section(engine), SGLangSettings):
            continue
        yield from _said(f"models.{model}.{key}: ", check_sampling, sampling_settings(sampling, section.truncation))
        if architecture:
            yield from _said(f"models.{model}: ", check_architecture, architecture, section.device)


def _layers(config: Config, model: str, full: tuple[int, ...], count: int) -> Iterator[str]:
    """Controlled and replayed layers that the model does not have, or that are not full attention."""
    named = [
        (f"controllers.{key}.layers", item.controlled_layers)
        for key, item in config.controllers.items()
        if model in config.trained(key)
    ]
    if (replay := config.replay) is not None and model in replay.models:
        named.append(("replay.layers", replay.layers))
        if replay.analysis is not None:
            named.append(("replay.analysis.reported_layer", (replay.analysis.reported_layer,)))
    for place, layers in named:
        for layer in layers:
            if layer >= count:
                yield f"{place}: {model} has no layer {layer}; its {count} layers count from 0"
            elif layer not in full:
                yield f"{place}: layer {layer} of {model} is not full attention (those are {list(full)})"
            elif place == "replay.layers" and layer == count - 1:
                yield (
                    f"{place}: layer {layer} of {model} is its last; replay compares a read with the next block's MLP output"
                )


def _check_benchmark(config: Config, paths: RunPaths, key: str) -> None:
    file = paths.dataset_file(config, key)
    problems = read_benchmark(file, key, config.benchmarks[key])
    if len(problems) < TURNS:
        raise ValueError(f"a session needs {TURNS} distinct problems, and {file} has {len(problems)}")
