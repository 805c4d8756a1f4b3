"""Texts on published pages: a digest replaces the text of data sets whose authors ask for it."""

from __future__ import annotations

import hashlib

_SHOWN = 160


def text_digest(text: str) -> str:
    """The digest that replaces a text that may not be published."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def example(text: str, publish: bool) -> str:
    """A text as a published page shows it: on one line and shortened, or only its digest."""
    if not publish:
        return f"(not published; {text_digest(text)[:23]})"
    line = " ".join(text.split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
