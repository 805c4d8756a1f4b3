r"""Units: how they convert, and how they are written after a number.

Conversions are exact. Written: `\text{cm}^2`, `^\circ`, `\%`, `square feet`, `miles per hour`, `apples`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from answer_grader.answers.types import Unit
from answer_grader.answers.words import SCALES, is_negation, leading_number, ordinal_word
from answer_grader.expressions.tokens import Token, TokenKind, closing_index


def _unit(dimensions: str, factor: str | int = 1) -> Unit:
    """`_unit("m^2", "1/100")`"""
    parsed = []
    for part in dimensions.split():
        base, _, exponent = part.partition("^")
        parsed.append((base, int(exponent or 1)))
    return Unit(tuple(sorted(parsed)), Fraction(factor))


PERCENT = _unit("percent", "1/100")
DEGREE = _unit("degree")
RADIAN = _unit("radian")

_DEFINITIONS: dict[str, Unit] = {
    "percent percents percentage pct %": PERCENT,
    "permille ‰": _unit("percent", "1/1000"),
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
    "l L liter liters litre litres": _unit("m^3", "1/1000"),
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
    "N newton newtons": _unit("kg m s^-2"),
    "J joule joules": _unit("kg m^2 s^-2"),
    "kj kilojoule kilojoules": _unit("kg m^2 s^-2", 1000),
    "W watt watts": _unit("kg m^2 s^-3"),
    "kw kilowatt kilowatts": _unit("kg m^2 s^-3", 1000),
    "hz hertz": _unit("s^-1"),
    "khz kilohertz": _unit("s^-1", 1000),
    "mhz megahertz": _unit("s^-1", 1000000),
    "pa pascal pascals": _unit("kg m^-1 s^-2"),
    "V volt volts": _unit("volt"),
    "A amp amps ampere amperes": _unit("ampere"),
    "ohm ohms \\Omega": _unit("ohm"),
    "ev": _unit("electronvolt"),
    "mol mole moles": _unit("mole"),
    "K kelvin kelvins": _unit("kelvin"),
    "C celsius": _unit("celsius"),
    "F fahrenheit": _unit("fahrenheit"),
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

MULTIPLIERS = {"dozen": 12, "hundred": 100} | SCALES


def find_unit(word: str) -> Unit | None:
    """The unit of a word or symbol. Single letters are taken as physics writes them: `m` is a metre, `M` is nothing."""
    if word == "Mg":
        return None  # in small letters it is a milligram
    return UNITS.get(word) or (UNITS.get(word.lower()) if len(word) > 1 else None)


def is_percentage(unit: Unit | None) -> bool:
    """Whether it is percent or per mille."""
    return unit is not None and unit.dimensions == PERCENT.dimensions


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
    "approx roughly guess uncertain ish "
    "negative point root pi infinity lakh crore mil bn"
)


def _is_number_word(word: str) -> bool:
    """`five`, `tenths`, `half`: beside a number they change it."""
    part = word.rpartition("-")[2].removesuffix("s")
    return part in ("half", "halve", "hundredth", "thousandth", "millionth", "trillionth") or (
        (word.endswith("s") and ordinal_word(part) is not None) or leading_number([word]) is not None
    )


_POWERS_BEFORE = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}
_POWERS_AFTER = {"squared": 2, "cubed": 3}
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
    return _UnitPhraseParser(tokens).read()


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
            self.position += 1
            accepts = self._add_fraction if token.is_command("frac") else self._accept_connective
            if not (accepts(token) or self._add_unit(token)):
                return None
        if self.inverse or self.exponent_before != 1:
            return None
        return UnitPhrase(self.unit, self.multiplier)

    def _accept(self, accepts: Callable[[Token], bool]) -> bool:
        """Advances past the next token if it is as expected."""
        accepted = self.position < len(self.tokens) and accepts(self.tokens[self.position])
        self.position += accepted
        return accepted

    def _accept_connective(self, token: Token) -> bool:
        """Whether it is a token beside units: an operator, `square`, `million`, a filler, punctuation."""
        word = token.text.lower() if token.is_wordlike else ""
        if token.is_sign("/") or word == "per":
            self.inverse = True
        elif token.is_command("cdot", "times") or token.is_sign("*", "-"):
            return self.unit is not None
        elif word in _POWERS_BEFORE:
            self.exponent_before = _POWERS_BEFORE[word]
        elif word.removesuffix("s") in MULTIPLIERS and self.unit is None:
            self.multiplier *= MULTIPLIERS[word.removesuffix("s")]
        else:
            return token.is_sign(".", "(", ")") or self._is_filler(token)
        return True

    def _is_filler(self, token: Token) -> bool:
        word = token.text.lower()
        # As the first unit, and without a word after it, `in` is the inch.
        is_inch = (
            word == "in" and self.unit is None and not any(each.is_wordlike for each in self.tokens[self.position :])
        )
        return token.kind is TokenKind.WORD and word in _FILLERS and not is_inch

    def _add_fraction(self, _: Token) -> bool:
        r"""`\frac{\text{miles}}{\text{hour}}`"""
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

    def _add_unit(self, token: Token) -> bool:
        """Multiplies by the unit of a symbol or noun, with the exponents and the division around it."""
        unit = self._unit_of(token)
        if unit is None:
            return False
        exponent = self.exponent_before * self._exponent_after()
        self._multiply(power(unit, -exponent if self.inverse else exponent))
        self.inverse, self.exponent_before = False, 1
        return True

    def _unit_of(self, token: Token) -> Unit | None:
        if token.is_sign("%", "‰"):
            return UNITS[token.text]
        if token.is_sign("'"):
            return UNITS["inch" if self._accept(lambda follower: follower.is_sign("'")) else "foot"]
        if token.is_sign("^") and self._accept(lambda follower: follower.is_command("circ")):
            return self._temperature() or DEGREE
        if token.kind is TokenKind.COMMAND and token.text in CURRENCY_COMMANDS:
            return UNITS[CURRENCY_COMMANDS[token.text]]
        if not token.is_wordlike:
            return None
        named = find_unit(token.text)
        if named is not None:
            return self._temperature() or named if named == DEGREE else named
        word = token.text.lower()
        if word in _NO_UNIT or _is_number_word(word) or is_negation(word):
            return None
        return None if len(word) == 1 and token.kind is TokenKind.LETTERS else Unit(noun=singular(word))

    def _temperature(self) -> Unit | None:
        scales = (UNITS["celsius"], UNITS["fahrenheit"])
        named = self._accept(lambda token: token.is_wordlike and find_unit(token.text) in scales)
        return find_unit(self.tokens[self.position - 1].text) if named else None

    def _exponent_after(self) -> int:
        if self._accept(lambda token: token.text.lower() in _POWERS_AFTER):
            return _POWERS_AFTER[self.tokens[self.position - 1].text.lower()]
        start = self.position
        if self._accept(lambda token: token.is_sign("^")):
            braced = self._accept(lambda token: token.is_sign("{"))
            negative = self._accept(lambda token: token.is_sign("-"))
            if self._accept(lambda token: token.value is not None and token.value.denominator == 1):
                number = self.tokens[self.position - 1].value
                assert number is not None
                self.position += braced
                return -int(number) if negative else int(number)
        self.position = start
        return 1


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
