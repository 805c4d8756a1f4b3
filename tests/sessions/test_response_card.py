"""The data card of evaluation responses: what they are, how they ended, how far reads went beyond the context."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.records.schemas import RESPONSES
from stair.records.tables import write_table
from stair.sessions.positions import KEY, AuxiliaryPositions
from stair.stages.evaluation.card import write_card
from tests.sealed import seal
from tests.sessions.conftest import Finished

ROOT = Path(__file__).parents[2]
MODEL, BENCH = "qwen3-4b-instruct", "math500"
CONDITIONS = ("vanilla", "native", "stair")


def cells(text: str, heading: str, condition: str) -> list[str]:
    """A condition's cells in the table below a heading."""
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    (line,) = [line for line in section.splitlines() if line.startswith(f"| {BENCH} | {condition} |")]
    return line.strip("| ").split(" | ")[2:]


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return resolve(ROOT, {"run": "smoke", "results": str(tmp_path)})


def sealed(finished: Finished, paths: RunPaths, context: int | None) -> AuxiliaryPositions:
    """All conditions as the seal writes them; without a context, as by a seal that did not count."""
    positions = AuxiliaryPositions(context or 1)
    for condition in CONDITIONS:
        path = paths.responses(MODEL, BENCH, condition)
        write_table(path, RESPONSES, finished.rows[condition])
        if condition == "stair":
            for row in finished.rows[condition]:
                positions.add(row)
        counted = {KEY: positions.as_dict() if condition == "stair" else None}
        seal(paths, "seal_evaluation", path, **(counted if context else {}))
    return positions


def test_the_card_counts_positions_by_condition(finished: Finished, config: Config) -> None:
    paths, rows = RunPaths.of(config), finished.rows["stair"]
    longest = max(row["bank_tokens"] for row in rows)
    positions = sealed(finished, paths, longest - 1)
    assert positions.entries > 0
    write_card(config, paths, MODEL)
    text = paths.response_card(MODEL).read_text()
    found = cells(text, "Auxiliary positions beyond the context", "stair")
    numbers = (longest, positions.largest, longest - 1, positions.responses, positions.queries, positions.entries)
    assert found == [f"{number:,}" for number in numbers]
    for condition in ("vanilla", "native"):
        with pytest.raises(ValueError, match="not enough values"):
            cells(text, "Auxiliary positions beyond the context", condition)


def test_the_card_counts_endings_and_lengths(finished: Finished, config: Config) -> None:
    paths = RunPaths.of(config)
    sealed(finished, paths, 100)
    write_card(config, paths, MODEL)
    text = paths.response_card(MODEL).read_text()
    for condition in CONDITIONS:
        rows = finished.rows[condition]
        ends = [sum(row["finish_reason"] == name for row in rows) for name in ("stop", "length", "context")]
        lengths = sorted(row["response_tokens"] for row in rows)
        expected = [len(rows), 0, *ends]
        assert cells(text, "What is in it", condition)[:5] == [f"{number:,}" for number in expected]
        assert cells(text, "What is in it", condition)[-1] == f"{lengths[-1]:,}"
    assert config.note in text


def test_the_card_counts_missing_responses(finished: Finished, config: Config) -> None:
    paths = RunPaths.of(config)
    sealed(finished, paths, 100)
    gaps = [{"session_id": "s", "sample": 0, "turn": turn, "problem_id": "p", "reason": "x"} for turn in (3, 4)]
    seal(paths, "seal_evaluation", paths.responses(MODEL, BENCH, "native"), missing=gaps)
    write_card(config, paths, MODEL)
    text = paths.response_card(MODEL).read_text()
    assert "| benchmark | condition | responses | missing |" in text
    assert [cells(text, "What is in it", condition)[1] for condition in CONDITIONS] == ["0", "2", "0"]
    assert "`missing` counts responses that could not be generated" in text


def test_a_seal_that_did_not_count_is_said_to_be_one(finished: Finished, config: Config) -> None:
    paths = RunPaths.of(config)
    sealed(finished, paths, None)
    write_card(config, paths, MODEL)
    found = cells(paths.response_card(MODEL).read_text(), "Auxiliary positions beyond the context", "stair")
    assert found[1:] == ["not recorded"] * 5


def test_a_condition_without_any_response_has_its_rows(finished: Finished, config: Config) -> None:
    """Every response can be missing, where Vanilla's first turns are."""
    paths = RunPaths.of(config)
    sealed(finished, paths, 4096)
    path = paths.responses(MODEL, BENCH, "stair")
    write_table(path, RESPONSES, [])
    seal(paths, "seal_evaluation", path, **{KEY: AuxiliaryPositions(4096).as_dict()})
    write_card(config, paths, MODEL)
    text = paths.response_card(MODEL).read_text()
    assert cells(text, "What is in it", "stair") == ["0", "0", "0", "0", "0", "none", "none"]
    assert cells(text, "Auxiliary positions beyond the context", "stair") == ["0", "none", "4,096", "0", "0", "0"]
