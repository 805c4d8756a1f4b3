r"""The last `\boxed` of a response (appendix C.3).

The last box decides, wherever it stands: an earlier box is never a substitute for a last one that was cut off, and a
number in the prose is never an answer.
"""

import re

_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_END_OF_BARE_ARGUMENT = re.compile(r"[\s$]|\\[)\]]")


def last_boxed(response: str) -> str | None:
    r"""The content of the last `\boxed` or `\fbox`, stripped; None if it is missing, empty or never closed.

    A box without braces (`\boxed 5`, `\boxed\frac{1}{2}`) runs to the next space, dollar sign or end of the formula.
    """
    start = _last_box_end(response)
    if start is None:
        return None
    while start < len(response) and response[start].isspace():
        start += 1
    if start == len(response):
        return None
    end = _closing_brace(response, start) if response[start] == "{" else None
    if response[start] == "{":
        return None if end is None else response[start + 1 : end].strip() or None
    return _bare_argument(response, start)


def _last_box_end(response: str) -> int | None:
    """Where the argument of the last box begins. One pass, whatever stands there: responses can be megabytes long."""
    end = None
    for match in _BOX.finditer(response):
        end = match.end()
    return end


def _closing_brace(text: str, opening: int) -> int | None:
    r"""The index of the brace that closes the one at `opening`; `\{` and `\}` are characters, not braces."""
    depth = 0
    for token in _BRACE.finditer(text, opening):
        if token.group() == "{":
            depth += 1
        elif token.group() == "}":
            depth -= 1
            if depth == 0:
                return token.start()
    return None


def _bare_argument(response: str, start: int) -> str | None:
    position = start
    while position < len(response):
        if response[position] == "{":
            closing = _closing_brace(response, position)
            if closing is None:
                return None
            position = closing + 1
        elif _END_OF_BARE_ARGUMENT.match(response, position):
            break
        else:
            position += 1
    return response[start:position].rstrip(".,;:!") or None
