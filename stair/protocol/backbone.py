"""A run's backbone: its folder, revision and renderer without a model, and an engine of it when something is generated."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stair.backbones.architecture import Architecture, describe
from stair.backbones.revision import model_revision
from stair.config.model import Config, Model, Sampling
from stair.config.paths import RunPaths, require_folder
from stair.conversation.renderer import Renderer
from stair.engines.base import SamplingSettings, Truncation
from stair.engines.identity import attention_path, transformers_version

if TYPE_CHECKING:
    from stair.engines.transformers import TransformersEngine


@dataclass(frozen=True)
class Backbone:
    """A model of a run, as far as it is known without loading it."""

    key: str
    settings: Model
    folder: Path
    revision: str
    """Digest of the folder's contents: enters every response key."""
    architecture: Architecture
    renderer: Renderer
    engine: dict[str, str]
    """The engine's part of response keys."""

    @classmethod
    def open(cls, config: Config, paths: RunPaths, model: str) -> Backbone:
        """Reads everything but the weights; imports no torch.

        Raises:
            ConfigError: the folder does not exist or holds no model.
            ValueError: an unknown architecture, or a tokenizer without the markers that are needed.
        """
        settings = config.models[model]
        folder = require_folder(paths.model_folder(config, model), f"models.{model}")
        return cls(
            key=model,
            settings=settings,
            folder=folder,
            revision=model_revision(folder, paths.work("revisions") / f"{model}.json"),
            architecture=describe(json.loads((folder / "config.json").read_text(encoding="utf-8"))),
            renderer=Renderer.load(folder, thinking=settings.thinking),
            engine={
                "name": "transformers",
                "version": transformers_version(),
                "attention": attention_path(config.transformers.attention, settings.dtype, config.transformers.device),
                "dtype": settings.dtype,
            },
        )

    def load_engine(
        self,
        config: Config,
        layers: tuple[int, ...],
        batch_width: int | None = None,
        adapter: tuple[Path, str] | None = None,
    ) -> TransformersEngine:
        """Loads the model into the Transformers engine, with hooks on `layers`.

        `batch_width` replaces the configured one; `adapter` is a trained adapter's folder and digest.
        """
        from stair.engines.transformers import TransformersEngine

        options = config.transformers
        engine = TransformersEngine.load(
            self.folder,
            dtype=self.settings.dtype,
            device=options.device,
            attention=self.engine["attention"],
            adapter=adapter,
            tokens=self.renderer.tokens,
            layers=layers,
            batch_width=batch_width or options.batch_width,
            prefill_width=options.prefill_width,
            prefill_chunk=options.prefill_chunk,
            cache_block=options.cache_block,
        )
        told = {"name": engine.name, "version": engine.version, "attention": engine.attention, "dtype": engine.dtype}
        assert told == self.engine, f"the engine calls itself {told}, its response keys say {self.engine}"
        return engine


def sampling_settings(sampling: Sampling, truncation: Truncation = "sequential") -> SamplingSettings:
    """The configured sampling as engines take it."""
    return SamplingSettings(**sampling.model_dump(exclude={"max_new_tokens"}), truncation=truncation)
