"""What may leave the run's folder: of data sets whose authors ask that their text is not published, no text does."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

TEXTS = ("problem", "choices", "response", "response_ids")
"""The columns of any table that hold text of a problem, or a response, which can quote it."""

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


def publishable(rows: Iterable[Mapping[str, Any]], withheld: Collection[str]) -> Iterator[dict[str, Any]]:
    """Rows as they may be published: those of benchmarks in `withheld` without text.

    Of such rows the identities, seeds, lengths, letters and verdicts stay; a text becomes its digest, a list (token ids
    decode to the text) becomes empty.
    """
    for row in rows:
        if row["benchmark"] not in withheld:
            yield dict(row)
            continue
        yield {name: _withheld(value) if name in TEXTS else value for name, value in row.items()}


def _withheld(value: Any) -> Any:
    if value is None:
        return None
    return text_digest(value) if isinstance(value, str) else []
