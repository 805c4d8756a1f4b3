"""Identities of generated responses: canonical JSON, digests, response keys."""

from __future__ import annotations

import hashlib
import json
from array import array
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

PROTOCOL_VERSION = 3
"""Part of every response key. Raised by hand when changed code would generate another response for the same settings.

1  the first protocol
2  the output path (appendix B.3) adds W_O (g * z) to the attention output, no longer g * z to the projection's input
3  a bank is named by the tokens of its turns, no longer by its states
"""

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def canonical_json(value: Any) -> bytes:
    """The JSON text of a value with sorted keys, without white space, in UTF-8, without NaN."""
    return _ENCODER.encode(value).encode()


def digest_of(value: Any) -> str:
    """SHA-256 (hex) of a JSON-like value."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def ids_digest(ids: Iterable[int]) -> str:
    """SHA-256 (hex) of token ids as little-endian 32-bit integers."""
    return hashlib.sha256(array("i", ids).tobytes()).hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 (hex) of a file's bytes."""
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def adapter_digest(folder: Path) -> str:
    """SHA-256 (hex) of a PEFT adapter: its weights and its settings, without the path of the base model."""
    settings = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
    for place in ("base_model_name_or_path", "revision"):
        settings.pop(place, None)
    return digest_of({"settings": settings, "weights": file_digest(folder / "adapter_model.safetensors")})


def response_key(
    *,
    model_revision: str,
    prompt_ids_sha256: str,
    adapter: str | None,
    controller: str | None,
    bank: Sequence[Sequence[str]] | None,
    read: Mapping[str, Any] | None,
    sampling: Mapping[str, Any],
    seed: int,
    max_new_tokens: int,
    engine: Mapping[str, Any],
) -> str:
    """The identity of a response: everything that decides its tokens, and nothing else.

    `bank` names the read bank by its turns: the digests of each one's prompt and response ids. Its states follow from them.
    `engine` holds the engine's name and version, attention path and dtype. A source hash, a run's name, a shard, a device,
    a batch width and a label are no part of it.
    """
    return digest_of(
        {
            "adapter": adapter,
            "bank": bank,
            "controller": controller,
            "engine": engine,
            "max_new_tokens": max_new_tokens,
            "model_revision": model_revision,
            "prompt_ids": prompt_ids_sha256,
            "protocol_version": PROTOCOL_VERSION,
            "read": read,
            "sampling": sampling,
            "seed": seed,
        }
    )
