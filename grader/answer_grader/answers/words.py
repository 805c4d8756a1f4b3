"""Answers in words: numbers, denials, doubts, and phrases for mathematical objects."""

import re
from collections.abc import Sequence
from fractions import Fraction

from answer_grader.answers.types import Answer, NamedSet, Quantity, Words
from answer_grader.expressions.nodes import Constant, Negative, Number, Symbol
from answer_grader.expressions.normalization import without_fonts_and_spaces

_DENYING = (
    "not no never none neither nor nobody nothing nowhere cannot without except excluded excluding fail fails failed "
    "failing false wrong incorrect invalid impossible rejected discarded disproved refuted ruled extraneous undefined "
    "nonexistent inadmissible unattainable unreachable contradiction contradictory opposite"
)
_DOUBTING = (
    "if unless when whether what which than or either less more between possibly perhaps maybe may might could unlikely "
    "unknown there and"
)
_DESCRIBING = (
    "cannot excluded excluding fail fails failed failing invalid impossible rejected discarded disproved refuted ruled "
    "extraneous undefined nonexistent inadmissible unattainable unreachable contradiction contradictory"
)
_AT_THE_VERB = frozenset(_DESCRIBING.split())
"""Words that deny a statement beside its verb (`it cannot be`), and elsewhere can be part of a description (`invalid codes`)."""
_DENIALS, _DOUBTS = frozenset(_DENYING.split()), frozenset(_DOUBTING.split())


def is_negation(word: str) -> bool:
    """Whether a word denies the value beside it, whatever its case."""
    word = word.lower().replace("’", "'")
    return word in _DENIALS or word.endswith("n't")


def is_hedge(word: str) -> bool:
    """Whether the `is` after this word states nothing: the word denies, doubts, compares or asks."""
    return is_negation(word) or word.lower() in _DOUBTS


def is_hedged_clause(words: Sequence[str]) -> bool:
    """Whether a sentence up to its verb states nothing: `The number of invalid codes is` states a value."""
    return any(
        is_hedge(word) and (word.lower() not in _AT_THE_VERB or at >= len(words) - 2) for at, word in enumerate(words)
    )


_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
_UNITS = {word: value for value, word in enumerate(_SMALL.split())}
_TENS = {"twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "seventy": 70, "eighty": 80, "ninety": 90}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
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
        elif word.lower() in SCALES and group > 0:
            total, group = total + group * SCALES[word.lower()], 0
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


_ARTICLES = re.compile(r"^(?:the|an?|on(?=\s+[a-z]+day\b))\s+")
_VERB = re.compile(r"\s(?:is|are)\s")
_PHRASES: tuple[tuple[str, Answer], ...] = (
    (r"(?:there (?:is|are) )?no (?:real |integer |such |valid |possible )*(?:solutions?|roots?|values?|numbers?|answers?)"
     r"(?: exists?| of [a-z])?|none(?: exists?)?|(?:the )?(?:empty|null) set|unsolvable", NamedSet("empty")),
    (r"(?:the )?(?:set of )?(?:all|every|any) (?:the )?reals?(?: numbers?)?(?: [a-z])?", NamedSet("R")),
    (r"(?:the )?(?:set of )?(?:all|every|any) integers?", NamedSet("Z")),
    (r"(?:positive |plus )?infinity", Quantity(Constant("infinity"))),
    (r"(?:negative |minus )infinity", Quantity(Negative(Constant("infinity")))),
    (r"dne|d n e|(?:the )?(?:limit )?(?:does|do) not exist|doesn't exist|nonexistent", Words("does not exist")),
    (r"(?:is )?(?:undefined|not defined)", Words("undefined")),
    (r"(?:there are )?infinite(?:ly)?(?: many)?(?: solutions?)?", Words("infinitely many")),
)  # fmt: skip
_COMPILED = tuple((re.compile(pattern), answer) for pattern, answer in _PHRASES)


def normal_words(text: str) -> str:
    """Words without case, article and punctuation, so that `The Circle.` is `circle`."""
    text = re.sub(r"[.,;:!?()\[\]]", " ", text.casefold().replace("’", "'"))
    text = re.sub(r"\s+", " ", text.replace("-", " ")).strip()
    return _ARTICLES.sub("", text)


def sentence_states(answer: Answer, reference: Answer) -> bool:
    """Whether the answer is a sentence whose predicate is the reference: `f is even` for `even`.

    The reference is no sentence itself (`Ann is taller` is not `Bob is taller`), and the subject does not hedge.
    """
    if not isinstance(answer, Words) or not isinstance(reference, Words):
        return False
    subject, *predicates = _VERB.split(answer.text)
    if len(predicates) != 1 or not subject or _VERB.search(reference.text) or any(map(is_hedge, subject.split())):
        return False
    return normal_words(predicates[0]) == reference.text


def unparsed(normalized: str) -> Words:
    """What an answer that cannot be read is compared by. Letters keep their case, unless it is plainly in words."""
    text = without_fonts_and_spaces(normalized)
    if re.search(r"[A-Za-z]{3}", text) and not re.search(r"[\\=+*/^_<>]", text):
        text = re.sub(r"[{}\"]", "", text).casefold()
    return Words(text)


def parse_words(text: str) -> Answer:
    """The answer that a phrase names; a number if the phrase is a number in words."""
    spoken = re.sub(r"[.,;:!?()]", " ", text.casefold()).strip()
    spoken = re.sub(r"\s+", " ", spoken)
    for pattern, answer in _COMPILED:
        if pattern.fullmatch(spoken):
            return answer
    words = spoken.split()
    number = leading_number(words)
    if number is not None and number[1] == len(words):
        return Quantity(Number(Fraction(number[0])))
    fraction = spoken_fraction(words)
    if fraction is not None:
        return Quantity(Number(fraction))
    if len(words) == 1 and (value := ordinal_word(words[0])) is not None:
        return Quantity(Number(Fraction(value)))
    letter = re.fullmatch(r"(?:the )?(?:answer|choice|option|point|plan|graph|figure|statement) ([a-z])", spoken)
    if letter is not None:
        return Quantity(Symbol(text.strip(" .,;:!?()")[-1]))
    return Words(normal_words(text))
