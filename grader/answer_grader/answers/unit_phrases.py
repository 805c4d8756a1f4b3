r"""Units as they are written after a number: `\text{cm}^2`, `^\circ`, `\%`, `square feet`, `miles per hour`, `apples`."""

from dataclasses import dataclass
from fractions import Fraction

from answer_grader.answers.known_units import (
    CURRENCY_COMMANDS,
    DEGREE,
    MULTIPLIERS,
    PERCENT,
    UNITS,
    find_unit,
    multiply,
    power,
)
from answer_grader.answers.negations import is_negation
from answer_grader.answers.token_lists import closing_index
from answer_grader.answers.types import Unit
from answer_grader.expressions.tokens import Token, TokenKind


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLERS = _words("of the a an in total exactly each only approximately about")
_NO_UNIT = _words(
    "or and to more less least most at than over under above below between from through until if when where for "
    "with plus minus times divided squared cubed factorial is are was equals am pm base mod either "
    "but maybe possibly unless left right true unlikely unknown"
)
_DIMENSION_WORDS = {"square": 2, "sq": 2, "squared": 2, "cubic": 3, "cu": 3, "cubed": 3}
_IRREGULAR = {"people": "person", "persons": "person", "children": "child", "men": "man", "women": "woman"}
_IRREGULAR |= {"mice": "mouse", "geese": "goose", "teeth": "tooth", "dice": "die"}


@dataclass(frozen=True, slots=True)
class UnitPhrase:
    """What follows a number: its unit, and a multiplier (`million`)."""

    unit: Unit | None
    multiplier: int = 1


def parse_unit_phrase(tokens: list[Token]) -> UnitPhrase | None:
    """The unit that all the tokens make up, or None if they are something else."""
    if not tokens:
        return UnitPhrase(None)
    modulus = _modulus(tokens)
    if modulus is not None:
        return UnitPhrase(Unit(noun=f"mod {modulus}"))
    reader = _UnitPhraseParser(tokens)
    return reader.read()


class _UnitPhraseParser:
    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.unit: Unit | None = None
        self.multiplier = 1
        self.inverse = False
        """Whether the next unit is divided by."""
        self.exponent_before = 1
        """The next unit's exponent by a word before it (`square`)."""

    def read(self) -> UnitPhrase | None:
        while self.position < len(self.tokens):
            token = self.tokens[self.position]
            if token.is_command("frac"):
                accepted = self._add_fraction()
            else:
                accepted = self._accept_connective(token) or self._add_unit(token)
            if not accepted:
                return None
        if self.inverse or self.exponent_before != 1:
            return None
        return UnitPhrase(self.unit, self.multiplier)

    def _accept_connective(self, token: Token) -> bool:
        """Advances past a token beside units: an operator, `square`, `million`, a filler, punctuation."""
        word = token.text.lower() if token.is_wordlike else ""
        if token.is_sign("/") or word == "per":
            self.inverse = True
        elif token.is_command("cdot", "times") or token.is_sign("*", "-"):
            if self.unit is None:
                return False
        elif word in _DIMENSION_WORDS:
            if word.endswith("ed"):
                return False  # taken with its unit by `_exponent_after`
            self.exponent_before = _DIMENSION_WORDS[word]
        elif word in MULTIPLIERS and self.unit is None:
            self.multiplier *= MULTIPLIERS[word]
        elif not (token.is_sign(".", "(", ")") or self._is_filler(token)):
            return False
        self.position += 1
        return True

    def _is_filler(self, token: Token) -> bool:
        word = token.text.lower()
        # As the first unit, and without a word after it, `in` is the inch.
        is_inch = word == "in" and self.unit is None and self._is_last()
        return token.kind is TokenKind.WORD and word in _FILLERS and not is_inch

    def _add_unit(self, token: Token) -> bool:
        unit = self._same_with_one_unit(token)
        if unit is None:
            return False
        self._multiply_by(unit)
        return True

    def _add_fraction(self) -> bool:
        r"""`\frac{\text{miles}}{\text{hour}}`"""
        self.position += 1
        for inverse in (False, True):
            rest = self.tokens[self.position :]
            end = closing_index(rest) if rest and rest[0].is_sign("{") else None
            phrase = parse_unit_phrase(rest[1:end]) if end else None
            if end is None or phrase is None or phrase.unit is None or phrase.multiplier != 1:
                return False
            self._multiply(power(phrase.unit, -1 if inverse else 1))
            self.position += end + 1
        return True

    def _multiply(self, unit: Unit) -> None:
        self.unit = unit if self.unit is None else multiply(self.unit, unit)

    def _is_last(self) -> bool:
        """Whether nothing but punctuation and an exponent follows."""
        rest = self.tokens[self.position + 1 :]
        return not any(token.is_wordlike for token in rest)

    def _same_with_one_unit(self, token: Token) -> Unit | None:
        """Advances past one unit symbol or noun, without its exponent."""
        self.position += 1
        if token.is_sign("%"):
            return PERCENT
        if token.is_sign("'"):
            twice = self.position < len(self.tokens) and self.tokens[self.position].is_sign("'")
            self.position += twice
            return UNITS["inch" if twice else "foot"]
        if token.is_sign("^") and self._accept_circle():
            return self._temperature() or DEGREE
        if token.kind is TokenKind.COMMAND and token.text in CURRENCY_COMMANDS:
            return UNITS[CURRENCY_COMMANDS[token.text]]
        if not token.is_wordlike:
            return None
        named = find_unit(token.text)
        if named is not None:
            return self._temperature() or named if named == DEGREE else named
        if (
            token.text.lower() in _NO_UNIT
            or is_negation(token.text)
            or (len(token.text) == 1 and token.kind is TokenKind.LETTERS)
        ):
            return None
        return Unit(noun=singular(token.text.lower()))

    def _accept_circle(self) -> bool:
        follows = self.position < len(self.tokens) and self.tokens[self.position].is_command("circ")
        self.position += follows
        return follows

    def _temperature(self) -> Unit | None:
        if self.position < len(self.tokens) and self.tokens[self.position].is_wordlike:
            unit = find_unit(self.tokens[self.position].text)
            if unit in (UNITS["celsius"], UNITS["fahrenheit"]):
                self.position += 1
                return unit
        return None

    def _multiply_by(self, unit: Unit) -> None:
        """Multiplies by a unit, with the exponents and the division around it."""
        exponent = self.exponent_before * self._exponent_after()
        self._multiply(power(unit, -exponent if self.inverse else exponent))
        self.inverse, self.exponent_before = False, 1

    def _exponent_after(self) -> int:
        if self.position < len(self.tokens) and self.tokens[self.position].text.lower() in ("squared", "cubed"):
            self.position += 1
            return _DIMENSION_WORDS[self.tokens[self.position - 1].text.lower()]
        rest = self.tokens[self.position : self.position + 5]
        if not rest or not rest[0].is_sign("^"):
            return 1
        body = [token for token in rest[1:] if not token.is_sign("{")]
        negative = bool(body) and body[0].is_sign("-")
        number = body[negative] if len(body) > negative else None
        if number is None or number.value is None or number.value.denominator != 1:
            return 1
        braced = rest[1].is_sign("{")
        self.position += 2 + negative + 2 * braced
        return -int(number.value) if negative else int(number.value)


def singular(word: str) -> str:
    """A rough singular, so that `apple` and `apples` are one noun."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) > 3 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 3 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    return word[:-1] if len(word) > 2 and word.endswith("s") and not word.endswith("ss") else word


def _modulus(tokens: list[Token]) -> Fraction | None:
    r"""7 for `\pmod{7}`, `\bmod 7`, `(mod 7)`."""
    meaningful = [token for token in tokens if not token.is_sign("(", ")", "{", "}")]
    if (
        len(meaningful) == 2
        and meaningful[0].text.lower() in ("pmod", "bmod", "mod")
        and meaningful[1].value is not None
    ):
        return meaningful[1].value
    return None
