r"""Functions and their arguments: `\sin^2 x`, `\log_2 (8)`, `\arctan \frac{1}{2}`."""

from fractions import Fraction

from stair.grading.expressions.cursor import NotAnExpression
from stair.grading.expressions.grammar import Grammar
from stair.grading.expressions.nodes import Call, Negative, Node, Number, Power, Root, times
from stair.grading.expressions.tokens import Kind, Token
from stair.grading.expressions.words import FUNCTIONS, SYNONYMS

_ROOTS = {"sqrt": 2, "cbrt": 3}
_MINUS_ONE = Negative(Number(Fraction(1)))


def read_call(parser: Grammar, function: str) -> Node:
    """The call of a function whose name has been read: its base, its power, its arguments."""
    function = SYNONYMS.get(function, function)
    base: Node | None = None
    power: Node | None = None
    while True:
        if base is None and parser.take_sign("_"):
            base = parser.argument(single_digit=_is_run_together(parser))
        elif power is None and parser.next_is_sign("^"):
            parser.position += 1
            power = parser.exponent()
        else:
            break
    arguments = _arguments(parser)
    if power == _MINUS_ONE and "arc" + function in FUNCTIONS:
        return Call("arc" + function, arguments)
    if function in _ROOTS:
        result: Node = Root(arguments[0], Number(Fraction(_ROOTS[function])))
    elif base is None:
        result = Call(function, arguments)
    elif function == "log":
        result = Call("log", (arguments[0], base))
    else:
        raise NotAnExpression(f"{function} takes no base")
    return result if power is None else Power(result, power)


def _arguments(parser: Grammar) -> tuple[Node, ...]:
    """In brackets, or the product that follows: up to an operator or another function."""
    if parser.next_is_sign("(", "[", "{"):
        return parser.bracketed(parser.advance().text)
    node = Negative(parser.power()) if parser.take_sign("-") else parser.power()
    while (token := parser.peek()) and parser.starts_factor(after=node) and not _is_function(token):
        node = times(node, parser.power())
    return (node,)


def _is_run_together(parser: Grammar) -> bool:
    r"""Whether digits without braces are a base of one digit and the argument, as TeX sets `\log_35`.

    They are one base where the argument follows after them: `\log_10 100`, `\log_12(x)`.
    """
    following = parser.tokens[parser.position + 1 : parser.position + 2]
    if not following or following[0].is_sign("^"):
        return True
    if following[0].is_sign("(", "{", "["):
        return False
    base = parser.tokens[parser.position]
    goes_on = following[0].kind is not Kind.SIGN and (following[0].spaced or base.text == "10")
    return not goes_on


def _is_function(token: Token) -> bool:
    return token.kind is not Kind.SIGN and token.text in FUNCTIONS
