"""The names and versions of engines, known without loading one."""

from __future__ import annotations

from functools import cache
from importlib import metadata


@cache
def transformers_version() -> str:
    """The Transformers engine's version: of Transformers and of torch, without torch's build suffix."""
    return f"{metadata.version('transformers')}+torch{metadata.version('torch').split('+')[0]}"
