r"""Expressions by recursive descent. The parser stops at what is no expression (a unit, a word); the caller goes on."""

from dataclasses import replace
from fractions import Fraction

from stair.grading.bounds import MAX_NESTING, TooComplex
from stair.grading.expressions.calls import read_call
from stair.grading.expressions.cursor import NotAnExpression
from stair.grading.expressions.environments import read_environment
from stair.grading.expressions.grammar import Grammar
from stair.grading.expressions.nodes import (
    Call,
    Constant,
    Matrix,
    Negative,
    Node,
    Number,
    PlusMinus,
    Power,
    Quotient,
    Root,
    Sum,
    Symbol,
    times,
)
from stair.grading.expressions.series import read_series
from stair.grading.expressions.tokens import Kind, Token
from stair.grading.expressions.words import (
    CONSTANT_LETTERS,
    CONSTANTS,
    FUNCTIONS,
    GREEK,
    UNITS_OF_TWO_OR_THREE_LETTERS,
    is_mathematics,
    is_product,
    leading_function,
)

_BRACKETS = {"(": ")", "[": "]", "{": "}"}
_SERIES = ("sum", "prod")
_ROUNDINGS = {"lfloor": ("rfloor", "floor"), "lceil": ("rceil", "ceil")}


class Parser(Grammar):
    """Reads one expression from `tokens`, beginning at `position`."""

    def __init__(self, tokens: list[Token], position: int = 0) -> None:
        super().__init__(tokens, position)
        self.depth = 0
        self.operations = 0

    def expression(self) -> Node:
        r"""Terms joined by `+`, `-`, `\pm` and `\mp`, perhaps over others (`1 \over 4`)."""
        terms = [self.term()]
        while True:
            if self.take_sign("+"):
                terms.append(self.term())
            elif self.take_sign("-"):
                terms.append(Negative(self.term()))
            elif self.take_command("pm"):
                terms.append(PlusMinus(self.term()))
            elif self.take_command("mp"):
                terms.append(PlusMinus(self.term(), inverted=True))
            else:
                break
        total = terms[0] if len(terms) == 1 else Sum(tuple(terms))
        if self.take_command("over"):
            self._count_operation()
            return Quotient(total, self.expression())
        return total

    # What stands between operators

    def term(self) -> Node:
        """A product, up to a plus or minus sign between terms."""
        node = self._signed()
        while True:
            if self.take_sign("*") or self.take_command("cdot", "times"):
                node = times(node, self._signed())
            elif self.take_sign("/") or self.take_command("div"):
                self._count_operation()
                node = Quotient(node, self._signed())
            elif self.starts_factor(after=node):
                factor = self._factor_or_comment()
                if factor is None:
                    return node
                node = times(node, factor)
            else:
                return node

    def _factor_or_comment(self) -> Node | None:
        """The factor that stands here; None where the bracket holds no expression, as in `12 (units)`."""
        position, inside_bars = self.position, self._inside_bars
        tokens = list(self.tokens) if self._may_be_comment() else None
        try:
            return self.power()
        except NotAnExpression:
            if tokens is None:
                raise
            self.position, self.tokens, self._inside_bars = position, tokens, inside_bars
            return None

    def _may_be_comment(self) -> bool:
        return self.next_is_sign("(", "[") or (self.peek() or _NOTHING).is_command("frac")

    def _signed(self) -> Node:
        signs: list[str] = []
        while True:
            if self.take_sign("-"):
                signs.append("-")
            elif self.take_command("pm"):
                signs.append("pm")
            elif self.take_command("mp"):
                signs.append("mp")
            elif not self.take_sign("+"):
                break
        if len(signs) > MAX_NESTING:
            raise TooComplex("too many signs in a row")
        node = self.power()
        if signs:  # a sign applies to the whole product that follows: -2x is -(2x)
            while self.starts_factor(after=node):
                node = times(node, self.power())
        for sign in reversed(signs):
            node = Negative(node) if sign == "-" else PlusMinus(node, inverted=sign == "mp")
        return node

    def power(self) -> Node:
        node = self._postfix(self._atom())
        if self.next_is_sign("^") and not self._next_is_temperature():
            self.position += 1
            exponent = self.exponent()
            node = Power(node, exponent)
            node = self._postfix(node)
        return node

    def exponent(self) -> Node:
        if self.take_sign("-"):
            return Negative(self.argument())
        self.take_sign("+")
        return self.argument()

    def _postfix(self, node: Node) -> Node:
        while True:
            if self.next_is_sign("!"):
                self.position += 1
                self._count_operation()
                double = self.take_sign("!")
                node = Call("double_factorial" if double else "factorial", (node,))
            elif self.next_is_sign("^") and self._next_is_degree():
                self.position += 2
                node = times(node, Constant("degree"))
            else:
                return node

    def _count_operation(self) -> None:
        """Bounds the operations that nest without brackets: `1/2/3/...`, `n!!!...`."""
        self.operations += 1
        if self.operations > MAX_NESTING:
            raise TooComplex("too many divisions or factorials")

    def starts_factor(self, after: Node) -> bool:
        token = self.peek()
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
        token = self.peek()
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
        token = self.advance()
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
            if self.take_command("frac"):
                parts = (self.argument(single_digit=True), self.argument(single_digit=True))
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
        token = self.advance()
        letters = token.text
        if letters in FUNCTIONS:
            return read_call(self, letters)
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
                return read_call(self, function)
            letters = taken
            following = None
        else:
            following = self.peek()
        if letters in CONSTANT_LETTERS and not (following and following.is_sign("_", "'")):
            return Constant(CONSTANT_LETTERS[letters])
        return self._named(letters)

    def _word(self) -> Node:
        token = self.advance()
        if token.text in FUNCTIONS:
            return read_call(self, token.text)
        if token.text in CONSTANT_LETTERS:
            return Constant(CONSTANT_LETTERS[token.text])
        if len(token.text) == 1:
            return self._named(token.text)
        raise NotAnExpression(f"{token.text!r} is a word")

    def _named(self, name: str) -> Node:
        """A variable with its primes and subscript."""
        while self.take_sign("'"):
            name += "'"
        if name[0] == "f" and self.next_is_sign("("):
            self.position += 1
            return Call(name, self.bracketed("("))  # a function that nothing is known of
        if self.take_sign("_"):
            name += "_" + self._subscript()
        return Symbol(name)

    def _subscript(self) -> str:
        token = self.peek()
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
        end = self.matching_brace()
        self.position = end + 1
        return "".join(each.text for each in self.tokens[start + 1 : end])

    def _command(self) -> Node:
        name = self.advance().text
        if name == "frac":
            return Quotient(self.argument(single_digit=True), self.argument(single_digit=True))
        if name == "sqrt":
            index: Node = Number(Fraction(2))
            if self.take_sign("["):
                index = self.expression()
                self.expect("]")
            return Root(self.argument(), index)
        if name == "binom":
            return Call("binom", (self.argument(single_digit=True), self.argument(single_digit=True)))
        if name in _ROUNDINGS:
            closing, function = _ROUNDINGS[name]
            inner = self.expression()
            if not self.take_command(closing):
                raise NotAnExpression(f"\\{name} is never closed")
            return Call(function, (inner,))
        if name == "begin":
            return read_environment(self)
        if name in _SERIES:
            return read_series(self, name)
        if name in CONSTANTS:
            return Constant(CONSTANTS[name])
        if name in FUNCTIONS:
            return read_call(self, name)
        if name in GREEK:
            return self._named("\\" + name)
        if name in ("vec", "hat", "overline", "bar", "mathbb", "overrightarrow"):
            return self._named(f"\\{name}({self._subscript()})")
        raise NotAnExpression(f"\\{name} is no value")

    def argument(self, *, single_digit: bool = False) -> Node:
        r"""What a command or `^` applies to: a group in braces, or one symbol.

        `single_digit` takes only the first digit of a number, as TeX does in `\frac12`.
        """
        token = self.peek()
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
        inner = self.bracketed(opening)
        if len(inner) != 1:
            raise NotAnExpression("several values in one bracket")
        return inner[0]

    def bracketed(self, opening: str) -> tuple[Node, ...]:
        """Expressions separated by commas, up to the bracket that closes `opening`, which has been read."""
        outer, self._inside_bars = self._inside_bars, False
        values = [self.expression()]
        while self.take_sign(","):
            values.append(self.expression())
        self._inside_bars = outer
        self.expect(_BRACKETS[opening])
        return tuple(values)

    def _bars(self) -> Node:
        self.position += 1
        outer, self._inside_bars = self._inside_bars, True
        inner = self.expression()
        self._inside_bars = outer
        self.expect("|")
        return Call("det" if isinstance(inner, Matrix) else "abs", (inner,))

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
    ("frac", "sqrt", "binom", "begin", "vec", "hat", "overline", "bar", *_SERIES, *_ROUNDINGS, *CONSTANTS)
)
