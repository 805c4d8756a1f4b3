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

from dataclasses import replace
from fractions import Fraction

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
        while True:
            if self._accept_sign("+"):
                terms.append(self.term())
            elif self._accept_sign("-"):
                terms.append(Negative(self.term()))
            elif self._accept_command("pm"):
                terms.append(PlusMinus(self.term()))
            elif self._accept_command("mp"):
                terms.append(PlusMinus(self.term(), inverted=True))
            else:
                break
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
                factor = self._factor_or_comment()
                if factor is None:
                    return node
                node = times(node, factor)
            else:
                return node

    def _factor_or_comment(self) -> Node | None:
        """The factor at this position; None where the bracket contains no expression, as in `12 (units)`."""
        position, inside_bars = self._position, self._inside_bars
        tokens = list(self._tokens) if self._may_be_comment() else None
        try:
            return self.power()
        except NotAnExpression:
            if tokens is None:
                raise
            self._position, self._tokens, self._inside_bars = position, tokens, inside_bars
            return None

    def _may_be_comment(self) -> bool:
        token = self._peek()
        return token is not None and (token.is_sign("(", "[") or token.is_command("frac"))

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
        while True:
            if self._accept_sign("-"):
                signs.append("-")
            elif self._accept_command("pm"):
                signs.append("pm")
            elif self._accept_command("mp"):
                signs.append("mp")
            elif not self._accept_sign("+"):
                break
        if len(signs) > MAX_NESTING:
            raise TooComplex("too many signs in a row")
        node = self.power()
        if signs:
            while self._starts_factor(after=node):
                node = times(node, self.power())
        for sign in reversed(signs):
            node = Negative(node) if sign == "-" else PlusMinus(node, inverted=sign == "mp")
        return node

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
        index = self._position + 1
        return index < len(self._tokens) and self._tokens[index].is_command("circ") and not self._next_is_temperature()

    def _next_is_temperature(self) -> bool:
        r"""`^\circ C`: a unit of its own."""
        index = self._position + 1
        return (
            index + 1 < len(self._tokens)
            and self._tokens[index].is_command("circ")
            and self._tokens[index + 1].is_wordlike
            and self._tokens[index + 1].text in ("C", "F", "K")
        )

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
            rest = token.text[1:]
            self._tokens[self._position] = replace(token, text=rest, value=Fraction(int(rest)), spaced=False)
            return Number(Fraction(int(token.text[0])))
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
            return self._unguarded_atom()
        finally:
            self._depth -= 1

    def _unguarded_atom(self) -> Node:
        token = self._peek()
        if token is None:
            raise NotAnExpression("an expression ends where a value is expected")
        if token.kind is TokenKind.NUMBER:
            return self.number()
        if token.kind is TokenKind.LETTERS:
            return self._letters()
        if token.kind is TokenKind.WORD:
            return self._word()
        if token.kind is TokenKind.COMMAND:
            return self._command()
        if token.text in _BRACKETS:
            return self.group(token.text)
        if token.text == "|":
            return self.bars()
        raise NotAnExpression(f"no value can start with {token.text!r}")

    def number(self) -> Node:
        """A number, or a mixed number: an integer and the proper fraction after it."""
        token = self._advance()
        assert token.value is not None
        whole = Number(token.value)
        if not token.text.isdigit():
            return whole
        part = self.proper_fraction()
        return whole if part is None else Number(token.value + part)

    def proper_fraction(self) -> Fraction | None:
        r"""The fraction of a mixed number, directly after its whole part: `\frac{1}{2}` or ` 1/2`; None without one."""
        start, tokens = self._position, list(self._tokens)
        parts: tuple[Node, Node] | None = None
        try:
            if self._accept_command("frac"):
                parts = (self.argument(single_digit=True), self.argument(single_digit=True))
            elif len(tokens) >= start + 3 and tokens[start].spaced and tokens[start + 1].is_sign("/"):
                values = [tokens[start].value, tokens[start + 2].value]
                self._position += 3
                parts = (Number(values[0] or Fraction(0)), Number(values[1] or Fraction(0)))
        except NotAnExpression:
            parts = None
        if parts is not None and isinstance(parts[0], Number) and isinstance(parts[1], Number):
            above, below = parts[0].value, parts[1].value
            if above.denominator == below.denominator == 1 and 0 < above < below:
                return above / below
        self._position, self._tokens = start, tokens
        return None

    def _letters(self) -> Node:
        """A function, constant or variable; of a product of variables the first."""
        token = self._advance()
        letters = token.text
        if letters in FUNCTIONS:
            return self.call(letters)
        if letters in CONSTANTS:
            return Constant(CONSTANTS[letters])
        if letters in GREEK:
            return self.variable(letters)
        if len(letters) > 1:
            function = leading_function(letters)
            if function is None and not is_product(letters):
                raise NotAnExpression(f"{letters!r} is a word")
            first = function or letters[0]
            self._position -= 1
            self._tokens[self._position] = replace(token, text=letters[len(first) :], spaced=False)
            if function:
                return self.call(function)
            letters = first
            following = None
        else:
            following = self._peek()
        if letters in CONSTANT_LETTERS and not (following and following.is_sign("_", "'")):
            return Constant(CONSTANT_LETTERS[letters])
        return self.variable(letters)

    def _word(self) -> Node:
        token = self._advance()
        if token.text in FUNCTIONS:
            return self.call(token.text)
        if token.text in CONSTANT_LETTERS:
            return Constant(CONSTANT_LETTERS[token.text])
        if len(token.text) == 1:
            return self.variable(token.text)
        raise NotAnExpression(f"{token.text!r} is a word")

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
            if token.kind is TokenKind.LETTERS and len(token.text) > 1:
                self._tokens[self._position] = replace(token, text=token.text[1:], spaced=False)
                return token.text[0]
            self._position += 1
            return token.text
        start = self._position
        end = self._matching_brace()
        self._position = end + 1
        return "".join(each.text for each in self._tokens[start + 1 : end])

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
        base: Node | None = None
        power: Node | None = None
        while True:
            if base is None and self._accept_sign("_"):
                base = self.argument(single_digit=self._base_is_one_digit())
            elif power is None and self._accept_sign("^"):
                power = self.exponent()
            else:
                break
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
            self._position = self._matching_brace() + 1
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
        index: str | None = None
        first: Node | None = None
        last: Node | None = None
        while True:
            if first is None and self._accept_sign("_"):
                self._expect("{")
                index = self._advance().text
                self._expect("=")
                first = self.expression()
                self._expect("}")
            elif last is None and self._accept_sign("^"):
                last = self.exponent()
            else:
                break
        if index is None or first is None or last is None or len(index) != 1:
            raise NotAnExpression(f"\\{function} lacks a bound")
        body = self.term()
        name = f"#{_series_depth(body)}"
        written: Node = Constant(CONSTANT_LETTERS[index]) if index in CONSTANT_LETTERS else Symbol(index)
        return Series(function, name, first, last, replaced(body, written, Symbol(name)))

    # Tokens

    def _peek(self) -> Token | None:
        return self._tokens[self._position] if self._position < len(self._tokens) else None

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

    def _accept_command(self, *names: str) -> bool:
        token = self._peek()
        accepted = token is not None and token.is_command(*names)
        self._position += accepted
        return accepted

    def _expect(self, sign: str) -> None:
        if not self._accept_sign(sign):
            raise NotAnExpression(f"{sign!r} is missing")

    def _matching_brace(self) -> int:
        """The index of the brace that closes the one at this position."""
        depth = 0
        for index in range(self._position, len(self._tokens)):
            if self._tokens[index].is_sign("{"):
                depth += 1
            elif self._tokens[index].is_sign("}"):
                depth -= 1
                if depth == 0:
                    return index
        raise NotAnExpression("a brace is never closed")

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
