"""Auxiliary positions beyond the model's context: counted from what rows hold, beside a twin that lists them."""

from __future__ import annotations

import itertools

import pytest

from stair.sessions.positions import AuxiliaryPositions, beyond_context
from tests.sessions.conftest import Finished


def listed(bank: int, span: range, context: int) -> tuple[list[int], list[int]]:
    """Twin: every auxiliary position of a read, listed; those of queries and of bank entries outside the context."""
    if not bank or not span:
        return [], []
    queries = [bank + position for position in span]
    return [one for one in queries if one >= context], [one for one in range(bank) if one >= context]


def test_the_count_is_that_of_listed_positions() -> None:
    context, seen = 8, set()
    for bank, controlled, history in itertools.product(range(12), range(6), range(5)):
        prompt = history + controlled
        queries, entries = listed(bank, range(history, prompt), context)
        found = beyond_context(bank, controlled, prompt, context)
        assert found == (len(queries), len(entries))
        seen.add((min(found.queries, 2), min(found.entries, 2), found.queries == controlled))
    assert {(0, 0, False), (2, 0, False), (2, 0, True), (2, 2, True)} <= seen, "none, some and all positions occur"


def test_the_last_position_within_the_context_does_not_count() -> None:
    assert beyond_context(bank_tokens=6, controlled_tokens=2, prompt_tokens=2, context=8) == (0, 0)
    assert beyond_context(bank_tokens=7, controlled_tokens=2, prompt_tokens=2, context=8) == (1, 0)
    assert beyond_context(bank_tokens=9, controlled_tokens=2, prompt_tokens=2, context=8) == (2, 1)


@pytest.mark.parametrize("bank", [None, 0])
def test_without_a_bank_there_are_no_auxiliary_positions(bank: int | None) -> None:
    assert beyond_context(bank, controlled_tokens=0, prompt_tokens=9, context=8) == (0, 0)
    assert beyond_context(bank, controlled_tokens=3, prompt_tokens=9, context=8) == (0, 0)


@pytest.mark.parametrize("condition", ["stair", "own_first"])
def test_rows_give_the_positions_that_the_engine_was_asked_for(finished: Finished, condition: str) -> None:
    rows, requests = finished.rows[condition], finished.engines[condition].requests.values()
    reads = [request.read for request in requests if request.read is not None and request.read.bank is not None]
    ends = sorted(read.bank.tokens + read.span[1] for read in reads if read.bank is not None)
    context = ends[len(ends) // 2]
    positions = AuxiliaryPositions(context)
    for row in rows:
        positions.add(row)
    found = [listed(read.bank.tokens, range(*read.span), context) for read in reads if read.bank is not None]
    assert positions.as_dict() == {
        "context": context,
        "largest": max(read.bank.tokens + read.span[1] - 1 for read in reads if read.bank and read.bank.tokens),
        "responses": sum(bool(queries or entries) for queries, entries in found),
        "queries": sum(len(queries) for queries, _ in found),
        "entries": sum(len(entries) for _, entries in found),
    }
    assert 0 < positions.responses < len(reads)


def test_conditions_without_a_bank_have_no_largest_position(finished: Finished) -> None:
    positions = AuxiliaryPositions(context=1)
    for row in [*finished.rows["vanilla"], *finished.rows["native"]]:
        positions.add(row)
    assert positions.as_dict() == {"context": 1, "largest": None, "responses": 0, "queries": 0, "entries": 0}
