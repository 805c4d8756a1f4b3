"""Relative paths of the configuration start in the folder in which a run was started; its jobs work in the run's."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.paths import START, RunPaths, project_root
from stair.config.resolve import resolve
from stair.engines.sglang.launch import check_environment
from stair.models.hub import hub_sources

ROOT = Path(__file__).parents[2]
MODEL = "qwen3-4b-instruct"
CHANGES = {
    "results": "out",
    "hub": {"cache": "cache"},
    "reuse": ["earlier", "far/run"],
    "models": {MODEL: {"path": "model"}, "qwen3.5-4b": {"path": None, "repository": "lab/model"}},
    "benchmarks": {
        "math500": {"tiny": None, "path": "set.jsonl"},
        "amc23": {"tiny": None, "repository": "lab/set", "file": "set.jsonl"},
    },
    "sglang": {"environment": "servers"},
}


def test_relative_paths_start_where_the_run_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, job = tmp_path / "started", tmp_path / "out" / "tiny"
    for folder in (started / "model", job):
        folder.mkdir(parents=True)
    monkeypatch.chdir(job)
    monkeypatch.setenv(START, str(started))
    config = resolve(ROOT, {"run": "tiny", **CHANGES})
    paths = RunPaths.of(config)
    assert paths.folder == started / "out" / "tiny"
    assert paths.model_folder(config, MODEL) == started / "model"
    assert paths.dataset_file(config, "math500") == started / "set.jsonl"
    assert {source.folder for source in hub_sources(config, paths)} == {
        started / "cache" / "models" / "lab" / "model",
        started / "cache" / "datasets" / "lab" / "set",
    }
    assert [other.folder for other in paths.reused(config).values()] == [
        started / "out" / "earlier",
        started / "far" / "run",
    ]
    with pytest.raises(ValueError, match=str(started / "servers")):
        check_environment(config.sglang)
    assert project_root() == ROOT, "the folder of the start has no Snakefile"
    # What comes with the project is found from anywhere, and absolute paths stay.
    shipped = resolve(ROOT, {"run": "tiny", "results": str(tmp_path)})
    assert RunPaths.of(shipped).folder == tmp_path / "tiny"
    assert RunPaths.of(shipped).model_folder(shipped, MODEL).is_relative_to(ROOT)


def test_without_a_start_it_is_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(START, raising=False)
    monkeypatch.chdir(tmp_path)
    config = resolve(ROOT, {"run": "tiny", **CHANGES})
    paths = RunPaths.of(config)
    assert paths.folder == Path("out/tiny")
    assert paths.model_folder(config, MODEL) == Path("model")
