r"""Decimals that do not end: `0.\overline{3}`, `0.1\dot{6}`, `0.(3)`, `0.333\ldots`."""

import re
from fractions import Fraction

_MARK = r"\\(?:overline|bar|overbar|dot|overset\{\.\}|dot)\s*"
REPEATING = re.compile(
    rf"(?P<whole>\d*)\.(?P<fixed>\d*)(?:{_MARK}\{{(?P<braced>\d+)\}}|{_MARK}(?P<bare>\d)|\((?P<paren>\d+)\))"
    rf"(?:(?P<between>\d*){_MARK}\{{?(?P<last>\d)\}}?)?"
)
ELLIPSIS = re.compile(r"(?P<whole>\d*)\.(?P<digits>\d+)\s*\\ldots(?:\s|$)?")


def repeating_value(match: re.Match[str]) -> Fraction:
    """The value of a marked repeating decimal. Two dots mark the first and last digit of the period."""
    period = match["braced"] or match["bare"] or match["paren"]
    if match["last"]:
        period += match["between"] + match["last"]
    return _value(match["whole"], match["fixed"], period)


def ellipsis_value(match: re.Match[str]) -> Fraction | None:
    """The value of a decimal with dots, if its last digits show a period; else None (`3.1415\\ldots` has no value).

    A period of one or two digits must stand there three times, a longer one twice.
    """
    digits = match["digits"]
    for length in range(1, len(digits) // 2 + 1):
        times = 3 if length <= 2 else 2
        period = digits[-length:]
        if digits.endswith(period * times):
            start = len(digits) - length * times
            return _value(match["whole"], digits[:start], period)
    return None


def _value(whole: str, fixed: str, period: str) -> Fraction:
    start = Fraction(int(whole or 0)) + (Fraction(int(fixed), 10 ** len(fixed)) if fixed else 0)
    return start + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))
