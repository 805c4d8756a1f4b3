r"""Problems that list their options and have a letter for their answer: `(A) $2\sqrt{3}$ (B) $6$ (C) $12$`.

The prompt asks for no letter there, so that an answer may name the right option by its letter, by its own formula, or by both.
"""

import re
from collections.abc import Callable, Mapping
from string import ascii_uppercase

from stair.grading.choice_letters import choice_letter, one_line_text

SameAnswer = Callable[[str, str], bool]

_LONGEST = 8_000
_LONGEST_OPTION = 300
_FEWEST = 3
_FONT = r"\\(?:text|textbf|textrm|mathrm|mathbf|bf)\s*\{\s*"
_SPACE = r"(?:\\[,;:! ]|\\q?quad(?![A-Za-z])|\\\\|[\s~])"
_LABELS = (
    re.compile(rf"(?:{_FONT})?\(([A-J])\){_SPACE}*\}}?"),  # (A), \textbf{(A)}
    re.compile(r"(?:^|(?<=\s))([A-J])\)"),  # A)
    re.compile(r"^[ \t]*([A-J])[.:](?=\s)", re.MULTILINE),  # A. on a line of its own
)
_CONJUNCTION = re.compile(r"[,;]?\s+(?:or|and)$")
_AROUND = re.compile(rf"^(?:{_SPACE}|\$)+|(?:{_SPACE}|[$.,;])+$")
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
            return same(answer, letter)  # `C only`: what stands beside the letter is no option
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
