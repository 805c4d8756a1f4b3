"""A run's backbone: its folder, revision and renderer without a model, and an engine of it when something is generated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stair.backbones.architecture import Architecture, describe
from stair.backbones.revision import model_revision
from stair.config.backbones import Model, Sampling
from stair.config.engines import EngineName
from stair.config.model import Config
from stair.config.paths import RunPaths, require_folder
from stair.config.sglang_arguments import decisive_arguments
from stair.conversation.renderer import Renderer
from stair.engines.base import Engine, SamplingSettings, Truncation
from stair.engines.identity import attention_path, transformers_version
from stair.protocol.preflight_record import check_seen, require_seen
from stair.records.files import read_mapping

if TYPE_CHECKING:
    from stair.engines.sglang.engine import SGLangEngine
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
    def open(
        cls,
        config: Config,
        paths: RunPaths,
        model: str,
        engine: EngineName = "transformers",
        *,
        generating: str | None = None,
    ) -> Backbone:
        """Reads everything but the weights; imports no torch.

        Args:
            config: the run.
            paths: its files.
            model: the model's key.
            engine: the one that its responses are to come from.
            generating: what is about to be answered, `training_pool` or a benchmark: preflight must have looked at that.

        Raises:
            ConfigError: the folder does not exist or holds no model.
            ValueError: an unknown architecture, a tokenizer without the markers that are needed, a model or prompts that
                are not those that preflight has looked at, or that it has not looked at yet.
        """
        settings = config.models[model]
        if generating is not None:
            require_seen(config, paths, model, generating)
        folder = require_folder(paths.model_folder(config, model), f"models.{model}")
        revision = model_revision(folder, paths.work("revisions") / f"{model}.json")
        renderer = Renderer.load(folder, thinking=settings.thinking)
        check_seen(config, paths, model, revision, renderer.template_sha256)
        return cls(
            key=model,
            settings=settings,
            folder=folder,
            revision=revision,
            architecture=describe(read_mapping(folder / "config.json")),
            renderer=renderer,
            engine=_engine_identity(config, settings, engine),
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
        self._check_identity(engine)
        return engine

    def launch_sglang(
        self,
        config: Config,
        log: Path,
        started: Callable[[dict[str, Any]], None] | None = None,
        needed: int | None = None,
    ) -> SGLangEngine:
        """The SGLang engine; its server starts with the first request.

        Args:
            config: the run.
            log: the server's output is appended to this file.
            started: told what every server says of itself.
            needed: tokens that the longest response can take, its prompt included; its cache must hold them.

        Raises:
            ValueError: the server's environment is not there or holds another version, or the model cannot be run there.
        """
        from stair.engines.sglang.engine import SGLangEngine
        from stair.engines.sglang.launch import Launch
        from stair.engines.sglang.service import Patience

        options = config.sglang
        launch = Launch(
            environment=options.environment_folder,
            version=options.version,
            folder=self.folder,
            context=self.architecture.context,
            dtype=self.settings.dtype,
            device=options.device,
            attention=options.attention,
            running=options.concurrency,
            tensor_parallel=options.tensor_parallel,
            memory_fraction=options.memory_fraction,
            cache_tokens=options.cache_tokens,
            arguments=options.arguments,
        )
        engine = SGLangEngine(
            launch,
            tokens=self.renderer.tokens,
            width=options.concurrency,
            log=log,
            patience=Patience(options.start_seconds, options.stall_seconds),
            started=started,
            needed=needed,
        )
        self._check_identity(engine)
        return engine

    def _check_identity(self, engine: Engine) -> None:
        told = {"name": engine.name, "version": engine.version, "attention": engine.attention, "dtype": engine.dtype}
        assert told.items() <= self.engine.items(), (
            f"the engine calls itself {told}, its response keys say {self.engine}"
        )


def _engine_identity(config: Config, settings: Model, engine: EngineName) -> dict[str, str]:
    """An engine's part of response keys, known without loading it."""
    if engine == "sglang":
        options = config.sglang
        found = {
            "name": engine,
            "version": options.version,
            "attention": str(options.attention),
            "dtype": settings.dtype,
        }
        arguments = decisive_arguments(options.arguments, options.tensor_parallel)
        return found | ({"arguments": arguments} if arguments else {})
    attention = attention_path(config.transformers.attention, settings.dtype, config.transformers.device)
    return {"name": engine, "version": transformers_version(), "attention": attention, "dtype": settings.dtype}


def sampling_settings(sampling: Sampling, truncation: Truncation = "sequential") -> SamplingSettings:
    """The configured sampling as engines take it."""
    return SamplingSettings(**sampling.model_dump(exclude={"max_new_tokens"}), truncation=truncation)
