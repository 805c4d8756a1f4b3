"""The project's folder."""

from __future__ import annotations

from pathlib import Path

from stair.config.paths import anchored
from stair.config.resolve import ConfigError


def project_root() -> Path:
    """The folder with the Snakefile: the current one, else that of this package. Raises ConfigError without one."""
    for folder in (anchored(""), Path(__file__).parents[2]):
        if (folder / "Snakefile").is_file() and (folder / "config.yaml").is_file():
            return folder
    raise ConfigError("there is no Snakefile in the current folder; run this command in the project's folder")
