"""The configuration: one strict typed model, resolved once. Imports no torch."""

from stair.config.model import Config
from stair.config.resolve import ConfigError, load_run, resolve

__all__ = ["Config", "ConfigError", "load_run", "resolve"]
