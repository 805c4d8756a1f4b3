"""Words that deny or doubt the value beside them: `x is never 3`, `5 is impossible`, `perhaps 7`."""

from collections.abc import Sequence

_DENYING = (
    "not no never none neither nor nobody nothing nowhere cannot without except excluded excluding fail fails failed "
    "failing false wrong incorrect invalid impossible rejected discarded disproved refuted ruled extraneous undefined "
    "nonexistent inadmissible unattainable unreachable contradiction contradictory opposite"
)
_DOUBTING = (
    "if unless when whether what which than or either less more between possibly perhaps maybe may might could unlikely "
    "unknown there and"
)
_DESCRIBING = (
    "cannot excluded excluding fail fails failed failing invalid impossible rejected discarded disproved refuted ruled "
    "extraneous undefined nonexistent inadmissible unattainable unreachable contradiction contradictory"
)
_AT_THE_VERB = frozenset(_DESCRIBING.split())
"""Words that deny at the verb (`it cannot be`), and elsewhere may describe what is asked for (`invalid codes`)."""
_DENIALS, _DOUBTS = frozenset(_DENYING.split()), frozenset(_DOUBTING.split())


def is_negation(word: str) -> bool:
    """Whether a word is_negation the value beside it, whatever its case."""
    word = word.lower().replace("’", "'")
    return word in _DENIALS or word.endswith("n't")


def is_hedge(word: str) -> bool:
    """Whether the `is` after this word states nothing: the word is_negation, doubts, compares or asks."""
    return is_negation(word) or word.lower() in _DOUBTS


def is_hedged_clause(words: Sequence[str]) -> bool:
    """Whether a sentence up to its verb states nothing: `The number of invalid codes is` states a value."""
    return any(
        is_hedge(word) and (word.lower() not in _AT_THE_VERB or at >= len(words) - 2) for at, word in enumerate(words)
    )
