"""Source blocks against a closure by labels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stair.stages.replay.design.histories import History, source_blocks
from tests.replay.design_rules import blocks_of


def sizes_of_blocks(*sessions: str) -> list[int]:
    """How many histories each block has, for sessions of one path."""
    return sorted(len(block) for block in source_blocks(History(s, 0, tuple(s)) for s in sessions))


def test_a_chain_is_one_block() -> None:
    assert sizes_of_blocks("abc", "cde", "efg", "xyz") == [1, 3]
    # The last session joins two blocks that were apart.
    assert sizes_of_blocks("abc", "xyz", "pqr", "cux") == [1, 3]


@given(
    sessions=st.lists(st.lists(st.integers(0, 25), min_size=3, max_size=3, unique=True), min_size=1, max_size=12),
    samples=st.integers(1, 3),
)
def test_blocks_are_the_transitive_closure(sessions: list[list[int]], samples: int) -> None:
    named = {f"s{number}": [f"p{problem}" for problem in problems] for number, problems in enumerate(sessions)}
    paths = [(session, sample) for session in named for sample in range(samples)]
    blocks = source_blocks(History(session, sample, tuple(named[session])) for session, sample in paths)
    assert {frozenset((h.session, h.sample) for h in block) for block in blocks} == blocks_of(paths, named, 3)
    assert sum(map(len, blocks)) == len(paths)
