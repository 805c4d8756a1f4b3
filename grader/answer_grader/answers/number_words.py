"""Numbers in English words."""

from fractions import Fraction

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
_SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
)
_ORDINAL = {word: value for value, word in enumerate(_ORDINALS.split())}


_PARTS = {"half": 2, "halves": 2, "third": 3, "fourth": 4, "quarter": 4, "fifth": 5, "sixth": 6, "seventh": 7}
_PARTS |= {"eighth": 8, "ninth": 9, "tenth": 10, "twelfth": 12, "hundredth": 100}


def spoken_fraction(words: list[str]) -> Fraction | None:
    """2/3 for `two thirds`, 1/2 for `one-half` and `half`."""
    parts = [part for word in words for part in word.lower().split("-") if part not in ("a", "an")]
    if not parts or len(parts) > 2:
        return None
    denominator = _PARTS.get(parts[-1]) or _PARTS.get(parts[-1].removesuffix("s"))
    numerator = _UNITS.get(parts[0], 0) if len(parts) == 2 else 1
    if denominator is None or numerator == 0 or (len(parts) == 1 and parts != ["half"]):
        return None
    return Fraction(numerator, denominator)


def ordinal_word(word: str) -> int | None:
    """5 for `fifth` and 23 for `twenty-third`, below 100."""
    tens, hyphen, units = word.lower().partition("-")
    if not hyphen:
        return _ORDINAL.get(tens) or (_TENS.get(tens.removesuffix("ieth") + "y") if tens.endswith("ieth") else None)
    value = _ORDINAL.get(units, 0)
    return _TENS[tens] + value if tens in _TENS and 0 < value < 10 else None


def leading_number(words: list[str]) -> tuple[int, int] | None:
    """The cardinal number with which the words begin, and how many words it takes; None if they begin otherwise.

    `twenty-one` is one word; `and` belongs to a number after `hundred`.
    """
    total = group = length = 0
    for index, word in enumerate(words):
        parts = word.lower().split("-")
        if word.lower() == "and" and group >= 100 and index + 1 < len(words):
            following = words[index + 1].lower().split("-")[0]
            if following in _UNITS or following in _TENS:
                continue
            break
        if word.lower() == "hundred" and 0 < group < 10:
            group *= 100
        elif word.lower() in _SCALES and group > 0:
            total, group = total + group * _SCALES[word.lower()], 0
        elif all(part in _UNITS or part in _TENS for part in parts) and _fits(group, parts):
            group += sum(_UNITS.get(part, _TENS.get(part, 0)) for part in parts)
        else:
            break
        length = index + 1
    return (total + group, length) if length else None


def _fits(group: int, parts: list[str]) -> bool:
    """Whether the words can go on a number: `twenty one` and `hundred five`, not `five six`."""
    if len(parts) > 2 or (len(parts) == 2 and not (parts[0] in _TENS and 0 < _UNITS.get(parts[1], 0) < 10)):
        return False
    if parts[0] in _TENS:
        return group % 100 == 0
    value = _UNITS[parts[0]]
    return group == 0 or group % 100 == 0 or (value < 10 and group % 100 >= 20 and group % 10 == 0)
