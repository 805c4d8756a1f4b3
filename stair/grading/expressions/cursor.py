"""A place in a list of tokens."""

from stair.grading.expressions.tokens import Token


class NotAnExpression(Exception):
    """The tokens at this place are no expression."""


class Cursor:
    """Reads tokens one after the other, beginning at `position`."""

    def __init__(self, tokens: list[Token], position: int = 0) -> None:
        self.tokens = list(tokens)
        self.position = position

    def peek(self) -> Token | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def advance(self) -> Token:
        token = self.peek()
        if token is None:
            raise NotAnExpression("the answer ends too early")
        self.position += 1
        return token

    def next_is_sign(self, *signs: str) -> bool:
        token = self.peek()
        return token is not None and token.is_sign(*signs)

    def take_sign(self, *signs: str) -> bool:
        taken = self.next_is_sign(*signs)
        self.position += taken
        return taken

    def take_command(self, *names: str) -> bool:
        token = self.peek()
        taken = token is not None and token.is_command(*names)
        self.position += taken
        return taken

    def expect(self, sign: str) -> None:
        if not self.take_sign(sign):
            raise NotAnExpression(f"{sign!r} is missing")

    def matching_brace(self) -> int:
        depth = 0
        for index in range(self.position, len(self.tokens)):
            if self.tokens[index].is_sign("{"):
                depth += 1
            elif self.tokens[index].is_sign("}"):
                depth -= 1
                if depth == 0:
                    return index
        raise NotAnExpression("a brace is never closed")
