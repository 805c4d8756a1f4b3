"""Words that deny or doubt the value beside them: `x is never 3`, `5 is impossible`, `perhaps 7`."""

_DENYING = (
    "not no never none neither nor nobody nothing nowhere cannot without except excluded excluding fail fails failed "
    "failing false wrong incorrect invalid impossible rejected discarded disproved refuted ruled extraneous undefined "
    "nonexistent inadmissible unattainable unreachable contradiction contradictory opposite"
)
_DOUBTING = (
    "if unless when whether what which than or either less more between possibly perhaps maybe may might could unlikely "
    "unknown there and"
)
_DENIALS, _DOUBTS = frozenset(_DENYING.split()), frozenset(_DOUBTING.split())


def denies(word: str) -> bool:
    """Whether a word denies the value beside it, whatever its case."""
    word = word.lower().replace("’", "'")
    return word in _DENIALS or word.endswith("n't")


def hedges(word: str) -> bool:
    """Whether the `is` after this word states nothing: the word denies, doubts, compares or asks."""
    return denies(word) or word.lower() in _DOUBTS
