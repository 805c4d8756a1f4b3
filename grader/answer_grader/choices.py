r"""Answers that are letters of options.

Kind `choice`: exactly one letter, after supported wrappers are removed. Kind `math`: the problem lists its options,
`(A) $2\sqrt{3}$ (B) $6$ (C) $12$`, and the answer may name the right one by its letter, by its own formula, or by both.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from string import ascii_uppercase

from answer_grader.bounds import MAX_ANSWER_CHARACTERS
from answer_grader.expressions.normalization import COLOURS, FONTS, SWITCHES, compatible, without_ornaments

_STYLED = re.compile(rf"(?:{FONTS}|\\(?:textsl|mathbb|bf|rm)\*?\s*)\{{([^{{}}]*)\}}")
_SWITCH = re.compile(SWITCHES)
_COLOUR = re.compile(COLOURS)
_NAMED = re.compile(
    r"(?:the )?(?:correct |final |best |right )?(?:answer|option|choice)(?: is)?(?: option| choice)?[ :]+\(?([A-Z])\)?[.,;:]*",
    re.IGNORECASE,
)
_SPACE = re.compile(r"\\[,;:! ]|\\(?:quad|qquad|left|right)(?![A-Za-z])|(?<!~)~(?!~)|\s")  # `~~C~~` is struck out
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
    letter may be followed by that option's own text (`C) 42 m/s`).
    """
    letters = "ABCD" if choices is None else "".join(chr(ord("A") + index) for index in range(len(choices)))
    expected = choice_letter(reference, letters) if len(reference) <= MAX_ANSWER_CHARACTERS else None
    if expected is None:
        raise ValueError(f"reference {reference[:40]!r} is not one of the choice letters {letters}")
    named = _NAMED.fullmatch(one_line_text(answer))
    if choice_letter(named[1] if named else answer, letters) == expected:
        return True
    return accept_text and choices is not None and _names_option(answer, expected, choices[letters.index(expected)])


def _names_option(answer: str, letter: str, option: str) -> bool:
    match = _BEFORE.fullmatch(one_line_text(answer))
    return (
        match is not None and match[2].upper() == letter and match[4].strip(" .") == one_line_text(option).strip(" .")
    )


def one_line_text(text: str) -> str:
    """Text in one line without fonts and dollar signs."""
    text = without_ornaments(compatible(text))
    while (unwrapped := _STYLED.sub(r"\1", text)) != text:
        text = unwrapped
    return re.sub(r"\s+", " ", _SPACE.sub(" ", text.replace("$", ""))).strip()


def _strip_wrappers(answer: str) -> str:
    text = without_ornaments(compatible(answer))
    while True:
        before = text
        text = text.rstrip("\\")
        text = _SPACE.sub("", _STYLED.sub(r"\1", _SWITCH.sub("", _COLOUR.sub("", text))))
        for opening, closing in _PAIRS:
            if len(text) > len(opening) + len(closing) and text.startswith(opening) and text.endswith(closing):
                text = text[len(opening) : -len(closing)]
        text = re.sub(r"(?<=[A-Za-z)\]}$*])[.:,;、。]+$", "", text)
        if re.fullmatch(r"[A-Za-z]\)", text):
            text = text[0]
        if text == before:
            return text


SameAnswer = Callable[[str, str], bool]

_LONGEST = 8_000
_LONGEST_OPTION = 300
_FEWEST = 3
_FONT = r"\\(?:text|textbf|textrm|mathrm|mathbf|bf)\s*\{\s*"
_GAP = r"(?:\\[,;:! ]|\\q?quad(?![A-Za-z])|\\\\|[\s~])"
_LABELS = (
    re.compile(rf"(?:{_FONT})?\(([A-J])\){_GAP}*\}}?"),  # (A), \textbf{(A)}
    re.compile(r"(?:^|(?<=\s))([A-J])\)"),  # A)
    re.compile(r"^[ \t]*([A-J])[.:](?=\s)", re.MULTILINE),  # A. on a line of its own
)
_CONJUNCTION = re.compile(r"[,;]?\s+(?:or|and)$")
_AROUND = re.compile(rf"^(?:{_GAP}|\$)+|(?:{_GAP}|[$.,;])+$")
_AFTER_LAST = re.compile(r"\n|(?<=[.;?!])\s+(?=[A-Z])")
_NOUN = re.compile(
    r"(?:the )?(?:correct |final )?(?:answer|option|choice|letter|point|plan|graph|figure|statement)(?: is)?:? +",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:the|an?) +(?=[a-z]{2})", re.IGNORECASE)
_BEFORE = re.compile(r"(\(?)([A-Za-z])(\s*[).:]\s*|\s+)(.+)", re.DOTALL)
_BEHIND = re.compile(r"(.+?)\s+\(([A-Z])\)", re.DOTALL)


def listed_options(problem: str | None) -> dict[str, str]:
    """The text of each option by its letter, A first; empty where fewer than three options are listed."""
    text = (problem or "")[-_LONGEST:]
    lists = [options for label in _LABELS for options in _runs(list(label.finditer(text)), text)]
    return max(lists, key=len, default={})


def names_option(answer: str, letter: str, options: Mapping[str, str], same: SameAnswer) -> bool:
    """Whether an answer names this option and no other.

    `same` compares the answer with an option's text. A letter beside another option's text names none; a letter beside
    a text that is no option (`C only`) is compared as it stands.
    """
    options = {label: _ARTICLE.sub("", option) for label, option in options.items()}
    flat = _NOUN.sub("", one_line_text(answer), count=1)
    alone = choice_letter(flat, "".join(options))
    if alone is not None:
        return alone == letter
    before, behind = _BEFORE.fullmatch(flat), _BEHIND.fullmatch(flat)
    for label, text in ((before and before[2], before and before[4]), (behind and behind[2], behind and behind[1])):
        text = text and _ARTICLE.sub("", text)
        if label and text and label.upper() in options and same(text, options[label.upper()]):
            return label.upper() == letter
        if label and text and label.upper() == letter and not any(same(text, option) for option in options.values()):
            return same(answer, letter)  # `C only`: the text beside the letter is no option
    labelled = behind is not None or (before is not None and not before[3].isspace())
    return not labelled and [name for name, text in options.items() if same(answer, text)] == [letter]


def _runs(labels: list[re.Match[str]], text: str) -> list[dict[str, str]]:
    """Options from A on whose labels follow each other, the last list first."""
    runs: list[dict[str, str]] = [{}]
    ends = [*(label.start() for label in labels), len(text)][1:]
    for label, end in zip(labels, ends, strict=True):
        if label[1] == "A":
            runs.append({})
        if label[1] == ascii_uppercase[len(runs[-1])]:
            runs[-1][label[1]] = text[label.end() : min(end, label.end() + _LONGEST_OPTION)]
    for run in runs:
        if run:
            run[max(run)] = _AFTER_LAST.split(run[max(run)].strip(), maxsplit=1)[0]
    bare = [{letter: _bare(option) for letter, option in run.items()} for run in reversed(runs)]
    return [run for run in bare if len(run) >= _FEWEST and all(run.values())]


def _bare(option: str) -> str:
    """An option's text without what separates it from the next one."""
    option = _CONJUNCTION.sub("", _AROUND.sub("", option))
    return option.removesuffix("}") if option.count("}") > option.count("{") else option
