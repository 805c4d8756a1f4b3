"""How texts stand on pages that are published: of data sets whose authors ask that their text is not, by its digest."""

from __future__ import annotations

import hashlib

_SHOWN = 160


def text_digest(text: str) -> str:
    """The name that a text goes by where it may not be shown."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def example(text: str, publish: bool) -> str:
    """A text as a published page shows it: on one line and shortened, or only its digest."""
    if not publish:
        return f"(not published; {text_digest(text)[:23]})"
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
