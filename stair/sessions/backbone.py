"""A run's backbone: folder, revision and renderer without a model, and an engine when something is generated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from stair.config.backbones import Model, Sampling
from stair.config.engines import EngineName
from stair.config.model import Config
from stair.config.paths import RunPaths, require_folder
from stair.core import EngineIdentity, Truncation
from stair.engines.base import Engine, SamplingSettings
from stair.engines.choice import engine_identity, open_engine
from stair.models.architecture import Architecture
from stair.models.model_folder import check_weights, model_revision, read_architecture
from stair.sessions.prompt_check import check_prompts
from stair.sessions.renderer import Renderer


@dataclass(frozen=True)
class Backbone:
    """A model of a run, without its weights."""

    key: str
    settings: Model
    folder: Path
    revision: str
    """Digest of the folder's contents: enters every response key."""
    architecture: Architecture
    renderer: Renderer
    config: Config
    engine_name: EngineName
    """The engine that its responses come from."""
    engine: EngineIdentity
    """The engine as response keys name it, without a device."""

    @classmethod
    def open(cls, config: Config, paths: RunPaths, model: str, engine: EngineName = "transformers") -> Backbone:
        """Reads everything but the weights; imports no torch.

        Args:
            model: the model's key.
            engine: the engine of its responses.

        Raises:
            ConfigError: the folder does not exist or holds no model.
            ValueError: an unknown architecture, two sets of weights, a limit of responses beyond the model's context, or a
                tokenizer or template whose prompts are not the paper's.
        """
        settings = config.models[model]
        folder = require_folder(paths.model_folder(config, model), f"models.{model}")
        check_weights(folder)
        revision = model_revision(folder, paths.work("revisions") / f"{model}.json")
        renderer, architecture = Renderer.load(folder, thinking=settings.thinking), read_architecture(folder)
        if not config.only_measures:
            _check_limits(model, settings, architecture.context)
        digest = renderer.template_sha256
        if settings.template_sha256 not in (None, digest):
            raise ValueError(
                f"models.{model}.template_sha256 is {settings.template_sha256}, the template in {folder} has {digest}"
            )
        try:
            check_prompts(renderer, architecture.vocabulary)
        except ValueError as error:
            raise ValueError(f"models.{model} ({folder}): {error}") from None
        return cls(
            key=model,
            settings=settings,
            folder=folder,
            revision=revision,
            architecture=architecture,
            renderer=renderer,
            config=config,
            engine_name=engine,
            engine=engine_identity(config, engine, settings.dtype),
        )

    @contextmanager
    def running(self, log: Path, **needs: Any) -> Iterator[Engine]:
        """The engine, until the context ends; arguments and errors as of `open_engine`."""
        opened = open_engine(
            self.config,
            self.engine_name,
            self.folder,
            dtype=self.settings.dtype,
            tokens=self.renderer.tokens,
            log=log,
            **needs,
        )
        with opened as engine:
            self._check_identity(engine)
            yield engine

    def network(self, device: str) -> Any:
        """The frozen network itself.

        Args:
            device: `auto`, `cpu`, `cuda`, or one GPU as torch names it.

        Raises:
            ValueError: the files are not the model's, or its attention needs a GPU.
        """
        from stair.models.device_and_dtype import DTYPES, device_for
        from stair.models.load import load_model

        dtype, attention = DTYPES[self.settings.dtype], self.engine.attention
        return load_model(self.folder, dtype=dtype, device=device_for(device, attention), attention=attention)

    def sampling(self, settings: Sampling) -> SamplingSettings:
        """The configured sampling with the engine's truncation (docs/protocol.md)."""
        return sampling_settings(settings, self.config.engine_section(self.engine_name).truncation)

    def _check_identity(self, engine: Engine) -> None:
        loaded = replace(engine.identity, device=None, arguments=self.engine.arguments)
        assert loaded == self.engine, f"the loaded engine is {loaded}, its response keys say {self.engine}"


def _check_limits(model: str, settings: Model, context: int) -> None:
    sections = {"rollout_sampling": settings.rollout_sampling, "evaluation_sampling": settings.evaluation_sampling}
    sections |= {f"evaluation_changes.{key}": change for key, change in settings.evaluation_changes.items()}
    for key, sampling in sections.items():
        if sampling.max_new_tokens >= context:
            raise ValueError(
                f"models.{model}.{key}.max_new_tokens: {sampling.max_new_tokens} tokens do not fit into the {context} positions "
                "of the model's RoPE (max_position_embeddings)"
            )


def sampling_settings(sampling: Sampling, truncation: Truncation = "sequential") -> SamplingSettings:
    return SamplingSettings(**sampling.model_dump(exclude={"max_new_tokens"}), truncation=truncation)
