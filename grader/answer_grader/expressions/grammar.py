r"""The grammar of expressions, and its parser by recursive descent. Each production is a method of its name.

    expression  = term { ("+" | "-" | \pm | \mp) term } [ \over expression ]
    term        = signed { ("*" | \cdot | \times | "/" | \div) signed | power }
    signed      = { "+" | "-" | \pm | \mp } power { power }
    power       = atom { postfix } [ "^" exponent { postfix } ]
    postfix     = "!" | "!!" | "^" \circ
    exponent    = [ "+" | "-" ] argument
    argument    = group | DIGITS | atom
    atom        = number | constant | variable | call | group | bars | rounding | fraction | root | binomial
                | matrix | series
    group       = "(" expression ")" | "[" expression "]" | "{" expression "}"
    number      = NUMBER [ proper_fraction ]
    variable    = NAME { "'" } [ "_" subscript ] | ACCENT subscript
    call        = FUNCTION { "_" argument | "^" exponent } arguments
                | "f" { "'" } "(" expression { "," expression } ")"
    arguments   = bracketed | [ "-" ] power { power }
    bracketed   = "(" expression { "," expression } ")", and the same in "[" "]" and "{" "}"
    bars        = "|" expression "|"
    rounding    = \lfloor expression \rfloor | \lceil expression \rceil
    fraction    = \frac argument argument
    root        = \sqrt [ "[" expression "]" ] argument
    binomial    = \binom argument argument
    matrix      = \begin "{" NAME "}" row { \\ row } \end "{" NAME "}"
    row         = expression { "&" expression }
    series      = (\sum | \prod) { "_" "{" LETTER "=" expression "}" | "^" exponent } term

Names in capitals are tokens (`tokens`, `vocabulary`). A run of letters such as `xy` or `sinx` is one token, which the
parser splits. An expression ends at the first token that cannot continue it (a unit, a word): `Parser.rest` begins there.
"""

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from answer_grader.bounds import MAX_NESTING, TooComplex
from answer_grader.expressions.nodes import (
    Call,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Quotient,
    Series,
    Sum,
    Symbol,
    children,
    replaced,
    root,
    times,
)
from answer_grader.expressions.tokens import (
    CONSTANT_LETTERS,
    CONSTANTS,
    FUNCTIONS,
    GREEK,
    SYNONYMS,
    UNITS_OF_TWO_OR_THREE_LETTERS,
    Token,
    TokenKind,
    closing_index,
    is_mathematics,
    is_product,
    leading_function,
)

_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_ACCENTS = ("vec", "hat", "overline", "bar", "mathbb", "overrightarrow")
_SERIES = ("sum", "prod")
_ROUNDINGS = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
_ROOTS = {"sqrt": 2, "cbrt": 3}
_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "psmallmatrix", "bsmallmatrix", "array")
_DETERMINANT = "vmatrix"
_ATOM_COMMANDS = frozenset(
    ("frac", "sqrt", "binom", "begin", "vec", "hat", "overline", "bar", *_SERIES, *_ROUNDINGS, *CONSTANTS)
)
_MINUS_ONE = Negative(Number(Fraction(1)))
_SIGNED: dict[str, Callable[[Node], Node]] = {
    "+": lambda node: node,
    "-": Negative,
    "pm": PlusMinus,
    "mp": lambda node: PlusMinus(node, inverted=True),
}
_Parsed = TypeVar("_Parsed")


class NotAnExpression(Exception):
    """The tokens at this position are not an expression."""


class Parser:
    """Parses one expression from the beginning of `tokens`.

    Productions raise NotAnExpression where the tokens do not fit, and TooComplex beyond the bounds.
    """

    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = list(tokens)
        self._position = 0
        self._depth = 0
        self._operations = 0
        self._inside_bars = False

    @property
    def rest(self) -> list[Token]:
        """The tokens after those parsed so far."""
        return self._tokens[self._position :]

    # Sums and products

    def expression(self) -> Node:
        r"""Terms joined by `+`, `-`, `\pm` and `\mp`, perhaps over others (`1 \over 4`)."""
        terms = [self.term()]
        while sign := self._plus_or_minus():
            terms.append(_SIGNED[sign](self.term()))
        total = terms[0] if len(terms) == 1 else Sum(tuple(terms))
        if self._accept_command("over"):
            self._count_operation()
            return Quotient(total, self.expression())
        return total

    def term(self) -> Node:
        """A product, up to a plus or minus sign between terms."""
        node = self.signed()
        while True:
            if self._accept_sign("*") or self._accept_command("cdot", "times"):
                node = times(node, self.signed())
            elif self._accept_sign("/") or self._accept_command("div"):
                self._count_operation()
                node = Quotient(node, self.signed())
            elif self._starts_factor(after=node):
                may_be_comment = self._next_is_sign("(", "[") or self._next_is_command("frac")  # `12 (units)`
                factor = self._attempt(self.power) if may_be_comment else self.power()
                if factor is None:
                    return node
                node = times(node, factor)
            else:
                return node

    def _starts_factor(self, after: Node) -> bool:
        """Whether the next token begins another factor of a product whose last factor is `after`."""
        token = self._peek()
        if token is None:
            return False
        if token.kind is TokenKind.NUMBER:
            return not isinstance(after, Number)
        if token.is_wordlike and isinstance(after, Number) and token.text in UNITS_OF_TWO_OR_THREE_LETTERS:
            return False
        if token.kind is TokenKind.LETTERS:
            return is_mathematics(token.text)
        if token.kind is TokenKind.WORD:
            return token.text in FUNCTIONS or token.text in CONSTANT_LETTERS
        if token.kind is TokenKind.COMMAND:
            return token.text in _ATOM_COMMANDS or token.text in FUNCTIONS or token.text in GREEK
        return token.text in ("(", "[", "{") or (token.text == "|" and not self._inside_bars)

    def signed(self) -> Node:
        """A power after signs. With a sign, the whole product that follows: `-2x` is `-(2x)`."""
        signs: list[str] = []
        while sign := self._plus_or_minus():
            signs.extend([sign] if sign != "+" else [])
            if len(signs) > MAX_NESTING:
                raise TooComplex("too many signs in a row")
        node = self.power()
        if signs:
            while self._starts_factor(after=node):
                node = times(node, self.power())
        for sign in reversed(signs):
            node = _SIGNED[sign](node)
        return node

    def _plus_or_minus(self) -> str:
        """The sign at this position, which is read; empty for anything else."""
        accepted = self._next_is_sign("+", "-") or self._next_is_command("pm", "mp")
        return self._advance().text if accepted else ""

    # Powers

    def power(self) -> Node:
        """An atom with its exponent, factorials and degree signs."""
        node = self.postfix(self.atom())
        if self._next_is_sign("^") and not self._next_is_temperature():
            self._position += 1
            node = self.postfix(Power(node, self.exponent()))
        return node

    def exponent(self) -> Node:
        """The argument after `^`, perhaps with a sign and without braces."""
        if self._accept_sign("-"):
            return Negative(self.argument())
        self._accept_sign("+")
        return self.argument()

    def postfix(self, node: Node) -> Node:
        """The node with the factorials and degree signs after it."""
        while True:
            if self._next_is_sign("!"):
                self._position += 1
                self._count_operation()
                double = self._accept_sign("!")
                node = Call("double_factorial" if double else "factorial", (node,))
            elif self._next_is_sign("^") and self._next_is_degree():
                self._position += 2
                node = times(node, Constant("degree"))
            else:
                return node

    def _next_is_degree(self) -> bool:
        circle = self._peek(1)
        return circle is not None and circle.is_command("circ") and not self._next_is_temperature()

    def _next_is_temperature(self) -> bool:
        r"""`^\circ C`: a unit of its own."""
        circle, scale = self._peek(1), self._peek(2)
        if circle is None or scale is None:
            return False
        return circle.is_command("circ") and scale.is_wordlike and scale.text in ("C", "F", "K")

    def argument(self, *, single_digit: bool = False) -> Node:
        r"""The argument of a command or of `^`: a group in braces, or one symbol.

        `single_digit` reads only the first digit of a number, as TeX does in `\frac12`.
        """
        token = self._peek()
        if token is None:
            raise NotAnExpression("an argument is missing")
        if token.is_sign("{"):
            return self.group("{")
        if token.kind is TokenKind.NUMBER and single_digit and len(token.text) > 1 and token.text.isdigit():
            return Number(Fraction(int(self._first_characters(1))))
        if token.kind is TokenKind.NUMBER:
            self._position += 1
            assert token.value is not None
            return Number(token.value)
        return self.atom()

    # Atoms

    def atom(self) -> Node:
        """A value without operators around it."""
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise TooComplex("an expression nested too deeply")
        try:
            token = self._peek()
            if token is None:
                raise NotAnExpression("an expression ends where a value is expected")
            if token.kind is TokenKind.NUMBER:
                return self.number()
            if token.is_wordlike:
                return self._name(token)
            if token.kind is TokenKind.COMMAND:
                return self._command()
            if token.text in _BRACKETS:
                return self.group(token.text)
            if token.text == "|":
                return self.bars()
            raise NotAnExpression(f"no value can start with {token.text!r}")
        finally:
            self._depth -= 1

    def number(self) -> Node:
        """A number, or a mixed number: an integer and the proper fraction after it."""
        token = self._advance()
        assert token.value is not None
        part = self._attempt(self.proper_fraction) if token.text.isdigit() else None
        return Number(token.value + (part or 0))

    def proper_fraction(self) -> Fraction:
        r"""The fraction of a mixed number, directly after its whole part: `\frac{1}{2}` or ` 1/2`."""
        above, slash, below = self._peek(), self._peek(1), self._peek(2)
        parts: tuple[Node, ...] = ()
        if self._accept_command("frac"):
            parts = (self.argument(single_digit=True), self.argument(single_digit=True))
        elif above and slash and below and above.spaced and slash.is_sign("/"):
            self._position += 3
            parts = tuple(Number(token.value or Fraction(0)) for token in (above, below))
        match parts:
            case (Number(over), Number(under)) if over.denominator == under.denominator == 1 and 0 < over < under:
                return over / under
        raise NotAnExpression("no proper fraction")

    def _name(self, token: Token) -> Node:
        """A function, constant or variable; of a run of variables (`xy`, `sinx`) the first."""
        name, in_text = token.text, token.kind is TokenKind.WORD
        if len(name) > 1 and name not in FUNCTIONS and (in_text or not (name in CONSTANTS or name in GREEK)):
            function = leading_function(name)
            if in_text or not (function or is_product(name)):
                raise NotAnExpression(f"{name!r} is a word")
            name = self._first_characters(len(function or name[0]))
        else:
            self._position += 1
        if name in FUNCTIONS:
            return self.call(name)
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        if name in CONSTANT_LETTERS and not self._next_is_sign("_", "'"):
            return Constant(CONSTANT_LETTERS[name])
        return self.variable(name)

    def _command(self) -> Node:
        name = self._advance().text
        if name == "frac":
            return Quotient(self.argument(single_digit=True), self.argument(single_digit=True))
        if name == "sqrt":
            index: Node = Number(Fraction(2))
            if self._accept_sign("["):
                index = self.expression()
                self._expect("]")
            return root(self.argument(), index)
        if name == "binom":
            return Call("binom", (self.argument(single_digit=True), self.argument(single_digit=True)))
        if name in _ROUNDINGS:
            closing, function = _ROUNDINGS[name]
            inner = self.expression()
            if not self._accept_command(closing):
                raise NotAnExpression(f"\\{name} is never closed")
            return Call(function, (inner,))
        if name == "begin":
            return self.matrix()
        if name in _SERIES:
            return self.series(name)
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        if name in FUNCTIONS:
            return self.call(name)
        if name in GREEK:
            return self.variable("\\" + name)
        if name in _ACCENTS:
            return self.variable(f"\\{name}({self.subscript()})")
        raise NotAnExpression(f"\\{name} is not a value")

    def variable(self, name: str) -> Node:
        """A variable with its primes and subscript, after its name; a call if the name begins with f before a bracket."""
        while self._accept_sign("'"):
            name += "'"
        if name[0] == "f" and self._accept_sign("("):
            return Call(name, self.bracketed("("))  # an unknown function
        if self._accept_sign("_"):
            name += "_" + self.subscript()
        return Symbol(name)

    def subscript(self) -> str:
        """The text of a group in braces, or one symbol."""
        token = self._peek()
        if token is None:
            raise NotAnExpression("a subscript is missing")
        if not token.is_sign("{"):
            if token.kind is TokenKind.LETTERS:
                return self._first_characters(1)
            self._position += 1
            return token.text
        start = self._position + 1
        self._skip_braces()
        return "".join(each.text for each in self._tokens[start : self._position - 1])

    # Brackets

    def group(self, opening: str) -> Node:
        """One expression in brackets."""
        self._position += 1
        inner = self.bracketed(opening)
        if len(inner) != 1:
            raise NotAnExpression("several values in one bracket")
        return inner[0]

    def bracketed(self, opening: str) -> tuple[Node, ...]:
        """Expressions separated by commas, and the bracket that closes `opening`, which has been read."""
        outer, self._inside_bars = self._inside_bars, False
        values = [self.expression()]
        while self._accept_sign(","):
            values.append(self.expression())
        self._inside_bars = outer
        self._expect(_BRACKETS[opening])
        return tuple(values)

    def bars(self) -> Node:
        """An absolute value; the determinant of a matrix."""
        self._position += 1
        outer, self._inside_bars = self._inside_bars, True
        inner = self.expression()
        self._inside_bars = outer
        self._expect("|")
        return Call("det" if isinstance(inner, Matrix) else "abs", (inner,))

    # Calls of functions

    def call(self, function: str) -> Node:
        r"""A call after its name, with base and power: `\sin^2 x`, `\log_2 (8)`, `\sin^{-1} x`."""
        function = SYNONYMS.get(function, function)
        base, power = self._scripts(lambda: self.argument(single_digit=self._base_is_one_digit()))
        arguments = self.arguments()
        if power == _MINUS_ONE and "arc" + function in FUNCTIONS:
            return Call("arc" + function, arguments)
        if function in _ROOTS:
            result: Node = root(arguments[0], Number(Fraction(_ROOTS[function])))
        elif base is None:
            result = Call(function, arguments)
        elif function == "log":
            result = Call("log", (arguments[0], base))
        else:
            raise NotAnExpression(f"{function} has no base")
        return result if power is None else Power(result, power)

    def arguments(self) -> tuple[Node, ...]:
        """Arguments in brackets, or the product that follows, up to an operator or another function."""
        if self._next_is_sign("(", "[", "{"):
            return self.bracketed(self._advance().text)
        node = Negative(self.power()) if self._accept_sign("-") else self.power()
        while (token := self._peek()) and self._starts_factor(after=node) and not _is_function(token):
            node = times(node, self.power())
        return (node,)

    def _base_is_one_digit(self) -> bool:
        r"""Whether digits without braces are a base of one digit and the argument, as TeX prints `\log_35`.

        All digits are the base where the argument is still to come: `\log_10 100`, `\log_12(x)`.
        """
        following = self._tokens[self._position + 1 : self._position + 2]
        if not following or following[0].is_sign("^"):
            return True
        if following[0].is_sign("(", "{", "["):
            return False
        base = self._tokens[self._position]
        argument_follows = following[0].kind is not TokenKind.SIGN and (following[0].spaced or base.text == "10")
        return not argument_follows

    # Matrices and series

    def matrix(self) -> Node:
        r"""The matrix or determinant after `\begin`. Raises NotAnExpression for other environments."""
        name = self._environment_name()
        if name not in (*_MATRICES, _DETERMINANT):
            raise NotAnExpression(f"{name} is not a matrix")
        if name == "array" and self._next_is_sign("{"):
            self._skip_braces()
        rows: list[tuple[Node, ...]] = []
        row: list[Node] = []
        while not self._accept_command("end"):
            row.append(self.expression())
            if self._accept_sign("&"):
                continue
            rows.append(tuple(row))
            row = []
            following = self._peek()
            if not self._accept_command("\\") and not (following and following.is_command("end")):
                raise NotAnExpression("a matrix row does not end with \\\\")
            self._accept_command("hline")
        if self._environment_name() != name or len({len(each) for each in rows}) != 1:
            raise NotAnExpression("the rows of a matrix differ in length")
        matrix = Matrix(tuple(rows))
        return Call("det", (matrix,)) if name == _DETERMINANT else matrix

    def _environment_name(self) -> str:
        self._expect("{")
        name = self._advance().text
        self._expect("}")
        return name

    def series(self, function: str) -> Node:
        r"""A sum or product after its sign: `\sum_{k=1}^{n} k^2`, `\prod_{k=2}^{10} \frac{k-1}{k}`."""
        start, last = self._scripts(self._first_index)
        if start is None or last is None:
            raise NotAnExpression(f"\\{function} lacks a bound")
        index, first = start
        body = self.term()
        name = f"#{_series_depth(body)}"
        written: Node = Constant(CONSTANT_LETTERS[index]) if index in CONSTANT_LETTERS else Symbol(index)
        return Series(function, name, first, last, replaced(body, written, Symbol(name)))

    def _first_index(self) -> tuple[str, Node]:
        self._expect("{")
        index = self._advance().text
        self._expect("=")
        first = self.expression()
        self._expect("}")
        if len(index) != 1:
            raise NotAnExpression("an index of several letters")
        return index, first

    def _scripts(self, subscript: Callable[[], _Parsed]) -> tuple[_Parsed | None, Node | None]:
        """A subscript and an exponent, in any order."""
        below: _Parsed | None = None
        above: Node | None = None
        while True:
            if below is None and self._accept_sign("_"):
                below = subscript()
            elif above is None and self._accept_sign("^"):
                above = self.exponent()
            else:
                return below, above

    # Tokens

    def _peek(self, ahead: int = 0) -> Token | None:
        index = self._position + ahead
        return self._tokens[index] if index < len(self._tokens) else None

    def _advance(self) -> Token:
        token = self._peek()
        if token is None:
            raise NotAnExpression("the answer ends too early")
        self._position += 1
        return token

    def _next_is_sign(self, *signs: str) -> bool:
        token = self._peek()
        return token is not None and token.is_sign(*signs)

    def _accept_sign(self, *signs: str) -> bool:
        accepted = self._next_is_sign(*signs)
        self._position += accepted
        return accepted

    def _next_is_command(self, *names: str) -> bool:
        token = self._peek()
        return token is not None and token.is_command(*names)

    def _accept_command(self, *names: str) -> bool:
        accepted = self._next_is_command(*names)
        self._position += accepted
        return accepted

    def _first_characters(self, count: int) -> str:
        """The first characters of a token; the others are left as a token of their own."""
        token = self._advance()
        if rest := token.text[count:]:
            self._position -= 1
            value = None if token.value is None else Fraction(int(rest))
            self._tokens[self._position] = replace(token, text=rest, value=value, spaced=False)
        return token.text[:count]

    def _attempt(self, production: Callable[[], _Parsed]) -> _Parsed | None:
        """What a production parses; None, with nothing read, where its tokens do not fit."""
        state = self._position, list(self._tokens), self._inside_bars
        try:
            return production()
        except NotAnExpression:
            self._position, self._tokens, self._inside_bars = state
            return None

    def _expect(self, sign: str) -> None:
        if not self._accept_sign(sign):
            raise NotAnExpression(f"{sign!r} is missing")

    def _skip_braces(self) -> None:
        """Moves past the braces that open at this position, and what they contain."""
        end = closing_index(self.rest)
        if end is None:
            raise NotAnExpression("a brace is never closed")
        self._position += end + 1

    def _count_operation(self) -> None:
        """Bounds the operations that nest without brackets: `1/2/3/...`, `n!!!...`."""
        self._operations += 1
        if self._operations > MAX_NESTING:
            raise TooComplex("too many divisions or factorials")


def _is_function(token: Token) -> bool:
    return token.kind is not TokenKind.SIGN and token.text in FUNCTIONS


def _series_depth(node: Node) -> int:
    """How deep series are nested in an expression."""
    inside = max(map(_series_depth, children(node)), default=0)
    return inside + 1 if isinstance(node, Series) else inside
