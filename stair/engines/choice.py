"""The choice of an engine: the facts that the pipeline needs before it is loaded, and how it is opened. Imports no torch.

An engine's section of the configuration (stair/config/engines.py) has its GPUs, whether it reads banks, and the settings
that enter response keys. All other differences between engines are here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from stair.config.engines import EngineName, SGLangEngine, TransformersEngine
from stair.config.model import Config
from stair.config.paths import anchored
from stair.config.sglang_arguments import decisive_arguments
from stair.core import EngineIdentity
from stair.engines.base import Engine, SamplingSettings, Truncation
from stair.engines.identity import attention_path, transformers_version


@dataclass(frozen=True)
class ModelFiles:
    folder: Path
    dtype: str
    context: int
    tokens: int
    """The number of its tokenizer's tokens."""


@dataclass(frozen=True)
class Needs:
    """The requirements of a job for its engine."""

    log: Path
    """The file of a server's output."""
    started: Callable[[dict[str, Any]], None]
    """Called with a server's report when it is ready."""
    longest: Callable[[], int]
    """The most tokens of a response with its prompt."""
    layers: tuple[int, ...] = ()
    """The layers whose states are captured or controlled."""
    batch_width: int | None = None
    """In place of the configured one."""
    adapter: tuple[Path, str] | None = None
    """A trained adapter's folder and digest."""


class EngineChoice(ABC):
    """One engine, with its settings."""

    truncation: ClassVar[Truncation]

    @abstractmethod
    def identity(self, dtype: str) -> EngineIdentity:
        """Its part of response keys: all but the device."""

    @abstractmethod
    def open(self, model: ModelFiles, needs: Needs) -> AbstractContextManager[Engine]:
        """The engine of a model, until the context ends.

        Raises:
            ValueError: its environment is missing or has another version, or the model cannot run there.
        """

    def check_settings(self) -> None:
        """Raises ValueError for settings that cannot be used."""
        return

    def check_sampling(self, sampling: SamplingSettings) -> None:
        """Raises ValueError if it does not draw by the sampling law with these settings."""
        return

    def check_architecture(self, name: str) -> None:
        """Raises ValueError if it does not run an architecture."""
        return

    def check_environment(self) -> None:
        """Raises ValueError if its own environment cannot be used."""
        return


class TransformersChoice(EngineChoice):
    """The reference engine, in this process. It runs everything that the configuration allows."""

    truncation = "sequential"

    def __init__(self, options: TransformersEngine) -> None:
        self._options = options

    def identity(self, dtype: str) -> EngineIdentity:
        attention = attention_path(self._options.attention, dtype, self._options.device)
        return EngineIdentity("transformers", transformers_version(), attention, dtype)

    @contextmanager
    def open(self, model: ModelFiles, needs: Needs) -> Iterator[Engine]:
        """Loads the model, with hooks on the layers that are needed."""
        from stair.engines.transformers import TransformersEngine

        options = self._options
        yield TransformersEngine.load(
            model.folder,
            dtype=model.dtype,
            device=options.device,
            attention=self.identity(model.dtype).attention,
            adapter=needs.adapter,
            tokens=model.tokens,
            layers=needs.layers,
            batch_width=needs.batch_width or options.batch_width,
            prefill_width=options.prefill_width,
            prefill_chunk=options.prefill_chunk,
            cache_block=options.cache_block,
        )


class SGLangChoice(EngineChoice):
    """SGLang's server, which starts with the first request and ends with the context."""

    truncation = "joint"

    def __init__(self, options: SGLangEngine) -> None:
        self._options = options

    def identity(self, dtype: str) -> EngineIdentity:
        """Only arguments that can change a response count."""
        return EngineIdentity(
            "sglang", dtype=dtype, **{name: str(value) for name, value in self._options.decisive.items()}
        )

    @contextmanager
    def open(self, model: ModelFiles, needs: Needs) -> Iterator[Engine]:
        """The client; it checks the server's environment at once."""
        from stair.engines.sglang.engine import SGLangEngine
        from stair.engines.sglang.launch import Launch

        options = self._options
        launch = Launch(
            environment=anchored(options.environment_folder),
            version=options.version,
            folder=model.folder,
            context=model.context,
            dtype=model.dtype,
            device=options.device,
            attention=options.attention,
            running=options.concurrency,
            tensor_parallel=options.tensor_parallel,
            memory_fraction=options.memory_fraction,
            cache_tokens=options.cache_tokens,
            arguments=options.arguments,
            start_seconds=options.start_seconds,
            stall_seconds=options.stall_seconds,
        )
        engine = SGLangEngine(
            launch,
            tokens=model.tokens,
            width=options.concurrency,
            log=needs.log,
            started=needs.started,
            needed=needs.longest(),
        )
        with closing(engine):
            yield engine

    def check_settings(self) -> None:
        decisive_arguments(self._options.arguments)

    def check_sampling(self, sampling: SamplingSettings) -> None:
        from stair.engines.sglang.supported import check_sampling

        check_sampling(sampling)

    def check_architecture(self, name: str) -> None:
        from stair.engines.sglang.supported import check_architecture

        check_architecture(name, self._options.device)

    def check_environment(self) -> None:
        from stair.engines.sglang.launch import check_environment

        check_environment(anchored(self._options.environment_folder), self._options.version, self._options.device)


def engine_choice(config: Config, name: EngineName) -> EngineChoice:
    choices: dict[EngineName, Callable[[], EngineChoice]] = {
        "transformers": lambda: TransformersChoice(config.transformers),
        "sglang": lambda: SGLangChoice(config.sglang),
    }
    return choices[name]()
