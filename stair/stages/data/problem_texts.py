"""Texts of problems: their normalised form and identity (appendix B.4), and the order of options (appendix C.3)."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Sequence

from stair.core import LETTERS
from stair.records.seeds import hash_order

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


def identity_of_text(text: str) -> str:
    """The identity of a benchmark's problem whose normalised text is that of an earlier problem."""
    return "p" + hashlib.sha256(text.encode()).hexdigest()[:15]


def record_identity(text: str, answer: str) -> str:
    """The identity of a source record: a distinct (prompt text, answer)."""
    return "r" + hashlib.sha256(f"{len(text)} {text}{answer}".encode()).hexdigest()[:15]


def ordered_choices(question: str, right: str, wrong: Sequence[str]) -> tuple[list[str], str]:
    """The options in their fixed order, and the letter of the right one (appendix C.3).

    The order is a function of the question's and the options' texts alone.

    Raises:
        ValueError: there are not four distinct options, or one is empty.
    """
    options = [right, *wrong]
    if len(options) != len(LETTERS) or len(set(options)) != len(options) or "" in options:
        # Without their texts, which may not be published: an error ends in a log.
        empty, same = options.count(""), len(options) - len(set(options))
        raise ValueError(
            f"expected {len(LETTERS)} distinct options, found {len(options)}, of them {empty} empty, and {same} that repeat "
            "another"
        )
    order = hash_order(options, "choices", question)
    return order, LETTERS[order.index(right)]


def with_choices(question: str, choices: Sequence[str]) -> str:
    """The problem as the prompt shows it: the question, then a line for each option."""
    return "\n".join([question, *(f"{letter}. {text}" for letter, text in zip(LETTERS, choices, strict=True))])
