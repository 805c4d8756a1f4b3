"""Which runs of letters are functions, constants, or products of variables."""


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
