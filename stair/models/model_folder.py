"""A model's folder: its architecture, and the digest of all files that can change a response. Imports no torch."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from stair.models.architecture import Architecture, describe
from stair.models.published import CONFIGS
from stair.records.files import matching, read_mapping, write_json
from stair.records.keys import digest_of, file_digest

_SUFFIXES = (".json", ".safetensors", ".jinja", ".txt", ".model")
_IGNORED = (".manifest.json", "fetched.json")


def read_architecture(folder: Path) -> Architecture:
    """Reads a folder's config.json.

    Raises:
        ValueError: the file cannot be read, or describes no model that is known here. The message names the file.
    """
    path = folder / "config.json"
    content = read_mapping(path)
    try:
        return describe(content)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def known_architecture(folder: Path, model: str) -> Architecture | None:
    """The architecture of a model's folder, before it is fetched that of the published model with this key; None for others."""
    if (folder / "config.json").is_file():
        return read_architecture(folder)
    return describe(CONFIGS[model]) if model in CONFIGS else None


def check_weights(folder: Path) -> None:
    """Raises ValueError if an index of shards lies beside another model.safetensors: each loader reads one of the two."""
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if index.is_file() and single.is_file() and single.name not in read_mapping(index).get("weight_map", {}).values():
        raise ValueError(
            f"{folder} has two sets of weights, {single.name} and the files that {index.name} names, and loaders differ in "
            "which one they read; delete one of them"
        )


def revision_files(folder: Path) -> list[Path]:
    """The files of a model folder that can change a response: weights, configuration, tokenizer and template."""
    return [
        path
        for path in matching(folder, "*")
        if path.suffix in _SUFFIXES and not path.name.endswith(_IGNORED) and path.is_file()
    ]


def revision_digests(folder: Path, memo: Path | None) -> dict[str, str]:
    """The SHA-256 of each of `revision_files`, by name.

    Args:
        folder: the model folder.
        memo: a file with digests by size and modification time, so that gigabytes are read once; None for no memo.
    """
    remembered = _read_memo(memo) if memo else {}
    entries: dict[str, list] = {}
    for path in revision_files(folder):
        status = path.stat()
        stamp = [status.st_size, status.st_mtime_ns]
        entry = remembered.get(path.name)
        entries[path.name] = entry if entry and entry[:2] == stamp else [*stamp, file_digest(path)]
    if memo and entries != remembered:
        write_json(memo, {"files": entries, "sha256": digest_of(entries)})
    return {name: entry[2] for name, entry in entries.items()}


def model_revision(folder: Path, memo: Path | None) -> str:
    """SHA-256 over the names and contents of a model folder's weights, configuration, tokenizer and template.

    Arguments as of `revision_digests`.
    """
    digest = hashlib.sha256()
    for name, contents in revision_digests(folder, memo).items():
        digest.update(f"{name}\0{contents}\0".encode())
    return digest.hexdigest()


def _read_memo(memo: Path) -> dict[str, list]:
    """The entries of a memo; none if it is absent or damaged."""
    try:
        content = json.loads(memo.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = content.get("files") if isinstance(content, dict) else None
    # With a wrong digest of a model, every response would be generated again.
    return entries if isinstance(entries, dict) and content.get("sha256") == digest_of(entries) else {}
