r"""The last `\boxed` of a response.

The last box decides, wherever it stands: an earlier box is never a substitute for a last one that was cut off, and a
number in the prose is never an answer.
"""

import re
from collections import deque

_BOXES = (re.compile(r"\\boxed(?![A-Za-z])"), re.compile(r"\\fbox(?![A-Za-z])"))
"""The second counts only in a response without the first."""
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_END_OF_BARE_ARGUMENT = re.compile(r"[\s$]|\\[)\]]")
_LONGEST_JOINT = 80
_JOINT = re.compile(
    r"(?:[\s$.,;:*&~]|\\[()\[\],;:! \\]|\\q?quad|\\(?:text|mathrm)\{ *(?:and|or) *\}|\band\b|\bor\b|[A-Za-z](?:_\{?\w\}?)? *=)*"
)


def last_boxed(response: str) -> str | None:
    r"""The content of the last `\boxed`, stripped; None if it is missing, empty or never closed.

    In a response without any `\boxed`, the last `\fbox` is the box. A box without braces (`\boxed 5`,
    `\boxed\frac{1}{2}`) runs to the next space, dollar sign or end of the formula.
    """
    boxes = _last_boxes(response, 1)
    argument = _argument(response, boxes[0].end()) if boxes else None
    return argument[0] if argument else None


def ends_in_several_boxes(response: str) -> bool:
    r"""Whether the last box stands directly after one of another content: `\boxed{1}, \boxed{2}`.

    Spaces, delimiters of formulas, punctuation, `and`, `or` and a name with its equals sign may stand between the two. The
    last box alone is the answer all the same; reports say how many responses this concerns.
    """
    boxes = _last_boxes(response, 2)
    if len(boxes) < 2:
        return False
    start = boxes[1].start()
    before, last = (_argument(response, box.end()) for box in boxes)
    if before is None or last is None or before[0] == last[0] or not 0 <= start - before[1] <= _LONGEST_JOINT:
        return False
    return _JOINT.fullmatch(response, before[1], start) is not None


def _last_boxes(response: str, count: int) -> list[re.Match[str]]:
    """The last boxes, in order. One pass for each kind: responses can be megabytes long."""
    of_kinds = (deque(box.finditer(response), maxlen=count) for box in _BOXES)
    return list(next(filter(None, of_kinds), ()))


def _argument(response: str, start: int) -> tuple[str, int] | None:
    """The content of the box whose argument begins at `start`, and where the box ends; None if empty or never closed."""
    while start < len(response) and response[start].isspace():
        start += 1
    if start == len(response):
        return None
    if response[start] != "{":
        return _bare_argument(response, start)
    end = _closing_brace(response, start)
    content = "" if end is None else response[start + 1 : end].strip()
    return (content, end + 1) if end is not None and content else None


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


def _bare_argument(response: str, start: int) -> tuple[str, int] | None:
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
    content = response[start:position].rstrip(".,;:!")
    return (content, start + len(content)) if content else None
