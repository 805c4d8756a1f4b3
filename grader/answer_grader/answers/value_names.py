r"""The left sides of statements: whether `m+n` in `m+n = 7` names the value, or is part of an equation to be solved."""

import re

_SUBSCRIPT = r"(?:'|_(?:\{[^{}]*\}|\w|\\[a-z]+))*"
_LETTER = rf"(?:[A-Za-z]|\\(?!frac|sqrt|pm|infty|pi\b)[A-Za-z]+){_SUBSCRIPT}"
_LETTERS = rf"(?:{_LETTER}|[A-Z]{{2,3}})"
_ACCENTED = r"\\(?:vec|hat|bar|overline|overrightarrow)\{?[A-Za-z]+\}?"
_FUNCTION = r"\\?(?:sin|cos|tan|cot|sec|csc|log|ln|det|max|min|lim)"
_NAMES = (
    _LETTER,
    rf"{_LETTER}(?:\^{{?-1}}?)?\(.*\)",  # f(2), P(A), f^{-1}(x)
    rf"{_LETTER}(?:[+*-]?{_LETTER}){{1,5}}",  # m+n, a-b, abc, AB
    rf"\\frac\{{{_LETTERS}\}}\{{{_LETTERS}\}}|{_LETTERS}[/:]{_LETTERS}",
    rf"\\frac\{{(?:d|\\partial)(?:{_LETTER})?\}}\{{(?:d|\\partial){_LETTER}\}}(?:\(.*\))?",
    r"m?\\(?:angle|measuredangle|triangle|widehat)\{?[A-Za-z]+\}?",
    _ACCENTED,
    rf"{_FUNCTION}(?:\(.*\)|\{{?{_LETTER}\}}?|\\angle\{{?[A-Z]+\}}?)",
    r"\|[A-Za-z]+\||\[[A-Z]+\]",  # |AB|, [ABC]
    r"[A-Za-z][A-Za-z ]+",
)
_NAME = re.compile("|".join(f"(?:{pattern})" for pattern in _NAMES))
_LONGEST = 60


def names_value(source: str) -> bool:
    """Whether a left side only names what it is equal to. `source` is without spaces."""
    return len(source) <= _LONGEST and _NAME.fullmatch(source) is not None


def names_quantity(source: str) -> bool:
    """Whether it names one quantity: as `names_value`, but no sum or product of variables, which makes an equation."""
    outside = re.sub(r"\{[^{}]*\}|\([^()]*\)", "", source)
    return names_value(source) and not re.search(r"[+*-]|^[a-z]{2,}$", outside)


def names_variable(source: str) -> bool:
    """Whether it is one letter, or a function of one letter: what a formula is given for."""
    argument = r"(?:\^\{?-1\}?)?(?:\([A-Za-z](?:,[A-Za-z])*\))?"
    return re.fullmatch(rf"{_LETTER}{argument}|{_ACCENTED}", source) is not None
