"""What a study measures: rows and variants, quartiles as prefixes, reduced sizes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stair.config.resolve import resolve
from stair.config.runtime import Runtime
from stair.stages.runtime.study_units import Unit, resolved_sizes, units
from tests.runtime.runtime_cases import history

ROOT = Path(__file__).parents[2]


def settings(run: str) -> Runtime:
    found = resolve(ROOT, {"run": run}).runtime
    assert found is not None
    return found


def test_the_papers_rows() -> None:
    paper = settings("paper")
    assert (paper.histories, paper.longer_than, paper.tokens, paper.warmups, paper.repetitions) == (
        16,
        32_768,
        256,
        1,
        3,
    )
    sizes = resolved_sizes(paper, [80_700] * 16)
    found = list(units(paper, sizes, [history(entries=80_700, name=f"h{n}") for n in range(16)]))
    rows = [unit for unit in found if unit.part == "row" and unit.history == "h3"]
    assert [(unit.row, unit.entries) for unit in rows if unit.variant in ("", "fast-serial")] == [
        ("native", 0), ("prefix-2048", 2048), ("prefix-8192", 8192), ("prefix-32768", 32_768), ("full", 80_700),
    ]  # fmt: skip
    assert len(rows) == 1 + 3 * 4
    assert sum(unit.part == "construction" for unit in found) == 16
    curve = [unit.entries for unit in found if unit.part == "curve" and unit.variant == "fast-serial"]
    assert curve == [1024 * 2**power for power in range(10)]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("seed", range(50))
def test_quartiles_truncate_some_banks_and_not_all(seed: int) -> None:
    drawn = random.Random(seed)
    lengths = [drawn.randrange(2, 40) for _ in range(4)]
    sizes = resolved_sizes(settings("tiny"), lengths)
    assert list(sizes.prefixes) == sorted(set(sizes.prefixes))
    for prefix in sizes.prefixes:
        truncated = sum(length > prefix for length in lengths)
        assert truncated < 4
    if len(set(lengths)) > 1:
        assert any(sum(length > prefix for length in lengths) > 0 for prefix in sizes.prefixes)


def test_a_short_bank_is_read_in_full() -> None:
    tiny = settings("tiny").model_copy(update={"prefixes": (8, 64), "curve": ()})
    found = list(units(tiny, resolved_sizes(tiny, [24]), [history(24)]))
    assert {unit.row: unit.entries for unit in found if unit.part == "row"} == {
        "native": 0, "prefix-8": 8, "prefix-64": 24, "full": 24,
    }  # fmt: skip


def test_reduced_sizes_and_growth() -> None:
    shapes = settings("shapes")
    sizes = resolved_sizes(shapes, [2521, 2559], divisor=32, tokens=16)
    assert (sizes.tokens, sizes.prefixes) == (16, (64, 256, 1024))
    found = list(units(shapes, sizes, [history(2521)]))
    grown = [unit for unit in found if unit.part == "growth"]
    assert len(grown) == 16
    assert grown[2] == Unit("growth", "s-0", "turn-3", "fast-serial", 1536, 1536, (512, 512, 512))
    assert list(units(shapes, sizes, [])) == []
