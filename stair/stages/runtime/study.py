"""The inputs of a model's runtime study: histories, how they are measured, and weights on demand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.core import ReadSpecification
from stair.engines.choice import engine_identity
from stair.method import Reflector, load_controller
from stair.models.architecture import describe
from stair.models.device_and_dtype import DTYPES, resolved_device
from stair.records.keys import PROTOCOL_VERSION, digest_of, file_digest
from stair.sessions.backbone import Backbone, sampling_settings
from stair.stages.runtime.measure import Method, TimedHistory
from stair.stages.runtime.saved_histories import saved_histories
from stair.stages.runtime.shapes import REDUCED, controlled_layers, random_history, random_model, shape_config


@dataclass(frozen=True)
class RuntimeStudy:
    """One model's study.

    Attributes:
        shape: says that the weights are random, and of which shape; empty for a trained model.
        identity: what decides the measurements beside histories and method: weights, controller, engine.
        load: gives the model and the controller.
    """

    histories: list[TimedHistory]
    method: Method
    shape: str
    identity: dict[str, Any]
    load: Callable[[], tuple[Any, Reflector]]

    def key(self, device: str) -> str:
        """Names the measurements of this study on a device."""
        return digest_of(
            {
                "measurement": "runtime",
                "protocol_version": PROTOCOL_VERSION,
                "device": device,
                "histories": [asdict(history) for history in self.histories],
                "method": asdict(self.method),
                **self.identity,
            }
        )


def open_study(config: Config, paths: RunPaths, model: str) -> RuntimeStudy:
    """A model's study without its weights.

    Raises:
        ValueError: the model, its controller or the saved responses cannot be read, or a prompt does not fit the context.
    """
    assert config.runtime is not None, "the graph has no runtime study of a run without one"
    study = (_saved if config.runtime.synthetic is None else _synthetic)(config, paths, model)
    tokens, context = study.method.tokens, study.identity["context"]
    for history in study.histories:
        if len(history.prompt) + tokens > context:
            raise ValueError(
                f"runtime: {history.name} has a T2 prompt of {len(history.prompt)} tokens, and with {tokens} decoded ones it "
                f"exceeds the {context} positions of {model}; set a smaller runtime.tokens"
            )
    return study


def _saved(config: Config, paths: RunPaths, model: str) -> RuntimeStudy:
    """The study of a trained model on saved histories."""
    settings = config.runtime
    assert settings is not None
    backbone = Backbone.open(config, paths, model)
    weights, renderer = paths.weights(model, settings.controller), backbone.renderer
    method = Method(
        sampling=backbone.sampling(backbone.settings.sampling_for(settings.benchmark)),
        vocabulary=renderer.tokens,
        stop_ids=tuple(renderer.stop_ids),
        end_of_thinking=renderer.end_of_thinking,
        chunk=config.transformers.prefill_chunk,
        block=config.transformers.cache_block,
        read=ReadSpecification(smoothing=config.controllers[settings.controller].smoothing),
        prefixes=settings.prefixes,
        tokens=settings.tokens,
        warmups=settings.warmups,
        repetitions=settings.repetitions,
    )
    identity = {
        "model": backbone.revision,
        "controller": file_digest(weights),
        "engine": backbone.engine.as_key(),
        "context": backbone.architecture.context,
    }

    def load() -> tuple[Any, Reflector]:
        controller = load_controller(weights, backbone.architecture)
        assert isinstance(controller, Reflector), "the configuration's check admits no other kind"
        return backbone.network(config.transformers.device), controller

    return RuntimeStudy(saved_histories(config, paths, model, renderer), method, "", identity, load)


def _synthetic(config: Config, paths: RunPaths, model: str) -> RuntimeStudy:
    """The study of random weights on random histories; a CPU has a reduced shape, and fewer tokens of everything."""
    settings = config.runtime
    assert settings is not None and settings.synthetic is not None
    device = resolved_device(config.transformers.device)
    reduced = device == "cpu"
    shape, layers = shape_config(model, reduced=reduced), controlled_layers(reduced=reduced)
    facts = describe(shape)
    dtype = "float32" if reduced else config.models[model].dtype
    engine = engine_identity(config, "transformers", dtype)

    def few(tokens: int) -> int:
        return max(tokens // REDUCED, 1) if reduced else tokens

    lengths = settings.synthetic
    sizes = {"prompt": few(lengths.prompt_tokens), "question": few(lengths.question_tokens)}
    histories = [
        random_history(
            f"random-{number}", few(lengths.entries), **sizes, vocabulary=facts.vocabulary, seed=settings.seed
        )
        for number in range(1, settings.histories + 1)
    ]
    method = Method(
        sampling=sampling_settings(config.models[model].sampling_for(settings.benchmark)),
        vocabulary=facts.vocabulary,
        stop_ids=(),
        end_of_thinking=None,
        chunk=config.transformers.prefill_chunk,
        block=config.transformers.cache_block,
        read=ReadSpecification(),
        prefixes=tuple(map(few, settings.prefixes)),
        tokens=few(settings.tokens),
        warmups=settings.warmups,
        repetitions=settings.repetitions,
    )
    label = "random weights"
    if reduced:
        label += f", reduced shape: {facts.layers} layers of width {facts.hidden_size}, lengths divided by {REDUCED}"
    identity = {
        "model": digest_of(shape), "controller": list(layers), "engine": engine.as_key(), "context": facts.context,
    }  # fmt: skip

    def load() -> tuple[Any, Reflector]:
        network = random_model(shape, device, DTYPES[dtype], engine.attention)
        return network, Reflector.draw(layers, facts.query_heads, facts.head_dim, seed=0)

    return RuntimeStudy(histories, method, label, identity, load)
