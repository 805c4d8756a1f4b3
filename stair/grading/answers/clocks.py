"""Times of day."""

import re

from stair.grading.answers.kinds import Clock

_CLOCK = re.compile(
    r"(?:at )?(?P<hour>\d{1,2})(?:\s*:\s*(?P<minute>\d{2}))?\s*"
    r"(?:(?P<period>[ap])\s?\.?\s?m\b\.?|(?P<sharp>o'clock)|(?:in the )?(?P<part>morning|afternoon|evening))?",
    re.IGNORECASE,
)
_NAMED = {"noon": Clock(12, 0, "pm"), "midnight": Clock(12, 0, "am")}
_PARTS = {"morning": "am", "afternoon": "pm", "evening": "pm"}


def read_clock(text: str) -> Clock | None:
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
    return Clock(hour, minute, period)


def minutes(clock: Clock) -> int:
    """Minutes after midnight; without a period, as on a clock of 24 hours."""
    hour = clock.hour % 24
    if clock.period:
        hour = clock.hour % 12 + (12 if clock.period == "pm" else 0) if clock.hour <= 12 else clock.hour
    return hour * 60 + clock.minute
