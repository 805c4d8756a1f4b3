"""Times of day, and days of the year."""

import re

from answer_grader.answers.types import TimeOfDay, Words

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
