r"""Units: how they convert, and how they are written after a number.

Conversions are exact. Written: `\text{cm}^2`, `^\circ`, `\%`, `square feet`, `miles per hour`, `apples`.
"""

from dataclasses import dataclass
from fractions import Fraction

from answer_grader.answers.types import Unit
from answer_grader.answers.words import is_negation, leading_number, ordinal_word
from answer_grader.expressions.tokens import Token, TokenKind, closing_index


def _unit(dimensions: str, factor: str | int = 1) -> Unit:
    """`_unit("m^2", "1/100")`"""
    parsed = []
    for part in dimensions.split():
        base, _, exponent = part.partition("^")
        parsed.append((base, int(exponent or 1)))
    return Unit(tuple(sorted(parsed)), Fraction(factor))


PERCENT = _unit("percent")
DEGREE = _unit("degree")
RADIAN = _unit("radian")

_DEFINITIONS: dict[str, Unit] = {
    "percent percents percentage pct %": PERCENT,
    "degree degrees deg": DEGREE,
    "radian radians rad rads": RADIAN,
    # length
    "m meter meters metre metres": _unit("m"),
    "cm centimeter centimeters centimetre centimetres": _unit("m", "1/100"),
    "mm millimeter millimeters millimetre millimetres": _unit("m", "1/1000"),
    "km kilometer kilometers kilometre kilometres": _unit("m", 1000),
    "nm nanometer nanometers": _unit("m", "1/1000000000"),
    "in inch inches": _unit("m", "0.0254"),
    "ft foot feet": _unit("m", "0.3048"),
    "yd yds yard yards": _unit("m", "0.9144"),
    "mi mile miles": _unit("m", "1609.344"),
    # area and volume
    "hectare hectares ha": _unit("m^2", 10000),
    "acre acres": _unit("m^2", "4046.8564224"),
    "l liter liters litre litres": _unit("m^3", "1/1000"),
    "ml milliliter milliliters millilitre millilitres cc": _unit("m^3", "1/1000000"),
    "gallon gallons gal": _unit("m^3", "0.003785411784"),
    "quart quarts qt": _unit("m^3", "0.000946352946"),
    "pint pints pt": _unit("m^3", "0.000473176473"),
    "cup cups": _unit("m^3", "0.0002365882365"),
    # mass
    "g gram grams": _unit("kg", "1/1000"),
    "kg kilogram kilograms kilo kilos": _unit("kg"),
    "mg milligram milligrams": _unit("kg", "1/1000000"),
    "ton tons": _unit("ton"),
    "tonne tonnes": _unit("kg", 1000),
    "lb lbs pound pounds": _unit("kg", "0.45359237"),
    "oz ounce ounces": _unit("kg", "0.028349523125"),
    # time
    "s sec secs second seconds": _unit("s"),
    "ms millisecond milliseconds": _unit("s", "1/1000"),
    "min mins minute minutes": _unit("s", 60),
    "h hr hrs hour hours": _unit("s", 3600),
    "day days": _unit("s", 86400),
    "week weeks": _unit("s", 604800),
    "month months": _unit("month"),
    "year years yr yrs": _unit("month", 12),
    "decade decades": _unit("month", 120),
    "century centuries": _unit("month", 1200),
    # compound
    "mph": _unit("m s^-1", "0.44704"),
    "kph kmh": _unit("m s^-1", "5/18"),
    "n newton newtons": _unit("kg m s^-2"),
    "j joule joules": _unit("kg m^2 s^-2"),
    "kj kilojoule kilojoules": _unit("kg m^2 s^-2", 1000),
    "w watt watts": _unit("kg m^2 s^-3"),
    "kw kilowatt kilowatts": _unit("kg m^2 s^-3", 1000),
    "hz hertz": _unit("s^-1"),
    "khz kilohertz": _unit("s^-1", 1000),
    "mhz megahertz": _unit("s^-1", 1000000),
    "pa pascal pascals": _unit("kg m^-1 s^-2"),
    "v volt volts": _unit("volt"),
    "a amp amps ampere amperes": _unit("ampere"),
    "ohm ohms \\Omega": _unit("ohm"),
    "ev": _unit("electronvolt"),
    "mol mole moles": _unit("mole"),
    "k kelvin kelvins": _unit("kelvin"),
    "celsius": _unit("celsius"),
    "fahrenheit": _unit("fahrenheit"),
    "bit bits": _unit("bit"),
    "byte bytes": _unit("bit", 8),
    # money
    "dollar dollars usd buck bucks": _unit("dollar"),
    "cent cents": _unit("dollar", "1/100"),
    "nickel nickels": Unit(noun="nickel"),
    "euro euros eur": _unit("euro"),
    "gbp sterling": _unit("sterling"),
    "penny pennies": Unit(noun="penny"),
    "yen jpy": _unit("yen"),
    "rupee rupees inr": _unit("rupee"),
    "yuan rmb": _unit("yuan"),
    # what figures are measured in
    "unit units": _unit("unit"),
}

UNITS: dict[str, Unit] = {name: unit for names, unit in _DEFINITIONS.items() for name in names.split()}

CURRENCY_COMMANDS = {
    "$": "dollar",
    "euro": "euro",
    "pounds": "sterling",
    "cents": "cent",
    "yen": "yen",
    "rupee": "rupee",
}

MULTIPLIERS = {
    "dozen": 12,
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
    "dozens": 12,
    "hundreds": 100,
    "thousands": 1000,
    "millions": 10**6,
    "billions": 10**9,
}

_CASE_MATTERS = {
    "M": None,
    "Mg": None,
    "K": UNITS["k"],
    "N": UNITS["n"],
    "J": UNITS["j"],
    "W": UNITS["w"],
    "L": UNITS["l"],
}
_CASE_MATTERS |= {"V": UNITS["v"], "A": UNITS["a"], "C": UNITS["celsius"], "F": UNITS["fahrenheit"]}
_SMALL_ONLY = {"n", "j", "w", "v", "a", "k"}


def find_unit(word: str) -> Unit | None:
    """The unit of a word or symbol. Single letters are taken as physics writes them: `m` is a metre, `M` is nothing."""
    if word in _CASE_MATTERS:
        return _CASE_MATTERS[word]
    if word in _SMALL_ONLY:
        return None
    return UNITS.get(word) or (UNITS.get(word.lower()) if len(word) > 1 else None)


def multiply(left: Unit, right: Unit) -> Unit:
    exponents = dict(left.dimensions)
    for base, exponent in right.dimensions:
        exponents[base] = exponents.get(base, 0) + exponent
    dimensions = tuple(sorted((base, exponent) for base, exponent in exponents.items() if exponent))
    return Unit(dimensions, left.factor * right.factor, " ".join(filter(None, (left.noun, right.noun))))


def power(unit: Unit, exponent: int) -> Unit:
    dimensions = tuple((base, each * exponent) for base, each in unit.dimensions)
    return Unit(dimensions, unit.factor**exponent, unit.noun)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILLERS = _words("of the a an in total exactly each only")
_NO_UNIT = _words(
    "or and to more less least most at than over under above below between from through until if when where for "
    "with plus minus times divided squared cubed factorial is are was equals am pm base mod either "
    "but maybe possibly probably presumably perhaps likely unless left right true unlikely unknown about approximately "
    "approx roughly guess uncertain "
    "negative point root pi infinity lakh crore mil bn"
)


def _is_number_word(word: str) -> bool:
    """`five`, `tenths`, `half`: beside a number they change it."""
    part = word.rpartition("-")[2].removesuffix("s")
    return part in ("half", "halve", "hundredth", "thousandth", "millionth", "trillionth") or (
        (word.endswith("s") and ordinal_word(part) is not None) or leading_number([word]) is not None
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
        unit = self._unit_of(token)
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

    def _unit_of(self, token: Token) -> Unit | None:
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
            or _is_number_word(token.text.lower())
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
    r"""7 for `\pmod{7}`, `(mod 7)`; `17 \bmod 7` is an operation, which is not read."""
    meaningful = [token for token in tokens if not token.is_sign("(", ")", "{", "}")]
    if len(meaningful) != 2 or meaningful[1].value is None:
        return None
    if meaningful[0].is_command("pmod") or (meaningful[0].text.lower() == "mod" and tokens[0].is_sign("(")):
        return meaningful[1].value
    return None
