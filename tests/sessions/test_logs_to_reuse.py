"""Responses that can be reused: the logs that a shard reads, and the controller's digest in its keys."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.core import Place
from stair.records.keys import file_digest
from stair.sessions.study import Study
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


@pytest.mark.parametrize(
    ("condition", "own"), [("stair", True), ("shared_t1/direct_read", True), ("shared_t1/random_reflector-1", False)]
)
def test_keys_name_the_trained_weights_and_those_of_random_directions_none(
    tmp_path: Path, condition: str, own: bool
) -> None:
    config = resolve(Path(__file__).parents[2], {"run": "paper"})
    study = object.__new__(Study)  # without the files of a run
    study.config, study.paths, study.model = config, RunPaths(tmp_path), next(iter(config.models))
    study.settings = config.condition(condition)
    path = study.paths.weights(study.model, "stair")
    path.parent.mkdir(parents=True)
    digests = []
    for content in (b"one training", b"another"):
        path.write_bytes(content)
        control = study._control(load=False)
        assert control is not None and (control.digest == file_digest(path)) is own
        digests.append(control.digest)
    assert (digests[0] != digests[1]) is own
