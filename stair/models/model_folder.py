"""The architecture of a model's folder. Imports no torch."""

from __future__ import annotations

from pathlib import Path

from stair.models.architecture import Architecture, describe
from stair.records.files import read_mapping


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
