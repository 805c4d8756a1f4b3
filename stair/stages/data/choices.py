"""Multiple-choice problems: a fixed pseudorandom order of the options, by hash of the question."""

from __future__ import annotations

from collections.abc import Sequence

from stair.records.seeds import hash_order

LETTERS = "ABCD"


def ordered_choices(question: str, right: str, wrong: Sequence[str]) -> tuple[list[str], str]:
    """The options in their fixed order, and the letter of the right one (appendix C.3).

    The order is a function of the question's and the options' texts alone, so it is shared by all conditions.

    Raises:
        ValueError: there are not four distinct options, or one is empty.
    """
    options = [right, *wrong]
    if len(options) != len(LETTERS) or len(set(options)) != len(options) or "" in options:
        # Without their texts, which may not be published: an error ends in a log.
        empty, same = options.count(""), len(options) - len(set(options))
        raise ValueError(
            f"expected {len(LETTERS)} distinct options, found {len(options)}, of them {empty} empty, and {same} that repeat "
            "another"
        )
    order = hash_order(options, "choices", question)
    return order, LETTERS[order.index(right)]


def with_choices(question: str, choices: Sequence[str]) -> str:
    """The problem as the prompt shows it: the question, then a line for each option."""
    return "\n".join([question, *(f"{letter}. {text}" for letter, text in zip(LETTERS, choices, strict=True))])
