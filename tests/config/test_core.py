"""What every layer shares is said once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from stair.core import TURNS, EngineIdentity, Place, ReadSpecification, user_message
from stair.records import schemas
from stair.statistics.metrics import LATER_TURNS


def test_a_prompt_is_filled_with_the_text_as_it_is() -> None:
    assert user_message("Solve: {problem}\nThink.", "{x} \\frac{1}{2}") == "Solve: {x} \\frac{1}{2}\nThink."


def test_the_later_turns_follow_from_the_turns_of_a_session() -> None:
    assert (TURNS, LATER_TURNS) == (4, (2, 3, 4))


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"variant": "reflected"}, "variant is 'differential', 'direct' or 'zero', not 'reflected'"),
        ({"variant": "null"}, "not 'null'"),
        ({"limit": 0}, "at least 1 entry, not 0"),
        ({"smoothing": 2.0}, "smoothing lies from 1e-12 to 1, not 2.0"),
        ({"smoothing": 1e-13}, "not 1e-13"),
    ],
)
def test_a_read_is_checked_where_it_is_specified(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ReadSpecification(**changes)


def test_a_key_has_all_that_decides_a_read() -> None:
    """Finished responses are found by these spellings; a part that a read does not use is absent."""
    assert ReadSpecification().as_key() == {"variant": "differential", "smoothing": 1e-6, "limit": None}
    assert ReadSpecification("zero").as_key()["variant"] == "zero"
    assert ReadSpecification("direct", 5, 3, 1e-5).as_key() == {
        "variant": "direct",
        "smoothing": 1e-5,
        "limit": 5,
        "permutation_seed": 3,
    }


def test_a_prefix_reads_a_shorter_bank_in_full() -> None:
    assert [ReadSpecification(limit=8).readable(entries) for entries in (3, 8, 20)] == [3, 8, 8]
    assert ReadSpecification().readable(20) == 20


def test_an_engine_has_one_identity_in_keys_and_in_rows() -> None:
    """Keys never have the device, rows never the arguments; each is spelled once."""
    loaded = EngineIdentity("sglang", "0.5", "fa3", "bfloat16", "H200", "--quantization fp8")
    columns = loaded.as_columns()
    assert columns == {
        "engine": "sglang",
        "engine_version": "0.5",
        "attention": "fa3",
        "dtype": "bfloat16",
        "device": "H200",
    }
    assert EngineIdentity.of_row(columns | {"sample": 3}) == replace(loaded, arguments=None)
    assert loaded.as_key() == {
        "name": "sglang",
        "version": "0.5",
        "attention": "fa3",
        "dtype": "bfloat16",
        "arguments": "--quantization fp8",
    }
    assert "arguments" not in replace(loaded, arguments=None).as_key()
    assert str(replace(loaded, device=None)) == "sglang 0.5 fa3 bfloat16"
    assert set(EngineIdentity.COLUMNS) < set(schemas.RESPONSES.names) & set(schemas.ROLLOUTS.names)


def test_a_place_is_written_as_its_folder() -> None:
    assert str(Place("m", "b", "stair")) == "m/b/stair"
