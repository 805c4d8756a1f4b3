r"""Numerals with their base beside them: `3146_7`, `1A_{16}`, `1010_{\text{two}}`, `201 \text{ (base 3)}`."""

import re

from answer_grader.answers.number_words import leading_number
from answer_grader.answers.types import BasedNumeral

_DIGITS = r"\(?\s*(?P<digits>-?(?:\d{1,3}(?:,\d{3})+|[0-9A-Z]+(?:\.[0-9A-Z]+)?))\s*\)?"
_SUBSCRIPT = re.compile(
    _DIGITS + r"\s*_\s*(?:base\s*)?(?P<bracket>\()?\s*(?P<base>\d+|[a-z]+)\s*(?(bracket)\))", re.IGNORECASE
)
_SPOKEN = re.compile(_DIGITS + r"\s*\(?\s*(?:in )?base\s*[- ]?\s*(?P<base>\d+|[a-z]+)\s*\)?", re.IGNORECASE)
_LARGEST = 36


def parse_based_numeral(text: str) -> BasedNumeral | None:
    """A based numeral from plain text (without fonts and braces), or None."""
    text = re.sub(r"(?<=[0-9A-Z]) (?=[0-9A-Z]+ ?_)", "", text)  # `2 B_16`, from a letter in a font of its own
    match = _SUBSCRIPT.fullmatch(text) or _SPOKEN.fullmatch(text)
    if match is None:
        return None
    digits, base = match["digits"].upper().replace(",", ""), base_number(match["base"])
    if base is None or not (
        any(character.isdigit() for character in digits) or _is_letters_only(match["digits"], base)
    ):
        return None
    if not all(character in "-." or int(character, 36) < base for character in digits):
        return None
    return BasedNumeral(_without_zeros(digits), base)


def _is_letters_only(digits: str, base: int) -> bool:
    """`FACE_{16}`: one letter with a subscript is a variable."""
    return base > 10 and len(digits) > 1 and digits.isupper()


def base_number(text: str) -> int | None:
    """7 for `7` and `seven`."""
    if text.isdigit():
        base = int(text[:4])
    else:
        number = leading_number([text])
        if number is None:
            return None
        base = number[0]
    return base if 2 <= base <= _LARGEST else None


def _without_zeros(digits: str) -> str:
    sign, digits = ("-", digits[1:]) if digits.startswith("-") else ("", digits)
    whole, _, part = digits.partition(".")
    part = part.rstrip("0")
    return sign + (whole.lstrip("0") or "0") + ("." + part if part else "")
