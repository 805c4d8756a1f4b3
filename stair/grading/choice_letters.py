r"""Multiple-choice answers: exactly one letter, after supported wrappers are removed (appendix C.3)."""

import re
import unicodedata
from collections.abc import Sequence

_STYLE = (
    r"text|textbf|textit|textrm|textsf|texttt|textnormal|emph|mathbf|mathrm|mathsf|mathit|mathtt|mathbb|mathcal|"
    r"boldsymbol|bm|bf|rm|mbox|hbox|operatorname|boxed|fbox|underline"
)
_STYLED = re.compile(rf"\\(?:{_STYLE})\*?\s*\{{([^{{}}]*)\}}")
_SWITCH = re.compile(r"\\(?:bf|rm|it|sf|tt|large|Large|displaystyle|textstyle|bfseries)(?![A-Za-z])")
_COLOUR = re.compile(r"\\(?:text)?color\s*\{[^{}]*\}")
_SPACE = re.compile(r"\\[,;:! ]|\\(?:quad|qquad|left|right)(?![A-Za-z])|~|\s")
_PAIRS = (
    *(("(", ")"), ("[", "]"), ("{", "}"), ("\\{", "\\}"), ("$", "$"), ("\\(", "\\)")),
    *(("**", "**"), ("*", "*"), ("`", "`"), ('"', '"'), ("“", "”")),
)


def choice_letter(answer: str, letters: str = "ABCD") -> str | None:
    r"""The single choice letter that `answer` consists of, or None.

    Font commands, dollar signs, parentheses, spaces, a final dot or colon and the letter's case are formatting;
    anything else beside the letter (`A, C`, `not C`, `C_2`, `\overline{C}`) makes it no choice.
    """
    bare = _strip_wrappers(answer)
    letter = bare.upper()
    return letter if len(bare) == 1 and letter in letters else None


def choice_matches(answer: str, reference: str, *, choices: Sequence[str] | None = None, accept_text: bool) -> bool:
    """Whether the boxed answer names the reference's letter.

    `choices` are the options in the order shown; their number sets the letters that count. With `accept_text`, the
    letter may be followed by that option's own text (`C) 42 m/s`); the paper's rule is the letter only.
    """
    letters = "ABCD" if choices is None else "".join(chr(ord("A") + index) for index in range(len(choices)))
    expected = choice_letter(reference, letters)
    if expected is None:
        raise ValueError(f"reference {reference!r} is not one of the choice letters {letters}")
    if choice_letter(answer, letters) == expected:
        return True
    return accept_text and choices is not None and _names_option(answer, expected, choices[letters.index(expected)])


def _names_option(answer: str, letter: str, option: str) -> bool:
    flat = one_line_text(answer)
    match = re.fullmatch(r"\(?([A-Za-z])(?:\s*[).:]\s*|\s+)(.+)", flat, re.DOTALL)
    return (
        match is not None and match[1].upper() == letter and match[2].strip(" .") == one_line_text(option).strip(" .")
    )


def one_line_text(text: str) -> str:
    """Text in one line without fonts and dollar signs."""
    text = unicodedata.normalize("NFKC", text)
    while (unwrapped := _STYLED.sub(r"\1", text)) != text:
        text = unwrapped
    return re.sub(r"\s+", " ", _SPACE.sub(" ", text.replace("$", ""))).strip()


def _strip_wrappers(answer: str) -> str:
    text = unicodedata.normalize("NFKC", answer)
    while True:
        before = text
        text = text.rstrip("\\")
        text = _SPACE.sub("", _STYLED.sub(r"\1", _SWITCH.sub("", _COLOUR.sub("", text))))
        for opening, closing in _PAIRS:
            if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
                text = text[len(opening) : -len(closing)]
        text = re.sub(r"(?<=[A-Za-z)\]}$*])[.:]+$", "", text)
        if re.fullmatch(r"[A-Za-z]\)", text):
            text = text[0]
        if text == before:
            return text
