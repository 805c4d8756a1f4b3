"""The grammar's own productions, as the parts of the parser that are files of their own call them."""

from abc import ABC, abstractmethod

from stair.grading.expressions.cursor import Cursor
from stair.grading.expressions.nodes import Node


class Grammar(Cursor, ABC):
    """What a reader of calls, matrices or series asks of the parser that called it."""

    @abstractmethod
    def expression(self) -> Node:
        r"""Terms joined by `+`, `-`, `\pm` and `\mp`, perhaps over others (`1 \over 4`)."""

    @abstractmethod
    def term(self) -> Node:
        """A product, up to a plus or minus sign between terms."""

    @abstractmethod
    def power(self) -> Node:
        """An atom with its exponent and what follows it directly."""

    @abstractmethod
    def exponent(self) -> Node:
        """What stands after `^`."""

    @abstractmethod
    def argument(self, *, single_digit: bool = False) -> Node:
        r"""What a command or `^` applies to: a group in braces, or one symbol.

        `single_digit` takes only the first digit of a number, as TeX does in `\frac12`.
        """

    @abstractmethod
    def bracketed(self, opening: str) -> tuple[Node, ...]:
        """Expressions separated by commas, up to the bracket that closes `opening`, which has been read."""

    @abstractmethod
    def starts_factor(self, after: Node) -> bool:
        """Whether the next token begins another factor of a product that has come as far as `after`."""
