"""The engine that the configuration names: its part of response keys, and how it is opened. Imports no torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from stair.config.engines import EngineName, SGLangSettings
from stair.config.model import Config
from stair.core import EngineIdentity
from stair.engines.base import Engine
from stair.engines.identity import attention_path, transformers_version


def engine_identity(config: Config, engine: EngineName, dtype: str) -> EngineIdentity:
    """An engine's part of response keys: all but the device."""
    settings = config.engine_section(engine)
    if isinstance(settings, SGLangSettings):
        return EngineIdentity(engine, dtype=dtype, **settings.decisive)
    return EngineIdentity(
        engine, transformers_version(), attention_path(settings.attention, dtype, settings.device), dtype
    )


@contextmanager
def open_engine(
    config: Config,
    engine: EngineName,
    folder: Path,
    *,
    dtype: str,
    tokens: int,
    log: Path,
    layers: tuple[int, ...] = (),
    batch_width: int | None = None,
    adapter: tuple[Path, str] | None = None,
) -> Iterator[Engine]:
    """The engine of a model, until the context ends.

    Args:
        folder: the model.
        tokens: the number of its tokenizer's tokens.
        log: the file of a server's output.
        layers: the layers whose states are captured or controlled.
        batch_width: in place of the configured one.
        adapter: a trained adapter's folder and digest.

    Raises:
        ValueError: the engine's environment is missing or has another version, or the model cannot run there.
    """
    settings = config.engine_section(engine)
    if isinstance(settings, SGLangSettings):
        from stair.engines.sglang.engine import SGLangEngine

        with closing(SGLangEngine(settings, folder, dtype, tokens=tokens, log=log)) as server:
            yield server
        return
    from stair.engines.transformers import TransformersEngine

    yield TransformersEngine.load(
        folder,
        dtype=dtype,
        device=settings.device,
        attention=attention_path(settings.attention, dtype, settings.device),
        adapter=adapter,
        tokens=tokens,
        layers=layers,
        batch_width=batch_width or settings.batch_width,
        prefill_width=settings.prefill_width,
        prefill_chunk=settings.prefill_chunk,
        cache_block=settings.cache_block,
    )
