"""The file of responses under way: what a killed process leaves in it, and what a power failure may leave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.sessions import attempts as module
from stair.sessions.attempts import Attempts


class Named:
    """What `Attempts` takes from a chain."""

    def __init__(self, name: str) -> None:
        self.name = name

    def entry(self) -> dict[str, Any]:
        return {"session": self.name}


def chains(*names: str) -> list[Any]:
    return [Named(name) for name in names]


@pytest.mark.parametrize("most", [10_000, 1, 2])
def test_what_had_begun_and_not_ended_was_under_way(tmp_path: Path, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_LINES", most)
    path, (a, b, c) = tmp_path / "under-way.json", chains("a", "b", "c")
    first = Attempts(path)
    for chain in (a, b, c):
        first.begin(chain)
    first.end(b)
    second = Attempts(path)
    assert second.interrupted == {"a": {"session": "a"}, "c": {"session": "c"}}
    assert [second.deaths(chain) for chain in (a, b, c)] == [1, 0, 1]
    second.begin(a)
    second.begin(c)
    second.end(c)
    third = Attempts(path)
    assert third.interrupted == {"a": {"session": "a"}}
    assert [third.deaths(chain) for chain in (a, b, c)] == [2, 0, 0], "an end forgets a chain's deaths"
    assert third.repeated == {"a"}
    third.begin(a)
    third.end(a)
    third.stop()
    assert not path.exists()


def test_a_cut_line_does_not_count(tmp_path: Path) -> None:
    path, (a, b) = tmp_path / "under-way.json", chains("a", "b")
    attempts = Attempts(path)
    attempts.begin(a)
    attempts.begin(b)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert Attempts(path).interrupted == {"a": {"session": "a"}}
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert Attempts(path).interrupted.keys() <= {"a", "b"}
    path.write_bytes(b"\xff\x00 nothing")
    assert Attempts(path).interrupted == {}
