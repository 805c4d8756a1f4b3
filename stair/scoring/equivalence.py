"""Whether an answer says the same as the reference, in the format that the problem asked for."""

import re
from fractions import Fraction

_DECIMAL = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)")
_FRACTION = re.compile(r"([+-]?)\\[dt]?frac\{(\d+)\}\{(\d+)\}")


def exact_value(text: str) -> Fraction | None:
    """The rational that a plain decimal or fraction stands for."""
    text = re.sub(r"\s|\\[,;!]|\$", "", text)
    if match := _DECIMAL.fullmatch(text):
        return Fraction(match[1] + match[2].rstrip("."))
    if (match := _FRACTION.fullmatch(text)) and int(match[3]):
        return Fraction(int(match[1] + match[2]), int(match[3]))
    return None


def equivalent(answer: str, reference: str, problem_hint: str | None = None) -> bool:
    """Whether two mathematical answers are equal."""
    left, right = exact_value(answer), exact_value(reference)
    if left is not None and right is not None:
        return left == right
    return re.sub(r"\s+", "", answer) == re.sub(r"\s+", "", reference)
