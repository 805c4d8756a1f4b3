"""The inputs of a model's runtime study: weights, histories, sizes, and the key of every unit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.runtime import Runtime, Synthetic
from stair.core import ReadSpecification
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest, ids_digest
from stair.records.manifest import hardware
from stair.sessions.backbone import Backbone, sampling_settings
from stair.stages.runtime.saved_histories import saved_histories
from stair.stages.runtime.study_units import (
    History,
    Sizes,
    Unit,
    resolved_sizes,
    synthetic_histories,
    synthetic_lengths,
    units,
)

if TYPE_CHECKING:
    from stair.method import Reflector
    from stair.stages.runtime.measure import Method


@dataclass(frozen=True)
class Study:
    """One model's study.

    Attributes:
        shape: the name of an untrained model; empty for a trained one.
        benchmark: the histories' benchmark; empty for random tokens.
        histories: fewer than `wanted` leave a gap and are not measured.
        sizes: resolved lengths and tokens.
        device: the GPU, or the processor.
        identity: what decides the measurements beside a unit: weights, controller, engine, device.
        load: gives the model and the controller.
    """

    settings: Runtime
    shape: str
    benchmark: str
    histories: tuple[History, ...]
    wanted: int
    sizes: Sizes
    method: Method
    device: str
    identity: dict[str, Any]
    load: Callable[[], tuple[Any, Reflector]]

    @property
    def gap(self) -> str | None:
        """Why nothing is measured: too few long banks; None if there are enough."""
        if len(self.histories) >= self.wanted:
            return None
        return (
            f"{len(self.histories)} of the {self.wanted} histories have a bank longer than "
            f"{self.settings.longer_than:,} entries; set runtime.histories or runtime.longer_than"
        )

    def units(self) -> list[Unit]:
        return [] if self.gap else list(units(self.settings, self.sizes, self.histories))

    def key(self, unit: Unit) -> str:
        """A unit's key in the work log: equal keys are one measurement."""
        history = next(each for each in self.histories if each.name == unit.history)
        return digest_of(
            {
                "measurement": "runtime",
                "protocol_version": PROTOCOL_VERSION,
                **self.identity,
                "unit": asdict(unit),
                "history": [
                    ids_digest(history.first_prompt),
                    ids_digest(history.response),
                    ids_digest(history.prompt),
                    *history.span,
                ],
                "method": {**asdict(self.method), "sampling": self.method.sampling.as_dict()},
            }
        )


def open_study(config: Config, paths: RunPaths, model: str) -> Study:
    """A model's study without its weights.

    Raises:
        ValueError: the model, its controller or the saved responses cannot be read, or a prompt does not fit the context.
    """
    assert config.runtime is not None, "the graph has no runtime study of a run without one"
    study = (_saved if config.runtime.synthetic is None else _synthetic)(config, paths, model)
    for history in study.histories:
        needed, context = len(history.prompt) + study.sizes.tokens, study.identity["context"]
        if needed > context:
            raise ValueError(
                f"runtime: {history.name} has a T2 prompt of {len(history.prompt)} tokens, and with {study.sizes.tokens} "
                f"decoded ones it exceeds the {context} positions of {model}; set a smaller runtime.tokens"
            )
    return study


def _device(config: Config) -> tuple[str, str]:
    """The device as torch calls it, and as people do."""
    import torch

    from stair.models.device_and_dtype import resolved_device

    device = resolved_device(config.transformers.device)
    return device, torch.cuda.get_device_name() if device == "cuda" else str(hardware()["processor"])


def _saved(config: Config, paths: RunPaths, model: str) -> Study:
    """The study of a trained model on saved histories."""
    from stair.method import load_controller
    from stair.stages.runtime.measure import Method

    settings = config.runtime
    assert settings is not None
    backbone = Backbone.open(config, paths, model, generating=settings.benchmark)
    weights, controller = paths.weights(model, settings.controller), config.controllers[settings.controller]
    histories = saved_histories(config, paths, model, backbone.renderer)
    sizes = resolved_sizes(settings, [history.entries for history in histories])
    device, name = _device(config)
    sampling = backbone.settings.sampling_for(settings.benchmark)
    method = Method(
        sampling=backbone.sampling(sampling),
        tokens=backbone.renderer.tokens,
        stop_ids=tuple(backbone.renderer.stop_ids),
        end_of_thinking=backbone.renderer.end_of_thinking,
        chunk=config.transformers.prefill_chunk,
        block=config.transformers.cache_block,
        decode=sizes.tokens,
        read=ReadSpecification(smoothing=controller.smoothing),
        warmups=settings.warmups,
        repetitions=settings.repetitions,
    )
    identity = {
        "model": backbone.revision,
        "controller": file_digest(weights),
        "engine": backbone.engine.as_key(),
        "device": name,
        "context": backbone.architecture.context,
    }

    def load() -> tuple[Any, Reflector]:
        trained = load_controller(weights, backbone.architecture)
        return backbone.network(device), trained  # type: ignore[return-value]

    return Study(
        settings, "", settings.benchmark, tuple(histories), settings.histories, sizes, method, name, identity, load
    )  # fmt: skip


def _synthetic(config: Config, paths: RunPaths, model: str) -> Study:
    """The study of random weights on random histories; reduced on a CPU."""
    from stair.engines.choice import engine_choice
    from stair.method import Reflector
    from stair.models.architecture import describe
    from stair.models.device_and_dtype import DTYPES
    from stair.stages.runtime.measure import Method
    from stair.stages.runtime.shapes import controlled_layers, random_model, shape_config

    settings = config.runtime
    assert settings is not None and settings.synthetic is not None
    device, name = _device(config)
    reduced = device == "cpu"
    small = settings.synthetic.on_cpu
    shape = shape_config(model, reduced=reduced)
    facts = describe(shape)
    divisor, count, tokens = (
        (small.divisor, small.histories, small.tokens) if reduced else (1, settings.histories, settings.tokens)
    )
    histories = _random_histories(settings.synthetic, divisor, count, facts.vocabulary, settings.seed)
    sizes = resolved_sizes(settings, [history.entries for history in histories], divisor=divisor, tokens=tokens)
    dtype = "float32" if reduced else config.models[model].dtype
    engine = engine_choice(config, "transformers").identity(dtype)
    layers = controlled_layers(reduced=reduced)
    method = Method(
        sampling=sampling_settings(config.models[model].sampling_for(settings.benchmark)),
        tokens=facts.vocabulary,
        stop_ids=(),
        end_of_thinking=None,
        chunk=config.transformers.prefill_chunk,
        block=config.transformers.cache_block,
        decode=sizes.tokens,
        read=ReadSpecification(),
        warmups=settings.warmups,
        repetitions=settings.repetitions,
    )
    label = "random weights"
    if reduced:
        label += f", reduced shape: {facts.layers} layers of width {facts.hidden_size}, lengths divided by {divisor}"
    identity = {
        "model": digest_of(shape),
        "controller": list(layers),
        "engine": engine.as_key(),
        "device": name,
        "context": facts.context,
    }

    def load() -> tuple[Any, Reflector]:
        model: Any = random_model(shape, device, DTYPES[dtype], engine.attention)
        return model, Reflector.draw(layers, facts.query_heads, facts.head_dim, seed=0)

    return Study(settings, label, "", tuple(histories), count, sizes, method, name, identity, load)


def _random_histories(lengths: Synthetic, divisor: int, count: int, vocabulary: int, seed: str) -> list[History]:
    """Histories of random tokens with the configured lengths, divided by `divisor`."""
    return synthetic_histories(
        synthetic_lengths(lengths.median_entries // divisor, lengths.most_entries // divisor, count),
        prompt=max(lengths.prompt_tokens // divisor, 1),
        question=max(lengths.question_tokens // divisor, 1),
        vocabulary=vocabulary,
        seed=seed,
    )
