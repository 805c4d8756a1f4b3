"""The project's folder."""

from __future__ import annotations

import sys
from pathlib import Path

from stair.config.paths import anchored
from stair.config.resolve import ConfigError


def project_root() -> Path:
    """The folder with the Snakefile: the current one, else that of this package.

    Raises:
        ConfigError: there is none, or the current one is a copy of the project whose code is not this package.
    """
    for folder in (anchored(""), Path(__file__).parents[2]):
        if (folder / "Snakefile").is_file() and (folder / "config.yaml").is_file():
            own = folder / "stair" / "config" / "root.py"
            if own.is_file() and not own.samefile(__file__):
                raise ConfigError(
                    f"{folder.absolute()} has code of its own, but the environment {sys.prefix} runs that of "
                    f"{Path(__file__).parents[2]}; run `make env` there, and use its .venv"
                )
            return folder
    raise ConfigError("there is no Snakefile in the current folder; run this command in the project's folder")
