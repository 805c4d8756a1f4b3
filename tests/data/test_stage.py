"""The data stage: what is refused before anything is generated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.stages.data import stage

ROOT = Path(__file__).parents[2]


def benchmark(place: Path, answers: list[object]) -> RunPaths:
    """A benchmark of integer answers, through the data stage."""
    source = place / "bench.jsonl"
    rows = [{"problem": f"What is {number} + 1?", "answer": answer} for number, answer in enumerate(answers)]
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    changes = {"benchmarks": {"aime2025": {"tiny": None, "path": str(source), "rows": None, "columns": {"id": None}}}}
    config = resolve(ROOT, {"run": "tiny", "results": str(place / "results"), **changes})
    paths = RunPaths.of(config)
    stage.benchmark(config, paths, "aime2025")
    return paths


def test_references_of_integer_problems_can_be_spelt_in_several_ways(tmp_path: Path) -> None:
    paths = benchmark(tmp_path, ["1", "070", "70.0", "336^\\circ", 5, 6.0])
    assert paths.benchmark("aime2025").is_file()


@pytest.mark.parametrize("answer", ["n/a", "3.5", "1/2"])
def test_a_reference_that_is_no_integer_is_refused(tmp_path: Path, answer: str) -> None:
    with pytest.raises(
        ValueError, match=r"bench\.jsonl, problem 4: its answer is not an integer; .* `kind: math`"
    ) as caught:
        benchmark(tmp_path, ["1", "2", "3", "4", answer])
    assert answer not in str(caught.value), "not every answer may be published"
