"""Every printed value has one kind."""

from __future__ import annotations

from collections import Counter

import pytest

from stair.paper.comparison.printed import RULES, Kind, kind_of
from tests.statistics.paper_rows import paper_values

PAPER = paper_values(".*")
ROWS = list(zip(PAPER["artifact"], PAPER["metric"], PAPER["unit"], strict=True))


def test_exactly_one_rule_matches_each_printed_value() -> None:
    assert len(ROWS) == 1085
    assert [row for row in ROWS if sum(rule.matches(*row) for rule in RULES) != 1] == []


def test_no_rule_is_superfluous() -> None:
    assert [rule for rule in RULES if not any(rule.matches(*row) for row in ROWS)] == []


def test_how_many_values_each_kind_has() -> None:
    assert Counter(kind_of(*row) for row in ROWS) == {
        Kind.RATE: 620,
        Kind.RESPONSES: 306,
        Kind.DIFFERENCE: 17,
        Kind.COUNT: 33,
        Kind.SETTING: 41,
        Kind.REPLAY: 32,
        Kind.HARDWARE: 36,
    }


def test_a_value_of_no_kind_is_named() -> None:
    with pytest.raises(ValueError, match=r"tab:new, speed \(km/h\): no kind"):
        kind_of("tab:new", "speed", "km/h")
