"""Responses of another run: a shard reads only the logs that can have its keys."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from stair.config.paths import RunPaths
from stair.core import Place
from stair.stages.evaluation.stage import logs_to_reuse

PLACES = (
    ("a", "other", "native"),
    ("a", "same", "stair"),
    ("b", "same", "native"),
    ("b", "same", "stair"),
    ("b", "same", "vanilla"),
)


@pytest.mark.parametrize("repeats", [None, "native"])
def test_a_condition_reads_its_own_log_first_and_no_other_benchmark(tmp_path: Path, repeats: str | None) -> None:
    """A seed contains the benchmark's key, so an equal response has the same benchmark."""
    other = RunPaths(tmp_path / "other")
    for place in PLACES:
        other.work("evaluation", *place, "log").mkdir(parents=True)
    study = SimpleNamespace(
        config=SimpleNamespace(reuse=[str(other.folder)]),
        paths=RunPaths(tmp_path / "own"),
        place=Place("b", "same", "stair"),
        settings=SimpleNamespace(repeats=repeats),
    )
    read = [folder.relative_to(other.work("evaluation")).parts[:3] for folder in logs_to_reuse(study)]  # type: ignore[arg-type]
    own, *others = PLACES[3], PLACES[2], PLACES[4], PLACES[1]
    assert read == ([own] if repeats else [own, *others])


def test_the_study_with_a_shared_t1_also_reads_the_logs_of_earlier_versions(tmp_path: Path) -> None:
    own, other = RunPaths(tmp_path / "own"), RunPaths(tmp_path / "other")
    for condition in ("native", "shared_t1/native", "shared_t1/stair"):
        other.work("evaluation", "b", "same", condition, "log").mkdir(parents=True)
    study = SimpleNamespace(
        config=SimpleNamespace(reuse=[str(other.folder)]),
        paths=own,
        place=Place("b", "same", "shared_t1/stair"),
        settings=SimpleNamespace(repeats=None),
    )
    assert logs_to_reuse(study) == [  # type: ignore[arg-type]
        own.work("controls/b/same/stair/log"),
        other.work("controls/b/same/stair/log"),
        other.work("evaluation/b/same/shared_t1/stair/log"),
        other.work("evaluation/b/same/shared_t1/native/log"),
    ]
