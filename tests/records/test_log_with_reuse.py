"""Responses of another run: a shard reads only the logs that can have its keys."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from stair.config.paths import RunPaths
from stair.core import Place
from stair.records.log_with_reuse import LogWithReuse
from stair.records.worklog import WorkLog, WorkLogWriter
from stair.stages.evaluation.stage import logs_to_reuse

PLACES = (
    ("a", "other", "native"),
    ("a", "same", "stair"),
    ("b", "same", "native"),
    ("b", "same", "stair"),
    ("b", "same", "vanilla"),
)


def write(folder: Path, *records: tuple[str, int]) -> Path:
    for number, (key, value) in enumerate(records):
        with WorkLogWriter(folder, str(number)) as writer:
            writer.append(key, {"value": value})
    return folder


@pytest.mark.parametrize("repeats", [None, "native"])
def test_a_condition_reads_its_own_log_first_and_no_other_benchmark(tmp_path: Path, repeats: str | None) -> None:
    """A seed contains the benchmark's key, so an equal response has the same benchmark."""
    paths = RunPaths(tmp_path)
    for place in PLACES:
        paths.work("evaluation", *place, "log").mkdir(parents=True)
    study = SimpleNamespace(paths=paths, place=Place("b", "same", "stair"), settings=SimpleNamespace(repeats=repeats))
    read = [folder.relative_to(paths.work("evaluation")).parts[:3] for folder in logs_to_reuse(paths, study)]  # type: ignore[arg-type]
    own, *others = PLACES[3], PLACES[2], PLACES[4], PLACES[1]
    assert read == ([own] if repeats else [own, *others])


def test_a_folder_is_read_when_those_before_it_lack_a_key(tmp_path: Path) -> None:
    first, second = write(tmp_path / "first", ("k", 1)), write(tmp_path / "second", ("k", 2), ("l", 3))
    log = LogWithReuse(WorkLog(tmp_path / "own"), {"other": [first, second]})
    assert [log.get(key) for key in "klk"] == [{"value": 1}, {"value": 3}, {"value": 1}]
    assert log.reused == {"other": 2}
