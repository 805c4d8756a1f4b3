"""What the problem says about the format of the answer, and whether an expression has it: factored or expanded."""

import re
from dataclasses import dataclass
from math import gcd, prod

from answer_grader.answers.notations import base_number
from answer_grader.answers.types import Unit
from answer_grader.answers.units import DEGREE, UNITS, multiply, power
from answer_grader.expressions.nodes import (
    Negative,
    Node,
    Number,
    Power,
    Product,
    Quotient,
    Sum,
    Symbol,
    children,
    symbols,
)
from answer_grader.expressions.normalization import plain_text


def factor_count(node: Node) -> int:
    """How many factors with variables a product has, powers counted as often as they say."""
    match node:
        case Negative(operand):
            return factor_count(operand)
        case Product(factors):
            return sum(map(factor_count, factors))
        case Power(base, Number(value)) if value.denominator == 1 and value > 0:
            return int(value) * factor_count(base)
        case Quotient(numerator, denominator) if not symbols(denominator):
            return factor_count(numerator)
        case _:
            return 1 if symbols(node) else 0


def has_common_divisor(node: Node) -> bool:
    """Whether an integer greater than 1 can be taken out of a sum with variables."""
    if isinstance(node, Sum) and symbols(node):
        coefficients = [_integer_coefficient(term) for term in node.terms]
        return None not in coefficients and gcd(*filter(None, coefficients)) > 1
    return any(map(has_common_divisor, children(node)))


def _integer_coefficient(term: Node) -> int | None:
    match term:
        case Number(value):
            return int(value) if value.denominator == 1 else None
        case Negative(operand):
            return _integer_coefficient(operand)
        case Product(factors):
            coefficients = [_integer_coefficient(factor) for factor in factors]
            return None if None in coefficients else prod(filter(None, coefficients))
        case Symbol() | Power(Symbol(), Number()):
            return 1
        case _:
            return None


def is_expanded(node: Node) -> bool:
    """Whether no product or power of a sum with variables is left."""
    factors: tuple[Node, ...] = ()
    if isinstance(node, Product):
        factors = node.factors if len(node.factors) > 1 else ()
    elif isinstance(node, Power) and isinstance(node.exponent, Number):
        factors = (node.base,)
    if any(isinstance(factor, Sum) and symbols(factor) for factor in factors):
        return False
    return all(map(is_expanded, children(node)))


_LONGEST = 8_000

_BASE = re.compile(
    r"(?:to|in|into|as a|base)[\s$(]*(?:number )?(?:in )?base[\s$_{-]*(\d+|[a-z]+)|answer in base[\s$_{-]*(\d+|[a-z]+)|"
    r"base[\s$_{-]*(\d+|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|sixteen)"
)
_ASKING = (
    r"\b(?:(?:express|write|rewrite|convert|simplify|change|rationalize|evaluate|compute|calculate)\b[a-z ]{0,60}|"
    r"(?:value of|what is|what's|work out|find|determine)(?: the)?(?: following)?"
    r"(?: (?:expression|sum|product|quotient|difference|fraction|determinant|series)(?: of)?)?):? ?"
)
_FORMULA = (
    r"(?:\$+([^$]{1,600})\$|\\\((.{1,600}?)\\\)|\\\[(.{1,600}?)\\\]|"
    r"\\begin ?\{(?:align|aligned|equation|gather|multline)\*?\}(.{1,600}?)\\end\b)"
)
_POSED = re.compile(_ASKING + _FORMULA)
_UNIT = re.compile(
    r"(?:how many|number of|in|in terms of|nearest(?: whole| tenth of an?| hundredth of an?)?|express\w*[^.?]{0,40}? in|"
    r"units? (?:of|is|are)|what is[^.?]{0,60}?, in)\s+((?:square |cubic )?[a-z]+(?:\^\{?[23]\}?)?(?: per [a-z]+)?)\b"
)

_HOW_MANY = re.compile(r"how many ([a-z]+(?: per [a-z]+)?)\b")


class _Asks:
    """A property of `RequestedFormat`: whether the problem's text has one pattern, and not another."""

    def __init__(self, pattern: str, unless: str = r"(?!)") -> None:
        self.pattern, self.unless = re.compile(pattern), re.compile(unless)

    def __get__(self, requested: "RequestedFormat", _: type) -> bool:
        return self.pattern.search(requested.text) is not None and self.unless.search(requested.text) is None


_PERCENT = (
    r"(?:what|which|how many|find|give|determine|calculate|compute|in|as a|by what|nearest)(?: [a-z]+){0,4}? percent"
    r"|percentage|in percent\b|percent (?:increase|decrease|change|error|profit|loss)"
)
_MORNING = r"\ba\.m\b|\d ?am\b|morning"
_AFTERNOON = r"\bp\.m\b|\d ?pm\b|afternoon|evening|tonight"


@dataclass(frozen=True, slots=True)
class RequestedFormat:
    """What is known about the format that a problem asks for. All false where there is no problem text."""

    text: str = ""
    """in small letters, with single spaces"""

    @classmethod
    def from_problem(cls, problem: str | None) -> "RequestedFormat":
        """Reads the end of the problem's text, which is where the question stands."""
        text = (problem or "")[-_LONGEST:].lower()
        text = re.sub(r"\\(?:text|textbf|textit|mathrm|mbox|emph)\s*\{([^{}]*)\}", r" \1 ", text)
        text = re.sub(r"\\?%|\bper cent\b", " percent", text.replace("\\\\", " "))
        return cls(re.sub(r"\s+", " ", text).strip())

    def __bool__(self) -> bool:
        return bool(self.text)

    wants_order = _Asks(
        r"in (?:the )?(?:increasing|decreasing|ascending|descending|numerical|alphabetical|chronological) order|"
        r"from (?:the )?(?:least|smallest|lowest|largest|greatest|highest|shortest|longest|youngest|oldest|left|first)|"
        r"respectively|in order(?! to\b| for\b| that\b)|ordered (?:list|from)|(?:smallest|least|largest|greatest) to|"
        r"(?:small|larg|great)(?:er|est) (?:\w+ )?first|least first"
    )
    wants_tuple = _Asks(
        r"ordered (?:pair|triple|quadruple|tuple)|coordinates|\bpoints?\b|\bvector|\bmidpoint|\bvertex\b|\bcenter\b|"
        r"\bcentre\b|\(\s*\w\s*,\s*\w\s*\)"
    )
    wants_point = _Asks(r"ordered pair|coordinates|point of intersection|midpoint|\bvertex\b")
    """The problem asks for a pair, which cannot be an interval."""
    wants_percent = _Asks(_PERCENT)
    wants_plain_number = _Asks(
        r"probability|as a (?:common |simplified |reduced )?(?:fraction|decimal)|proportion|ratio", unless=_PERCENT
    )
    wants_radians = _Asks(r"\bradians?\b", unless=r"\bin degrees\b")
    wants_rounding = _Asks(r"nearest|round|approximat|decimal places?|estimate|significant (?:figures|digits)")
    wants_ratio = _Asks(r"\bratio\b")
    wants_remainder = _Asks(r"remainder|\bp?mod\b|modulo|residue|divided by")
    wants_equation = _Asks(
        r"equations? (?:of|for) (?:the|a|an|this|that) (?:[a-z-]+ )?(?:line|circle|parabola|ellipse|hyperbola|plane|sphere|"
        r"tangent|curve|graph|asymptote|axis|directrix|perpendicular)|"
        r"(?:write|find|give|enter|state|determine|what is) (?:an|the) equation"
    )
    wants_factors = _Asks(
        r"(?:^|[.?!:,]\s*|\bto |please |completely )factor(?:ize|ise)?\b|factored form|factori[sz]ation of|factor completely"
    )
    wants_expansion = _Asks(r"(?:^|[.?!:,]\s*|\bto |please |and )(?:fully )?expand\b|expanded form")
    _names_degrees = _Asks(r"\bdegrees?\b")
    _names_list = _Asks(r"separated by|comma|\blist\b")
    _asks_for_values = _Asks(
        r"\b(?:all|both|these|those|the|find|which|what|possible|distinct|real|complex|integer|"
        r"positive|two|three|four|five|of)\s+(?:[a-z-]+\s+){0,3}?(?:values|solutions|roots|zeros|zeroes|numbers|integers|"
        r"answers|lengths|sides|dimensions|factors|divisors|primes|elements|intercepts|points|coordinates|pairs|choices)\b"
        r"|solve for (?:all|both)|multiple answers|more than one",
        unless=r"how many|how much|number of|sum of|product of|value of|difference (?:between|of)|largest|smallest|greatest|"
        r"least|total|average|\bmean\b|probability|\barea\b|perimeter|volume",
    )
    _morning = _Asks(_MORNING, unless=_AFTERNOON)
    _afternoon = _Asks(_AFTERNOON, unless=_MORNING)

    @property
    def wants_list(self) -> bool:
        """Several values are asked for, so that a comma separates."""
        return self._names_list or self._asks_for_values

    @property
    def wants_degrees(self) -> bool:
        return self._names_degrees and not self.wants_radians

    @property
    def base(self) -> int | None:
        """The base in which the answer is to be given: the one that is asked for, or the last one named."""
        numerals = [next(filter(None, groups)) for groups in _BASE.findall(self.text)]
        requested = re.findall(r"(?:in|to|into) base[\s$_{-]*(\d+|[a-z]+)", self.text)
        return base_number((requested or numerals or [""])[-1])

    @property
    def period(self) -> str:
        """`am` or `pm` where the problem settles it."""
        return "am" if self._morning else "pm" if self._afternoon else ""

    @property
    def unit(self) -> Unit | None:
        """The unit in which the answer is to be given, if the problem names one."""
        return _last_unit(_UNIT, self.text)

    @property
    def counted_unit(self) -> Unit | None:
        """The unit of length, time, mass and so on of which the problem asks how many."""
        unit = _last_unit(_HOW_MANY, self.text)
        return None if unit == DEGREE else unit

    @property
    def figure_unit(self) -> Unit | None:
        """The unit of area or volume that the last sentence asks for."""
        unit = _last_unit(_UNIT, re.split(r"[.?!;:](?:\s|$)", self.text.rstrip(" .?!$"))[-1])
        return unit if unit and dict(unit.dimensions).get("m", 0) > 1 else None

    @property
    def temperature_scale(self) -> Unit | None:
        """Celsius or Fahrenheit: the one asked for, or the only one named."""
        requested = re.findall(r"(?:in|to|into|how many) (?:degrees )?(celsius|fahrenheit)", self.text)
        named = set(re.findall(r"celsius|fahrenheit", self.text))
        if requested:
            return UNITS[requested[-1]]
        return UNITS[named.pop()] if len(named) == 1 else None

    def repeats_formula(self, answer: str) -> bool:
        """Whether the answer only repeats the formula that the problem wants evaluated or in another form."""
        if not self:
            return False
        stated = unified_spelling(re.sub(r"\\?%", "percent", answer.lower()))
        posed = (next(filter(None, groups)) for groups in _POSED.findall(self.text))
        return any(unified_spelling(plain_text(formula).rstrip(".,;?=")) == stated for formula in posed)

    def mentions(self, text: str) -> bool:
        """Whether the problem contains a formula or word, regardless of spaces."""
        return bool(text) and re.sub(r"[\s{}$\\]", "", text.lower()) in re.sub(r"[\s{}$\\]", "", self.text)


def unified_spelling(formula: str) -> str:
    r"""One sign for products, and no braces around one character, so that `2^{9}` is `2^9`."""
    return re.sub(r"\{(\w)\}", r"\1", re.sub(r"\\times|\*", r"\\cdot", formula))


def _last_unit(pattern: re.Pattern[str], text: str) -> Unit | None:
    """The unit of the last match that names one."""
    units = [unit for phrase in pattern.findall(text) if (unit := _named_unit(phrase)) is not None]
    return units[-1] if units else None


def _named_unit(phrase: str) -> Unit | None:
    """The unit of `square feet`, `miles per hour`, `cm^2`. One letter alone is no unit in a sentence."""
    exponent = 2 if phrase.startswith("square ") else 3 if phrase.startswith("cubic ") else 1
    phrase = re.sub(r"^(?:square|cubic) ", "", phrase)
    if match := re.search(r"\^\{?([23])\}?$", phrase):
        exponent, phrase = int(match[1]), phrase[: match.start()]
    above, _, below = phrase.partition(" per ")
    if len(above) < 2 or above not in UNITS or above in ("in", "a", "second", "unit", "units"):
        return None
    unit = power(UNITS[above], exponent)
    if below:
        if below not in UNITS:
            return None
        unit = multiply(unit, power(UNITS[below], -1))
    return unit
