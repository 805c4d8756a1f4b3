"""Checks of the files, rows, columns and layers that a configuration names, before any work. Imports no torch."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from stair.config.datasets import Benchmark
from stair.config.engines import EngineName
from stair.config.model import Config
from stair.config.paths import RunPaths, anchored, require_folder, shared_t1
from stair.config.resolve import ConfigError
from stair.core import TURNS
from stair.engines.choice import engine_choice
from stair.models.architecture import Architecture
from stair.models.architectures import FILES
from stair.models.hub.sources import check_fetched
from stair.models.model_folder import check_weights, read_architecture
from stair.pipeline.model_shape import shape_of
from stair.records.files import existing_folder, read_mapping
from stair.records.gpus import visible_gpus
from stair.sessions.backbone import sampling_settings
from stair.stages.data.benchmarks import read_benchmark
from stair.stages.data.reading import check_columns
from stair.stages.data.training_pool import wanted_columns as pool_columns
from stair.stages.training.settings import check_recurrence


def check_inputs(config: Config, paths: RunPaths) -> None:
    """Checks local files and model folders that exist already.

    Raises:
        ConfigError: one line that names the key and the file, column or layer.
    """
    for fault in input_faults(config, paths):
        raise ConfigError(fault)


def input_faults(config: Config, paths: RunPaths) -> Iterator[str]:
    """Every fault of local files and model folders that exist already, each one line as in `check_inputs`."""
    for check in _checks(config, paths):
        try:
            check()
        except ConfigError as error:
            yield str(error)


def _checks(config: Config, paths: RunPaths) -> Iterator[Callable[[], object]]:
    yield partial(_check_places, config, paths)
    yield partial(_check_results, paths)
    yield partial(_check_reuse, config, paths)
    yield partial(check_fetched, config, paths)
    # The jobs of an unpacked archive may need no model.
    needed = not config.only_measures and not paths.archive.exists()
    for model in config.models:
        yield partial(_check_tiny_architecture, config, model)
        yield partial(_check_engine, config, paths, model)
        yield partial(_check_named_layers, config, paths, model)
        yield partial(_check_template, config, paths, model)
        if config.models[model].path is not None and needed:
            yield partial(require_folder, paths.model_folder(config, model), f"models.{model}.path")
    for key, benchmark in config.benchmarks.items():
        if benchmark.path is not None:
            yield partial(_check_benchmark_file, paths.dataset_file(config, key), key, benchmark)
    if config.training_pool.path is not None:
        yield partial(_check_pool, config, paths)


_CLOCK_SECONDS = 2.0
"""A file server's clock may be ahead by this. The first job ends later."""

UNWRITABLE = "make it writable, or set `results` to another folder"


def check_writable(paths: RunPaths) -> None:
    """Raises ConfigError if files cannot be created in a run's folder, or in a folder below it."""
    for folder in (existing_folder(paths.folder), *(Path(place) for place, _, _ in os.walk(paths.folder))):
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"results: {folder} cannot be written; {UNWRITABLE}")


def engines_to_run(config: Config, paths: RunPaths) -> list[EngineName]:
    """The engines of training and evaluation responses that do not exist yet, each once."""
    needed = [config.rollout_engine(model) for model in config.models if not paths.rollouts(model).exists()]
    for study, files in ((config, paths), shared_t1(config, paths)):
        needed += [
            study.engine_for(model, benchmark)
            for condition in study.conditions
            for model, benchmark in study.evaluated(condition)
            if not files.responses(model, benchmark, condition).exists()
        ]
    return list(dict.fromkeys(needed))


def check_environments(config: Config, paths: RunPaths) -> None:
    """Checks the environments of the engines that must still generate responses, and the kernels of hybrids to be trained.

    Raises:
        ConfigError: an environment does not exist, holds another version, or was built for another device; or a GPU of this
            machine would train a hybrid without its kernels.
    """
    for engine in engines_to_run(config, paths):
        try:
            engine_choice(config, engine).check_environment()
        except ValueError as error:
            raise ConfigError(str(error)) from None
    device = config.transformers.device
    if device == "cuda" or (device == "auto" and visible_gpus()):
        for controller in config.controllers:
            for model in config.trained(controller):
                if not paths.controller(model, controller).exists():
                    check_recurrence(config, model, hybrid=shape_of(config, paths, model).hybrid)


def _check_reuse(config: Config, paths: RunPaths) -> None:
    for run, other in paths.reused(config).items():
        if not other.resolved.is_file():
            raise ConfigError(f"reuse: there is no run '{run}' ({other.resolved} does not exist)")
        if other.folder.resolve() == paths.folder.resolve():
            raise ConfigError(f"reuse: '{run}' is this run itself")


def _check_places(config: Config, paths: RunPaths) -> None:
    """Refuses paths that Snakemake or Arrow takes for something else. The rules quote all other characters."""
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
            raise ConfigError(f"{key}: '{given}' begins with ~, which no program here replaces; write the whole path")
        if any(letter in "{}" or not letter.isprintable() for letter in str(place)):
            raise ConfigError(
                f"{key}: {str(place)!r} contains a brace, or a character that cannot be printed; Snakemake takes braces for "
                "a wildcard, so use another name"
            )
        if key.endswith(".path"):
            _check_times(key, place)


def _check_times(key: str, place: Path) -> None:
    """Refuses times in the future: Snakemake would take every output for older than this input, and make it again."""
    for file in place.iterdir() if place.is_dir() else (place,):
        if file.is_file() and file.stat().st_mtime > time.time() + _CLOCK_SECONDS:
            raise ConfigError(f"{key}: the time of {file} is in the future; run: touch {shlex.quote(str(file))}")


def _check_results(paths: RunPaths) -> None:
    for part in (paths.folder, *paths.folder.parents):
        if part.exists() and not part.is_dir():
            raise ConfigError(f"results: {part} is a file, so the run's folder {paths.folder} cannot be created")


def _check_template(config: Config, paths: RunPaths, model: str) -> None:
    """Compares the configured template with preflight's record, which may be older than the setting."""
    configured, record = config.models[model].template_sha256, paths.preflight(model)
    if configured is None or not record.is_file():
        return
    try:
        recorded = read_mapping(record).get("template_sha256")
    except ValueError as error:
        raise ConfigError(str(error)) from None
    if recorded != configured:
        raise ConfigError(
            f"models.{model}.template_sha256 is {configured}, but preflight checked {recorded} ({record}); "
            "set the key to that digest, or delete the file to check the template again"
        )


def _check_engine(config: Config, paths: RunPaths, model: str) -> None:
    settings = config.models[model]
    if settings.tiny is not None:
        name = settings.tiny.architecture
    else:
        architecture = _architecture(paths.model_folder(config, model))
        name = "" if architecture is None else architecture.name
    drawn = [(config.rollout_engine(model), settings.rollout_sampling, "rollout_sampling")]
    for benchmark in config.benchmarks_of(model):
        engine, sampling = config.engine_for(model, benchmark), settings.sampling_for(benchmark)
        drawn.append((engine, sampling, f"evaluation_sampling, on {benchmark}"))
    for engine, sampling, key in drawn:
        choice, place = engine_choice(config, engine), ""
        try:
            choice.check_settings()
            place = f"models.{model}.{key}: "
            choice.check_sampling(sampling_settings(sampling, choice.truncation))
            place = f"models.{model}: "
            if name:  # else the model's folder does not exist yet
                choice.check_architecture(name)
        except ValueError as error:
            raise ConfigError(f"{place}{error}") from None


def _check_benchmark_file(file: Path, key: str, benchmark: Benchmark) -> None:
    from stair.stages.data.references import check_references  # imports the grading, which takes a moment

    try:
        problems = read_benchmark(file, key, benchmark)
        check_references(file, problems)
    except ValueError as error:
        raise ConfigError(f"benchmarks.{key}.path: {error}") from None
    if len(problems) < TURNS:
        raise ConfigError(
            f"benchmarks.{key}.path: a session needs {TURNS} distinct problems, and {file} has {len(problems)}"
        )


def _check_pool(config: Config, paths: RunPaths) -> None:
    try:
        check_columns(paths.dataset_file(config, "training_pool"), pool_columns(config.training_pool))
    except ValueError as error:
        raise ConfigError(f"training_pool.path: {error}") from None


def _check_named_layers(config: Config, paths: RunPaths, model: str) -> None:
    for key, controller in config.controllers.items():
        if model in config.trained(key):
            _check_layers(config, paths, model, f"controllers.{key}.layers", controller.controlled_layers)
    replay = config.replay
    if replay is None or model not in replay.models:
        return
    _check_layers(config, paths, model, "replay.layers", replay.layers, followed=True)
    if (analysis := replay.analysis) is not None:
        _check_layers(config, paths, model, "replay.analysis.reported_layer", (analysis.reported_layer,))


def _check_layers(
    config: Config, paths: RunPaths, model: str, place: str, layers: tuple[int, ...], *, followed: bool = False
) -> None:
    """Checks that the model has these full-attention layers; with `followed`, each must have a block behind it."""
    tiny = config.models[model].tiny
    if tiny is not None:
        full, count = tiny.full_attention_layers, tiny.layers
    else:
        architecture = _architecture(paths.model_folder(config, model))
        if architecture is None:
            return
        full, count = architecture.full_attention_layers, architecture.layers
    for layer in layers:
        if layer >= count:
            raise ConfigError(f"{place}: {model} has no layer {layer}; its {count} layers count from 0")
        if layer not in full:
            raise ConfigError(f"{place}: layer {layer} of {model} is not full attention (those are {list(full)})")
        if followed and layer == count - 1:
            raise ConfigError(
                f"{place}: layer {layer} of {model} is its last; replay compares a read with the next block's MLP output"
            )


def _check_tiny_architecture(config: Config, model: str) -> None:
    tiny = config.models[model].tiny
    if tiny is not None and tiny.architecture not in FILES:
        raise ConfigError(
            f"models.{model}.tiny.architecture: {tiny.architecture!r} is unknown; known are {', '.join(FILES)}"
        )


def _architecture(folder: Path) -> Architecture | None:
    """The architecture of a model folder; None before it exists."""
    if not (folder / "config.json").is_file():
        return None
    try:
        check_weights(folder)
        return read_architecture(folder)
    except ValueError as error:
        raise ConfigError(str(error)) from None
