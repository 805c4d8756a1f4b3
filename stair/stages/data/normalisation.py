"""Normalised question text, and the identity of a problem that follows from it (appendix B.4)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

# Formatting that does not distinguish problems: sizes, spaces, styles, math delimiters.
_FORMATTING = re.compile(
    r"\\(?:left|right|big|bigg|displaystyle|textstyle|quad|qquad|limits|nolimits|mathrm|mathbf|mathit|text|textbf|textit)"
    r"(?![a-z])|\\[,;:! ]|\\[()\[\]]|[$~{}]"
)
_SAME = {"dfrac": "frac", "tfrac": "frac", "cdot": "times", "leqslant": "leq", "geqslant": "geq"}
_SPELLINGS = re.compile(rf"\\({'|'.join(_SAME)})(?![a-z])")


def strip_fixed(text: str, prefixes: Sequence[str], suffixes: Sequence[str]) -> str:
    """Removes a data set's fixed opening and ending from a prompt text."""
    for prefix in prefixes:
        text = text.removeprefix(prefix)
    for suffix in suffixes:
        text = text.removesuffix(suffix)
    return text.strip()


def normalised(text: str) -> str:
    """A question's text for comparison: NFKC, lower case, without white space and selected LaTeX formatting."""
    text = unicodedata.normalize("NFKC", text).lower()
    text = _SPELLINGS.sub(lambda match: "\\" + _SAME[match[1]], text)
    return re.sub(r"\s+", "", _FORMATTING.sub("", text))


def identity(*texts: str) -> str:
    """The identity of a problem: a digest of its normalised text (of question and options, where it has options)."""
    joined = "\0".join(normalised(text) for text in texts)
    return "p" + hashlib.sha256(joined.encode()).hexdigest()[:15]


def record_identity(text: str, answer: str) -> str:
    """The identity of a source record: a distinct (prompt text, answer)."""
    return "r" + hashlib.sha256(f"{len(text)} {text}{answer}".encode()).hexdigest()[:15]
