"""Finding top-level separators and matching brackets in tokens."""

from collections.abc import Callable

from answer_grader.bounds import MAX_ITEMS, TooComplex
from answer_grader.expressions.tokens import Token, TokenKind

_OPENING_SIGNS, _CLOSING_SIGNS = ("(", "[", "{", "\\{"), (")", "]", "}", "\\}")
_OPENING_COMMANDS = ("langle", "lfloor", "lceil", "begin")
_CLOSING_COMMANDS = ("rangle", "rfloor", "rceil", "end")


def opens(token: Token) -> bool:
    return token.is_sign(*_OPENING_SIGNS) or token.is_command(*_OPENING_COMMANDS)


def closes(token: Token) -> bool:
    return token.is_sign(*_CLOSING_SIGNS) or token.is_command(*_CLOSING_COMMANDS)


def closing_index(tokens: list[Token]) -> int | None:
    """The index of the bracket that closes the first token. Kinds may differ: `(1, 2]`."""
    depth = 0
    for index, token in enumerate(tokens):
        depth += opens(token) - closes(token)
        if depth == 0:
            return index
    return None


def split_tokens(tokens: list[Token], is_separator: Callable[[Token], bool]) -> tuple[list[list[Token]], list[Token]]:
    """The parts between top-level separators, and the separators. Raises TooComplex for too many of them."""
    parts: list[list[Token]] = [[]]
    separators = []
    depth = 0
    for token in tokens:
        depth = max(0, depth + opens(token) - closes(token))
        if depth == 0 and is_separator(token):
            separators.append(token)
            parts.append([])
        else:
            parts[-1].append(token)
    if len(parts) > MAX_ITEMS:
        raise TooComplex("a list of too many answers")
    return parts, separators


def strip_punctuation(tokens: list[Token]) -> list[Token]:
    """Without quotation marks and final punctuation, and without braces around everything."""
    while True:
        before = len(tokens)
        while tokens and tokens[-1].is_sign(".", ",", ";", ":", '"', "`"):
            tokens = tokens[:-1]
        while tokens and tokens[0].is_sign('"', "`", ",", ";", ":"):
            tokens = tokens[1:]
        if tokens and tokens[0].is_sign("{") and closing_index(tokens) == len(tokens) - 1:
            tokens = tokens[1:-1]
        if len(tokens) == before:
            return tokens


def text_of(tokens: list[Token]) -> str:
    """The tokens as text again, without fonts."""
    pieces: list[str] = []
    for token in tokens:
        piece = "\\" + token.text if token.kind is TokenKind.COMMAND else token.text
        pieces.append((" " if token.spaced and pieces else "") + piece)
    return "".join(pieces)
