"""Seeds, orders and keys are functions of names."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stair.records.keys import (
    PROTOCOL_VERSION,
    canonical_json,
    digest_of,
    ids_digest,
    response_key,
)
from stair.records.seeds import hash_order, seed_of

names = st.lists(st.text(max_size=4) | st.integers(-9, 99), max_size=4)


@settings(max_examples=200, deadline=None)
@given(one=names, other=names)
def test_a_seed_is_a_function_of_the_names_and_of_nothing_less(one: list[Any], other: list[Any]) -> None:
    assert (seed_of(*one) == seed_of(*other)) == ([(type(n), n) for n in one] == [(type(n), n) for n in other])
    assert 0 <= seed_of(*one) < 2**63


def test_names_do_not_run_together() -> None:
    assert seed_of("a", "bc") != seed_of("ab", "c")
    assert seed_of("a", "") != seed_of("a")
    assert seed_of("1") != seed_of(1)
    assert seed_of("evaluation", "math500", "p1", 0) != seed_of("evaluation", "math500", "p1", 1)


def test_a_seed_is_the_same_in_every_process() -> None:
    code = "from stair.records.seeds import seed_of; print(seed_of('evaluation', 'math500', 'p0', 3))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    # The number itself must never change: every response that was ever drawn hangs on it.
    assert int(done.stdout) == seed_of("evaluation", "math500", "p0", 3) == 6528178322802365633


@pytest.mark.parametrize("bad", [1.0, True, None, ("a",)])
def test_only_names_make_seeds(bad: Any) -> None:
    with pytest.raises(TypeError, match="strings and integers"):
        seed_of("a", bad)


def test_seeds_look_random() -> None:
    seeds = [seed_of("evaluation", "b", f"p{problem}", sample) for problem in range(500) for sample in range(4)]
    assert len(set(seeds)) == 2000
    ones = Counter(bit for seed in seeds for bit in range(63) if seed >> bit & 1)
    assert all(850 < ones[bit] < 1150 for bit in range(63)), "each bit is set in about half of the seeds"


def test_an_order_is_a_permutation_that_does_not_depend_on_how_items_came() -> None:
    items = [f"item {number}" for number in range(100)]
    order = hash_order(items, "seed", 1)
    assert sorted(order) == sorted(items) != order
    assert hash_order(reversed(items), "seed", 1) == order
    assert hash_order(set(items), "seed", 1) == order
    assert hash_order(items, "seed", 2) != order
    # What is left out leaves the others' order as it is.
    assert hash_order(items[:50], "seed", 1) == [item for item in order if item in set(items[:50])]
    by_key = hash_order(range(100), "seed", 1, key=items)
    assert [items[number] for number in by_key] == order
    neighbours = sum(int(one.split()[1]) + 1 == int(other.split()[1]) for one, other in pairwise(order))
    assert neighbours < 10


def test_an_order_needs_identities() -> None:
    with pytest.raises(ValueError, match="distinct identities"):
        hash_order(["a", "a"], "seed")


def test_one_value_has_one_spelling() -> None:
    assert canonical_json({"b": 1, "a": [1.5, "é"]}) == '{"a":[1.5,"é"],"b":1}'.encode()
    assert digest_of({"a": 1, "b": 2}) == digest_of({"b": 2, "a": 1}) != digest_of({"a": 1, "b": 3})
    with pytest.raises(ValueError, match="not JSON compliant"):
        digest_of({"a": float("nan")})
    assert ids_digest([1, 2]) != ids_digest([2, 1])
    assert ids_digest([1, 2]) == ids_digest((1, 2))


KEY: dict[str, Any] = {
    "model_revision": "m",
    "prompt_ids_sha256": "p",
    "adapter": None,
    "controller": "c",
    "bank": "b",
    "read": {"variant": "differential", "smoothing": 1e-6, "limit": None},
    "sampling": {"temperature": 0.7, "top_p": 0.8},
    "seed": 1,
    "max_new_tokens": 48,
    "engine": {"name": "transformers", "version": "1", "attention": "sdpa", "dtype": "float32"},
}
OTHERS: dict[str, Any] = {
    "model_revision": "n",
    "prompt_ids_sha256": "q",
    "adapter": "a",
    "controller": "d",
    "bank": None,
    "read": {"variant": "direct", "smoothing": 1e-6, "limit": None},
    "sampling": {"temperature": 0.7, "top_p": 0.9},
    "seed": 2,
    "max_new_tokens": 49,
    "engine": {"name": "transformers", "version": "2", "attention": "sdpa", "dtype": "float32"},
}


def test_everything_that_decides_a_response_is_in_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [response_key(**KEY), *(response_key(**{**KEY, name: value}) for name, value in OTHERS.items())]
    monkeypatch.setattr("stair.records.keys.PROTOCOL_VERSION", 1000)
    keys.append(response_key(**KEY))
    assert len(set(keys)) == len(KEY) + 2
    with pytest.raises(TypeError):
        response_key(**KEY, device="cpu")


def test_a_key_is_the_digest_of_all_its_parts_in_one_object() -> None:
    for change in ({}, {"prompt_ids_sha256": 'é"\\\n'}, {"seed": 2**63 - 1}, {"read": None}):
        parts = KEY | change
        whole = {name: value for name, value in parts.items() if name != "prompt_ids_sha256"}
        whole |= {"prompt_ids": parts["prompt_ids_sha256"], "protocol_version": PROTOCOL_VERSION}
        assert response_key(**parts) == digest_of(whole)
