"""Answers in words: their normal form, and phrases that stand for mathematics."""

import re
from fractions import Fraction

from answer_grader.answers.negations import is_hedge
from answer_grader.answers.number_words import leading_number, ordinal_word, spoken_fraction
from answer_grader.answers.types import Answer, NamedSet, Quantity, Words
from answer_grader.expressions.nodes import Constant, Negative, Number, Symbol
from answer_grader.expressions.normalization import without_fonts_and_spaces

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
    """The answer that a phrase stands for; a number if it is one in words."""
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
