r"""Tokens of normalized LaTeX. Words inside `\text` stay words; letters outside may be words or products of variables."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction

from answer_grader.bounds import MAX_ITEMS, MAX_NESTING, MAX_TOKENS, TooComplex
from answer_grader.expressions.normalization import FONTS


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


FUNCTIONS = _names(
    "sin cos tan cot sec csc arcsin arccos arctan arccot arcsec arccsc asin acos atan sinh cosh tanh coth sech csch "
    "arcsinh arccosh arctanh arsinh arcosh artanh log ln lg exp sqrt cbrt abs floor ceil gcd lcm min max det sgn cis "
    "binom tr rank"
)
SYNONYMS = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "lg": "log", "arsinh": "arcsinh", "arcosh": "arccosh"}
SYNONYMS |= {"artanh": "arctanh"}

GREEK = _names(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell hbar"
)
CONSTANTS = {"pi": "pi", "infty": "infinity", "infinity": "infinity", "oo": "infinity", "inf": "infinity"}
CONSTANT_LETTERS = {"e": "e", "i": "i"}

_PRODUCT_GROUPS = tuple(map(frozenset, ("abcd", "abcxyz", "xyzw", "xyzt", "uvw", "pqrs", "mnk", "ijk", "rst", "hrk")))


def is_product(letters: str) -> bool:
    """Whether a run of letters outside of text is a product of variables and not a word (`xy`, `abc`; not `east`).

    Short runs are products; of longer ones only those whose letters are usually variables together.
    """
    if len(letters) <= 2:
        return letters.casefold() not in ("no", "ok")
    return letters.islower() and len(set(letters)) == len(letters) and any(set(letters) <= g for g in _PRODUCT_GROUPS)


def is_mathematics(letters: str) -> bool:
    """Whether a run of letters outside of text is read as mathematics."""
    known = letters in FUNCTIONS or letters in CONSTANTS or letters in GREEK
    return known or is_product(letters) or leading_function(letters) is not None


def leading_function(letters: str) -> str | None:
    """The function in a run such as `sinx`: a function's name followed by one variable."""
    name = letters[:-1]
    return name if name in ("sin", "cos", "tan", "ln", "log") else None


UNITS_OF_TWO_OR_THREE_LETTERS = _names(
    "cm mm km kg mg ft yd lb oz hr ml mL kL in mi ms mph Hz kHz MHz kW kJ eV min sec"
)
"""Runs of letters that are a unit when they follow a number, although they could be products."""


class TokenKind(Enum):
    NUMBER = auto()
    LETTERS = auto()
    """a run of letters outside of `\\text`"""
    WORD = auto()
    """a word inside of `\\text` or another text font"""
    COMMAND = auto()
    SIGN = auto()
    """any other character, with `\\{` and `\\}` for set braces"""


@dataclass(frozen=True, slots=True)
class Token:
    kind: TokenKind
    text: str
    value: Fraction | None = None
    """of a number"""
    spaced: bool = False
    """whether a space stands before it"""

    def is_sign(self, *signs: str) -> bool:
        return self.kind is TokenKind.SIGN and self.text in signs

    def is_command(self, *names: str) -> bool:
        return self.kind is TokenKind.COMMAND and self.text in names

    @property
    def is_wordlike(self) -> bool:
        return self.kind in (TokenKind.WORD, TokenKind.LETTERS)


_TEXT = re.compile(rf"(?:{FONTS}|\\(?:unit|si)\s*)(?=\{{)")
_PLAIN_NUMBER = re.compile(r"(?:\d+\.\d+|\d+\.(?!\d)|\.\d+|\d+)(?:[eE][+-]?\d+(?![A-Za-z\d]))?")
_GROUPED_NUMBER = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?(?!,\d{3})")
_MISGROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{2,3})*,0\d{1,2}(?!\d)")
"""No list, since a number does not begin with a zero, and no grouping by thousands: `1,00,000`."""
# `0.\overline{3}`, `0.1\dot{6}`, `0.(3)`, and `0.333\ldots`
_PERIOD_MARK = r"\\(?:overline|bar|overbar|dot|overset\{\.\}|dot)\s*"
_REPEATING = re.compile(
    rf"(?P<whole>\d*)\.(?P<fixed>\d*)(?:{_PERIOD_MARK}\{{(?P<braced>\d+)\}}|{_PERIOD_MARK}(?P<bare>\d)|\((?P<paren>\d+)\))"
    rf"(?:(?P<between>\d*){_PERIOD_MARK}\{{?(?P<last>\d)\}}?)?"
)
_ELLIPSIS = re.compile(r"(?P<whole>\d*)\.(?P<digits>\d+)\s*\\ldots(?:\s|$)?")
_LETTERS = re.compile(r"[A-Za-z]+")
_TEXT_WORD = re.compile(r"[A-Za-z]+(?:['’-][A-Za-z]+)*")
_COMMAND = re.compile(r"\\([A-Za-z]+|[{}$%&#_\\'])")


def tokenize(text: str, *, grouping: bool) -> list[Token]:
    """Tokens of a normalized answer.

    `grouping` reads `1,234` outside of parentheses as one number; otherwise its comma separates. Raises TooComplex for
    answers beyond the bounds on tokens and nesting.
    """
    tokens: list[Token] = []
    position, depth, braces, spaced = 0, 0, 0, False
    text_levels: list[int] = []  # brace depths at which a text font was opened
    while position < len(text):
        if text[position] == " ":
            position, spaced = position + 1, True
            continue
        if match := _TEXT.match(text, position):
            text_levels.append(braces)
            position = match.end()
            continue
        token, position = _next_token(
            text, position, grouping=grouping and depth == 0, in_text=bool(text_levels), spaced=spaced
        )
        spaced = False
        if token.is_sign("{"):
            opens_text = bool(text_levels) and text_levels[-1] == braces
            braces += 1
            if opens_text:
                spaced = True
                continue
        elif token.is_sign("}"):
            braces -= 1
            if text_levels and text_levels[-1] == braces:
                text_levels.pop()
                spaced = True
                continue
        elif token.is_sign("(", "[", "\\{"):
            depth += 1
        elif token.is_sign(")", "]", "\\}"):
            depth = max(0, depth - 1)
        tokens.append(token)
        if len(tokens) > MAX_TOKENS or braces + depth > MAX_NESTING:
            raise TooComplex("an answer with too many symbols or brackets")
    return tokens


def _next_token(text: str, position: int, *, grouping: bool, in_text: bool, spaced: bool) -> tuple[Token, int]:
    grouped = _GROUPED_NUMBER.match(text, position) if grouping else None
    misgrouped = _MISGROUPED.match(text, position)
    if misgrouped and not (grouped and grouped.end() >= misgrouped.end()):
        return Token(TokenKind.SIGN, misgrouped[0], None, spaced), misgrouped.end()
    for pattern, value in _NUMBERS:
        match = pattern.match(text, position) if grouping or pattern is not _GROUPED_NUMBER else None
        if match and (number := value(match)) is not None:
            return Token(TokenKind.NUMBER, match[0], number, spaced), match.end()
    if match := (_TEXT_WORD if in_text else _LETTERS).match(text, position):
        return Token(TokenKind.WORD if in_text else TokenKind.LETTERS, match[0], None, spaced), match.end()
    if match := _COMMAND.match(text, position):
        sign = {"{": "\\{", "}": "\\}", "%": "%"}.get(match[1])
        return Token(TokenKind.SIGN if sign else TokenKind.COMMAND, sign or match[1], None, spaced), match.end()
    return Token(TokenKind.SIGN, text[position], None, spaced), position + 1


def _decimal(match: re.Match[str]) -> Fraction:
    """The exact value. Raises TooComplex where the exponent is beyond what is computed with."""
    mantissa, _, exponent = match[0].replace(",", "").lower().partition("e")
    if exponent and abs(int(exponent)) > 10_000:
        raise TooComplex("a decimal exponent beyond the bounds")
    return Fraction(mantissa.rstrip(".") or "0") * Fraction(10) ** int(exponent or 0)


def _repeating_value(match: re.Match[str]) -> Fraction:
    """The value of a marked repeating decimal. Two dots mark the first and last digit of the period."""
    period = match["braced"] or match["bare"] or match["paren"]
    if match["last"]:
        period += match["between"] + match["last"]
    return _periodic_value(match["whole"], match["fixed"], period)


def _ellipsis_value(match: re.Match[str]) -> Fraction | None:
    """The value of a decimal with dots, if its last digits show a period; else None (`3.1415\\ldots` has no value).

    A period of one or two digits must stand there three times, a longer one twice.
    """
    digits = match["digits"]
    for length in range(1, len(digits) // 2 + 1):
        times = 3 if length <= 2 else 2
        period = digits[-length:]
        if digits.endswith(period * times):
            start = len(digits) - length * times
            return _periodic_value(match["whole"], digits[:start], period)
    return None


def _periodic_value(whole: str, fixed: str, period: str) -> Fraction:
    start = Fraction(int(whole or 0)) + (Fraction(int(fixed), 10 ** len(fixed)) if fixed else 0)
    return start + Fraction(int(period), (10 ** len(period) - 1) * 10 ** len(fixed))


_NUMBERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Fraction | None]], ...] = (
    (_REPEATING, _repeating_value),
    (_ELLIPSIS, _ellipsis_value),
    (_GROUPED_NUMBER, _decimal),
    (_PLAIN_NUMBER, _decimal),
)


_OPENING_SIGNS, _CLOSING_SIGNS = ("(", "[", "{", "\\{"), (")", "]", "}", "\\}")
_OPENING_COMMANDS = ("langle", "lfloor", "lceil", "begin")
_CLOSING_COMMANDS = ("rangle", "rfloor", "rceil", "end")


def opens(token: Token) -> bool:
    return token.is_sign(*_OPENING_SIGNS) or token.is_command(*_OPENING_COMMANDS)


def closes(token: Token) -> bool:
    return token.is_sign(*_CLOSING_SIGNS) or token.is_command(*_CLOSING_COMMANDS)


def closing_index(tokens: list[Token]) -> int | None:
    """The index of the bracket that closes the first token. Kinds may differ: `(1, 2]`."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += opens(token) - closes(token)
        if depth == 0:
            return index
    return None


def split_tokens(tokens: list[Token], is_separator: Callable[[Token], object]) -> tuple[list[list[Token]], list[Token]]:
    """The parts between top-level separators, and the separators. Raises TooComplex for too many of them."""
    parts: list[list[Token]] = [[]]
    separators = []
    depth = 0
    for token in tokens:
        depth = max(0, depth + opens(token) - closes(token))
        if depth == 0 and is_separator(token):
            separators.append(token)
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) > MAX_ITEMS:
        raise TooComplex("a list of too many answers")
    return parts, separators


def strip_punctuation(tokens: list[Token]) -> list[Token]:
    """Without quotation marks and final punctuation, and without braces around everything."""
    while True:
        before = len(tokens)
        while tokens and tokens[-1].is_sign(".", ",", ";", ":", '"', "`"):
            tokens = tokens[:-1]
        while tokens and tokens[0].is_sign('"', "`", ",", ";", ":"):
            tokens = tokens[1:]
        if tokens and tokens[0].is_sign("{") and closing_index(tokens) == len(tokens) - 1:
            tokens = tokens[1:-1]
        if len(tokens) == before:
            return tokens


def text_of(tokens: list[Token]) -> str:
    """The tokens as text again, without fonts."""
    pieces: list[str] = []
    for token in tokens:
        piece = "\\" + token.text if token.kind is TokenKind.COMMAND else token.text
        pieces.append((" " if token.spaced and pieces else "") + piece)
    return "".join(pieces)
