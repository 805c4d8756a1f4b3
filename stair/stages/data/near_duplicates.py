"""Problems that nearly repeat a benchmark's question; normalisation does not detect them.

Two texts are compared by their shingles, the runs of five characters of the normalised text. All pairs are compared exactly,
by products of sparse matrices; at the paper's size (15,000 problems, 760 questions) that takes seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from stair.stages.data.problem_texts import normalised

JACCARD = 0.7
"""The least share of common shingles, among those of both texts, of a listed pair."""

CONTAINMENT = 0.85
"""The least share of the question's shingles in the problem of a listed pair. DAPO-Math-17k appends sentences to
questions so that their answers become integers."""

_LENGTH = 5
_FEWEST = 20
"""The least number of shingles of a question for containment to be meaningful."""
_ROWS = 1024


class NearDuplicate(NamedTuple):
    """A training problem and a benchmark's question that are nearly the same text; a row of near_duplicates.csv."""

    problem_id: str
    benchmark: str
    source_id: str
    jaccard: float
    containment: float


def shingles(text: str) -> set[str]:
    """The runs of five characters of a normalised text; a shorter text is its only shingle."""
    plain = normalised(text)
    return {plain[i : i + _LENGTH] for i in range(max(1, len(plain) - _LENGTH + 1))}


def near_duplicates(problems: Mapping[str, str], questions: Mapping[tuple[str, str], str]) -> list[NearDuplicate]:
    """Pairs of a training problem and a benchmark's question that are nearly, but not by normalised text, the same.

    Args:
        problems: texts by problem id.
        questions: texts by (benchmark, the benchmark's own id).

    Returns:
        The pairs with a similarity of at least `JACCARD` or `CONTAINMENT`, the most similar first.
    """
    if not questions:
        return []
    names, keys, asked = list(questions), list(problems), [shingles(text) for text in questions.values()]
    plain = [normalised(text) for text in questions.values()]
    column = {shingle: number for number, shingle in enumerate(sorted(set().union(*asked)))}
    asked_matrix, asked_sizes = _matrix(asked, column).T.tocsc(), np.array([len(one) for one in asked])
    pairs = []
    for start in range(0, len(keys), _ROWS):
        some = keys[start : start + _ROWS]
        sets = [shingles(problems[key]) for key in some]
        common, sizes = (_matrix(sets, column) @ asked_matrix).toarray(), np.array([len(one) for one in sets])[:, None]
        jaccard, containment = common / (sizes + asked_sizes - common), common / asked_sizes
        near = (jaccard >= JACCARD) | ((containment >= CONTAINMENT) & (asked_sizes >= _FEWEST))
        pairs += [
            NearDuplicate(
                some[row],
                names[question][0],
                names[question][1],
                float(jaccard[row, question]),
                float(containment[row, question]),
            )
            for row, question in np.argwhere(near)
            if normalised(problems[some[row]]) != plain[question]
        ]
    return sorted(pairs, key=lambda pair: (-pair.containment - pair.jaccard, pair.problem_id, pair.source_id))


def _matrix(sets: Sequence[set[str]], column: Mapping[str, int]) -> sparse.csr_matrix:
    places = [sorted(column[shingle] for shingle in one if shingle in column) for one in sets]
    starts = np.cumsum([0, *(len(row) for row in places)])
    columns = np.concatenate([np.array(row, dtype=np.int64) for row in places])
    return sparse.csr_matrix((np.ones(len(columns), dtype=np.int32), columns, starts), shape=(len(sets), len(column)))
