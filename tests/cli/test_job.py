"""A job of a command: what its manifest records, and which jobs a run has."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.cli.job import run_job
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, dump, load_run, resolve
from stair.pipeline import job_inputs, jobs
from stair.pipeline.jobs import JOBS
from stair.pipeline.verify import Receipts, faults
from stair.records import keys, manifest
from stair.records.keys import file_digest
from tests.listed import ROOT
from tests.sealed import seal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = tmp_path / "tiny"
    run.mkdir()
    (run / RESOLVED).write_text(dump(resolve(ROOT, {"run": "tiny", "results": str(tmp_path)})))
    return run


def test_a_manifest_records_the_start_of_the_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the job works, an input, the code, its settings and an installed package change."""
    hashed: list[str] = []

    def counted(path: Path) -> str:
        hashed.append(path.name)
        return file_digest(path)

    for module in (job_inputs, manifest, keys):
        monkeypatch.setattr(module, "file_digest", counted)
    source, output = folder / "rows.csv", folder / "checks.csv"
    source.write_text("as read")
    digest, code, versions = file_digest(source), "0" * 64, manifest.package_versions()
    monkeypatch.setattr(jobs, "source_digest", lambda *parts: code)

    def work(config: Config, paths: RunPaths) -> None:
        source.write_text("changed meanwhile")
        monkeypatch.setattr(jobs, "source_digest", lambda *parts: "other")
        monkeypatch.setattr(manifest, "package_versions", lambda: {"torch": "0"})
        monkeypatch.setitem(JOBS, "check", JOBS["check"]._replace(settings=lambda config: {"other": 1}))
        output.write_text("holds")

    monkeypatch.setattr("stair.stages.checks.stage.run", work)
    run_job(load_run(folder), RunPaths(folder), "check", {}, [source, source], [output], 1)
    recorded = manifest.read_manifest(manifest.manifest_path(output))
    assert recorded.inputs == {"rows.csv": digest}
    assert (recorded.content["source"], recorded.content["versions"]) == (code, versions)
    assert "other" not in recorded.settings
    assert hashed.count("rows.csv") == 1, "an input is read once"


def test_an_error_of_a_settings_function_is_no_missing_job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, output = resolve(ROOT, {"run": "tiny"}), folder / "checks.csv"
    output.write_text("holds")
    seal(RunPaths(folder), "check", output)

    def broken(config: object) -> None:
        raise TypeError("a fault of the code")

    monkeypatch.setitem(JOBS, "check", JOBS["check"]._replace(settings=broken))
    with pytest.raises(TypeError, match="a fault of the code"):
        list(faults(config, Receipts(folder)))


@pytest.mark.parametrize(
    ("run", "rule", "wildcards"),
    [
        ("tiny", "check", {"of": "another version"}),
        ("tiny", "preflight_model", {}),
        ("tiny", "preflight_model", {"model": "removed"}),
        ("tiny", "seal_evaluation", {"model": "qwen3.5-4b", "benchmark": "math500", "condition": "removed"}),
        ("smoke", "measure_runtime", {"model": "removed"}),
        ("pilot", "seal_replay", {"model": "qwen3.5-4b"}),
        ("pilot", "replay_statistics", {"model": "qwen3.5-4b", "part": "attention"}),
        ("pilot", "measure_runtime", {"model": "qwen3.5-4b"}),
        ("tiny", "table", {"table": "removed"}),
    ],
)
def test_an_output_of_a_job_that_the_run_does_not_have_is_not_stale(
    tmp_path: Path, run: str, rule: str, wildcards: dict[str, str]
) -> None:
    (tmp_path / "file").touch()
    manifest.write_manifest(
        tmp_path, [tmp_path / "file"], rule=rule, wildcards=wildcards, origin=manifest.Origin.now({}, {}, "0" * 64)
    )
    assert list(faults(resolve(ROOT, {"run": run}), Receipts(tmp_path))) == []
