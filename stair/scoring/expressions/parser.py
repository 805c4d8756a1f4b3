r"""Expressions by recursive descent. The parser stops at what is no expression (a unit, a word); the caller goes on."""

from dataclasses import replace
from fractions import Fraction

from stair.scoring.bounds import MAX_NESTING, TooComplex
from stair.scoring.expressions.nodes import (
    Call,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Product,
    Quotient,
    Root,
    Sum,
    Symbol,
)
from stair.scoring.expressions.tokens import Kind, Token
from stair.scoring.expressions.words import (
    CONSTANT_LETTERS,
    CONSTANTS,
    FUNCTIONS,
    GREEK,
    SYNONYMS,
    UNITS_OF_TWO_OR_THREE_LETTERS,
    is_mathematics,
    is_product,
    leading_function,
)

_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_ROUNDINGS = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}
_MATRICES = ("matrix", "pmatrix", "bmatrix", "Bmatrix", "smallmatrix", "psmallmatrix", "bsmallmatrix", "array")


class NotAnExpression(Exception):
    """The tokens at this place are no expression."""


class Parser:
    """Reads one expression from `tokens`, beginning at `position`."""

    def __init__(self, tokens: list[Token], position: int = 0) -> None:
        self.tokens = list(tokens)
        self.position = position
        self.depth = 0
        self.operations = 0

    def expression(self) -> Node:
        r"""Terms joined by `+`, `-`, `\pm` and `\mp`."""
        terms = [self._term()]
        while True:
            if self._take_sign("+"):
                terms.append(self._term())
            elif self._take_sign("-"):
                terms.append(Negative(self._term()))
            elif self._take_command("pm"):
                terms.append(PlusMinus(self._term()))
            elif self._take_command("mp"):
                terms.append(PlusMinus(self._term(), inverted=True))
            else:
                return terms[0] if len(terms) == 1 else Sum(tuple(terms))

    # What stands between operators

    def _term(self) -> Node:
        node = self._signed()
        while True:
            if self._take_sign("*") or self._take_command("cdot", "times"):
                node = _times(node, self._signed())
            elif self._take_sign("/") or self._take_command("div"):
                self._count_operation()
                node = Quotient(node, self._signed())
            elif self._starts_factor(after=node):
                factor = self._factor_or_comment()
                if factor is None:
                    return node
                node = _times(node, factor)
            else:
                return node

    def _factor_or_comment(self) -> Node | None:
        """The factor that stands here; None where the bracket holds no expression, as in `12 (units)`."""
        position, tokens = self.position, list(self.tokens) if self._may_be_comment() else None
        try:
            return self._power()
        except NotAnExpression:
            if tokens is None:
                raise
            self.position, self.tokens = position, tokens
            return None

    def _may_be_comment(self) -> bool:
        return self._next_is_sign("(", "[") or (self._peek() or _NOTHING).is_command("frac")

    def _signed(self) -> Node:
        signs: list[str] = []
        while True:
            if self._take_sign("-"):
                signs.append("-")
            elif self._take_command("pm"):
                signs.append("pm")
            elif self._take_command("mp"):
                signs.append("mp")
            elif not self._take_sign("+"):
                break
        if len(signs) > MAX_NESTING:
            raise TooComplex("too many signs in a row")
        node = self._power()
        if signs:  # a sign applies to the whole product that follows: -2x is -(2x)
            while self._starts_factor(after=node):
                node = _times(node, self._power())
        for sign in reversed(signs):
            node = Negative(node) if sign == "-" else PlusMinus(node, inverted=sign == "mp")
        return node

    def _power(self) -> Node:
        node = self._postfix(self._atom())
        if self._next_is_sign("^") and not self._next_is_temperature():
            self.position += 1
            exponent = self._exponent()
            node = Power(node, exponent)
            node = self._postfix(node)
        return node

    def _exponent(self) -> Node:
        if self._take_sign("-"):
            return Negative(self._argument())
        self._take_sign("+")
        return self._argument()

    def _postfix(self, node: Node) -> Node:
        while True:
            if self._next_is_sign("!"):
                self.position += 1
                self._count_operation()
                double = self._take_sign("!")
                node = Call("double_factorial" if double else "factorial", (node,))
            elif self._next_is_sign("^") and self._next_is_degree():
                self.position += 2
                node = _times(node, Constant("degree"))
            else:
                return node

    def _count_operation(self) -> None:
        """Bounds the operations that nest without brackets: `1/2/3/...`, `n!!!...`."""
        self.operations += 1
        if self.operations > MAX_NESTING:
            raise TooComplex("too many divisions or factorials")

    def _starts_factor(self, after: Node) -> bool:
        token = self._peek()
        if token is None:
            return False
        if token.kind is Kind.NUMBER:
            return not isinstance(after, Number)
        if token.is_wordlike and isinstance(after, Number) and token.text in UNITS_OF_TWO_OR_THREE_LETTERS:
            return False
        if token.kind is Kind.LETTERS:
            return is_mathematics(token.text)
        if token.kind is Kind.WORD:
            return token.text in FUNCTIONS or token.text in CONSTANT_LETTERS
        if token.kind is Kind.COMMAND:
            return token.text in _STARTING_COMMANDS or token.text in FUNCTIONS or token.text in GREEK
        return token.text in ("(", "[", "{") or (token.text == "|" and not self._inside_bars)

    # Atoms

    _inside_bars = False

    def _atom(self) -> Node:
        self.depth += 1
        if self.depth > MAX_NESTING:
            raise TooComplex("an expression nested too deeply")
        try:
            return self._unguarded_atom()
        finally:
            self.depth -= 1

    def _unguarded_atom(self) -> Node:
        token = self._peek()
        if token is None:
            raise NotAnExpression("an expression ends where a value should stand")
        if token.kind is Kind.NUMBER:
            return self._number()
        if token.kind is Kind.LETTERS:
            return self._letters()
        if token.kind is Kind.WORD:
            return self._word()
        if token.kind is Kind.COMMAND:
            return self._command()
        if token.text in _BRACKETS:
            return self._group(token.text)
        if token.text == "|":
            return self._bars()
        raise NotAnExpression(f"no value can start with {token.text!r}")

    def _number(self) -> Node:
        token = self._advance()
        assert token.value is not None
        whole = Number(token.value)
        if not token.text.isdigit():
            return whole
        part = self._proper_fraction()
        return whole if part is None else Number(token.value + part)

    def _proper_fraction(self) -> Fraction | None:
        r"""The fraction of a mixed number, which stands directly after its whole part: `\frac{1}{2}` or ` 1/2`."""
        start, tokens = self.position, list(self.tokens)
        parts: tuple[Node, Node] | None = None
        try:
            if self._take_command("frac"):
                parts = (self._argument(single_digit=True), self._argument(single_digit=True))
            elif len(self.tokens) >= start + 3 and self.tokens[start].spaced and self.tokens[start + 1].is_sign("/"):
                values = [self.tokens[start].value, self.tokens[start + 2].value]
                self.position += 3
                parts = (Number(values[0] or Fraction(0)), Number(values[1] or Fraction(0)))
        except NotAnExpression:
            parts = None
        if parts is not None and isinstance(parts[0], Number) and isinstance(parts[1], Number):
            above, below = parts[0].value, parts[1].value
            if above.denominator == below.denominator == 1 and 0 < above < below:
                return above / below
        self.position, self.tokens = start, tokens
        return None

    def _letters(self) -> Node:
        token = self._advance()
        letters = token.text
        if letters in FUNCTIONS:
            return self._call(letters)
        if letters in CONSTANTS:
            return Constant(CONSTANTS[letters])
        if letters in GREEK:
            return self._named(letters)
        if len(letters) > 1:
            function = leading_function(letters)
            if function is None and not is_product(letters):
                raise NotAnExpression(f"{letters!r} is a word")
            taken = function or letters[0]
            self.position -= 1
            self.tokens[self.position] = replace(token, text=letters[len(taken) :], spaced=False)
            if function:
                return self._call(function)
            letters = taken
            following = None
        else:
            following = self._peek()
        if letters in CONSTANT_LETTERS and not (following and following.is_sign("_", "'")):
            return Constant(CONSTANT_LETTERS[letters])
        return self._named(letters)

    def _word(self) -> Node:
        token = self._advance()
        if token.text in FUNCTIONS:
            return self._call(token.text)
        if token.text in CONSTANT_LETTERS:
            return Constant(CONSTANT_LETTERS[token.text])
        if len(token.text) == 1:
            return self._named(token.text)
        raise NotAnExpression(f"{token.text!r} is a word")

    def _named(self, name: str) -> Node:
        """A variable with its primes and subscript."""
        while self._take_sign("'"):
            name += "'"
        if self._take_sign("_"):
            name += "_" + self._subscript()
        return Symbol(name)

    def _subscript(self) -> str:
        token = self._peek()
        if token is None:
            raise NotAnExpression("a subscript is missing")
        if not token.is_sign("{"):
            self.position += 1
            if token.kind is Kind.LETTERS and len(token.text) > 1:
                self.position -= 1
                self.tokens[self.position] = replace(token, text=token.text[1:], spaced=False)
                return token.text[0]
            return token.text
        start = self.position
        end = self._matching_brace()
        self.position = end + 1
        return "".join(each.text for each in self.tokens[start + 1 : end])

    def _matching_brace(self) -> int:
        depth = 0
        for index in range(self.position, len(self.tokens)):
            if self.tokens[index].is_sign("{"):
                depth += 1
            elif self.tokens[index].is_sign("}"):
                depth -= 1
                if depth == 0:
                    return index
        raise NotAnExpression("a brace is never closed")

    def _command(self) -> Node:
        name = self._advance().text
        if name == "frac":
            return Quotient(self._argument(single_digit=True), self._argument(single_digit=True))
        if name == "sqrt":
            index: Node = Number(Fraction(2))
            if self._take_sign("["):
                index = self.expression()
                self._expect("]")
            return Root(self._argument(), index)
        if name == "binom":
            return Call("binom", (self._argument(single_digit=True), self._argument(single_digit=True)))
        if name in _ROUNDINGS:
            closing, function = _ROUNDINGS[name]
            inner = self.expression()
            if not self._take_command(closing):
                raise NotAnExpression(f"\\{name} is never closed")
            return Call(function, (inner,))
        if name == "begin":
            return self._environment()
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        if name in FUNCTIONS:
            return self._call(name)
        if name in GREEK:
            return self._named("\\" + name)
        if name in ("vec", "hat", "overline", "bar", "mathbb", "overrightarrow"):
            return self._named(f"\\{name}({self._subscript()})")
        raise NotAnExpression(f"\\{name} is no value")

    def _argument(self, *, single_digit: bool = False) -> Node:
        r"""What a command or `^` applies to: a group in braces, or one symbol.

        `single_digit` takes only the first digit of a number, as TeX does in `\frac12`.
        """
        token = self._peek()
        if token is None:
            raise NotAnExpression("an argument is missing")
        if token.is_sign("{"):
            return self._group("{")
        if token.kind is Kind.NUMBER and single_digit and len(token.text) > 1 and token.text.isdigit():
            rest = token.text[1:]
            self.tokens[self.position] = replace(token, text=rest, value=Fraction(int(rest)), spaced=False)
            return Number(Fraction(int(token.text[0])))
        if token.kind is Kind.NUMBER:
            self.position += 1
            assert token.value is not None
            return Number(token.value)
        return self._atom()

    def _group(self, opening: str) -> Node:
        self.position += 1
        outer, self._inside_bars = self._inside_bars, False
        inner = self.expression()
        self._inside_bars = outer
        self._expect(_BRACKETS[opening])
        return inner

    def _bars(self) -> Node:
        self.position += 1
        outer, self._inside_bars = self._inside_bars, True
        inner = self.expression()
        self._inside_bars = outer
        self._expect("|")
        return Call("det" if isinstance(inner, Matrix) else "abs", (inner,))

    # Functions and matrices

    def _call(self, function: str) -> Node:
        function = SYNONYMS.get(function, function)
        base: Node | None = None
        power: Node | None = None
        while True:
            if base is None and self._take_sign("_"):
                base = self._argument()
            elif power is None and self._next_is_sign("^"):
                self.position += 1
                power = self._exponent()
            else:
                break
        arguments = self._arguments()
        if function == "sqrt":
            result: Node = Root(arguments[0], Number(Fraction(2)))
        elif function == "cbrt":
            result = Root(arguments[0], Number(Fraction(3)))
        elif base is not None:
            if function != "log":
                raise NotAnExpression(f"{function} takes no base")
            result = Call("log", (arguments[0], base))
        elif power == Negative(Number(Fraction(1))) and "arc" + function in FUNCTIONS:
            return Call("arc" + function, arguments)
        else:
            result = Call(function, arguments)
        return result if power is None else Power(result, power)

    def _arguments(self) -> tuple[Node, ...]:
        if self._next_is_sign("(", "[", "{"):
            opening = self._advance().text
            outer, self._inside_bars = self._inside_bars, False
            arguments = [self.expression()]
            while self._take_sign(","):
                arguments.append(self.expression())
            self._inside_bars = outer
            self._expect(_BRACKETS[opening])
            return tuple(arguments)
        node = self._signed_argument()
        while (token := self._peek()) and self._starts_factor(after=node) and not self._is_function(token):
            node = _times(node, self._power())
        return (node,)

    def _signed_argument(self) -> Node:
        return Negative(self._power()) if self._take_sign("-") else self._power()

    @staticmethod
    def _is_function(token: Token) -> bool:
        return token.kind is not Kind.SIGN and token.text in FUNCTIONS

    def _environment(self) -> Node:
        name = self._environment_name()
        if name == "array" and self._next_is_sign("{"):
            self.position = self._matching_brace() + 1
        rows: list[tuple[Node, ...]] = []
        row: list[Node] = []
        while not self._take_command("end"):
            row.append(self.expression())
            if self._take_sign("&"):
                continue
            rows.append(tuple(row))
            row = []
            if not self._take_command("\\") and not (self._peek() or _NOTHING).is_command("end"):
                raise NotAnExpression("a matrix row ends with something else than \\\\")
            self._take_command("hline")
        if self._environment_name() != name or len({len(each) for each in rows}) != 1:
            raise NotAnExpression("the rows of a matrix differ in length")
        if name not in (*_MATRICES, "vmatrix"):
            raise NotAnExpression(f"{name} is no matrix")
        matrix = Matrix(tuple(rows))
        return Call("det", (matrix,)) if name == "vmatrix" else matrix

    def _environment_name(self) -> str:
        self._expect("{")
        name = self._advance().text
        self._expect("}")
        return name

    # Tokens

    def _peek(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def _advance(self) -> Token:
        token = self._peek()
        if token is None:
            raise NotAnExpression("the answer ends too early")
        self.position += 1
        return token

    def _next_is_sign(self, *signs: str) -> bool:
        token = self._peek()
        return token is not None and token.is_sign(*signs)

    def _take_sign(self, *signs: str) -> bool:
        taken = self._next_is_sign(*signs)
        self.position += taken
        return taken

    def _take_command(self, *names: str) -> bool:
        token = self._peek()
        taken = token is not None and token.is_command(*names)
        self.position += taken
        return taken

    def _expect(self, sign: str) -> None:
        if not self._take_sign(sign):
            raise NotAnExpression(f"{sign!r} is missing")

    def _next_is_degree(self) -> bool:
        index = self.position + 1
        return index < len(self.tokens) and self.tokens[index].is_command("circ") and not self._next_is_temperature()

    def _next_is_temperature(self) -> bool:
        r"""`^\circ C`: a unit of its own."""
        index = self.position + 1
        return (
            index + 1 < len(self.tokens)
            and self.tokens[index].is_command("circ")
            and self.tokens[index + 1].is_wordlike
            and self.tokens[index + 1].text in ("C", "F", "K")
        )


_NOTHING = Token(Kind.SIGN, "")
_STARTING_COMMANDS = frozenset(
    ("frac", "sqrt", "binom", "begin", "vec", "hat", "overline", "bar", *_ROUNDINGS, *CONSTANTS)
)


def _times(left: Node, right: Node) -> Node:
    factors = (*(left.factors if isinstance(left, Product) else (left,)), right)
    return Product(factors)
