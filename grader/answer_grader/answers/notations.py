r"""Notations that are no expressions: numerals with their base beside them (`3146_7`), times of day, days of the year."""

import re

from answer_grader.answers.types import BasedNumeral, TimeOfDay, Words
from answer_grader.answers.words import leading_number

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


_CLOCK = re.compile(
    r"(?:at )?(?P<hour>\d{1,2})(?:\s*:\s*(?P<minute>\d{2}))?\s*"
    r"(?:(?P<period>[ap])\s?\.?\s?m\b\.?|(?P<sharp>o'clock)|(?:in the )?(?P<part>morning|afternoon|evening))?",
    re.IGNORECASE,
)
_NAMED = {"noon": TimeOfDay(12, 0, "pm"), "midnight": TimeOfDay(12, 0, "am")}
_PARTS = {"morning": "am", "afternoon": "pm", "evening": "pm"}
_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = "|".join(f"{name[:3]}(?:{name[3:]})?" if name[3:] else name for name in _MONTHS) + "|sept"
_DATE = re.compile(
    rf"(?:(?P<month>{_MONTH})\.? (?P<day>\d{{1,2}})(?:st|nd|rd|th)?|"
    rf"(?P<other_day>\d{{1,2}})(?: ?(?:st|nd|rd|th))? (?:of )?(?P<other_month>{_MONTH}))(?:,? (?P<year>\d{{4}}))?",
    re.IGNORECASE,
)


def parse_time_of_day(text: str) -> TimeOfDay | None:
    """A time from plain text: `4:30`, `4:30 p.m.`, `4 PM`, `16:30`, `noon`. A bare number is no time."""
    text = text.strip().strip(" .")
    if text.casefold() in _NAMED:
        return _NAMED[text.casefold()]
    match = _CLOCK.fullmatch(text) or _CLOCK.fullmatch(text + ".")
    if match is None or not any(match[name] for name in ("minute", "period", "sharp")):
        return None
    hour, minute = int(match["hour"]), int(match["minute"] or 0)
    if hour > 24 or minute > 59:
        return None
    period = (match["period"] or "").lower() + "m" if match["period"] else _PARTS.get((match["part"] or "").lower(), "")
    return TimeOfDay(hour, minute, period)


def minutes_after_midnight(clock: TimeOfDay) -> int:
    """Minutes after midnight; without a period, as on a clock of 24 hours."""
    hour = clock.hour % 24
    if clock.period:
        hour = clock.hour % 12 + (12 if clock.period == "pm" else 0) if clock.hour <= 12 else clock.hour
    return hour * 60 + clock.minute


def parse_date(text: str) -> Words | None:
    """A day of the year, `June 20` or `20th of June`, perhaps with a year."""
    match = _DATE.fullmatch(text.strip(" ."))
    if match is None:
        return None
    month, day = (match["month"], match["day"]) if match["month"] else (match["other_month"], match["other_day"])
    return Words(f"{month.lower()[:3]} {int(day)} {match['year'] or ''}".strip())
