"""Known units and how they convert. Conversions are exact."""

from fractions import Fraction

from answer_grader.answers.types import Unit


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
