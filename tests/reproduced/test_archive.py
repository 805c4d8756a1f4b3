"""From an archive of the finished tiny run: every table and figure, byte for byte, without network, backbones or responses.

`make reproduce` comes first; then `make test-reproduced`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.pipeline.archive import SHOWN
from stair.pipeline.jobs import JOBS
from stair.records.manifest import manifest_files, read_manifest
from tests.reproduced.withheld import assert_withheld

pytestmark = [pytest.mark.reproduced, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "results" / "tiny"
NOWHERE = "http://127.0.0.1:9"
CLONED = ("stair", "snakemake_logger_plugin_stair", "workflow", "profiles", "envs", "Snakefile", "config.yaml")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert (FOLDER / "report.html").is_file(), "the tiny run has not ended: run `make reproduce` first"
    archive = tmp_path_factory.mktemp("archive") / "tiny.tar.gz"
    call(ROOT, "stair", "export", "--run", "results/tiny", "--out", str(archive))
    return archive


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project's code and workflow alone: no backbones, no results."""
    folder = tmp_path_factory.mktemp("clone")
    for name in CLONED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def call(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with the folder's own code; the network leads nowhere."""
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), NOWHERE)
    environment = os.environ | proxies | {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done


def alone() -> tuple[str, ...]:
    """The words before a command that take all networks away, where this machine can."""
    words = ("unshare", "--net")
    able = (
        shutil.which("unshare") and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0
    )
    return words if able else ()


def test_every_table_and_figure_is_made_again(archive: Path, clone: Path) -> None:
    done = call(clone, *alone(), "stair", "from-archive", str(archive))
    again = clone / "results/tiny"
    compared = 0
    for manifest in map(read_manifest, manifest_files(FOLDER)):
        # Rows of a benchmark whose text is withheld have digests in place of texts.
        if JOBS[manifest.rule].stage in (*SHOWN, "scores") and manifest.wildcards.get("benchmark") != "gpqa_diamond":
            for name in manifest.files:
                assert (again / name).read_bytes() == (FOLDER / name).read_bytes(), name
                compared += 1
    assert compared > 150
    assert "files of tables, figures and comparison are those of the archive" in done.stdout
    assert "not compared" not in done.stderr
    for name in (
        "responses",
        "rollouts",
        "raw",
        "data/benchmarks",
        "work/evaluation",
        "replay/qwen3-4b-instruct/states",
    ):
        assert not (again / name).exists(), name
    assert not (clone / "backbones").exists()
    assert (again / "report.html").is_file()

    assert "0 missing, 0 damaged, 0 stale" in call(clone, "stair", "verify", "--run", "results/tiny").stdout
    lineage = call(
        clone, "stair", "why", "results/tiny/tables/continuous_summary.csv", "--full", "--run", "results/tiny"
    ).stdout
    assert "evaluation/qwen3.5-9b/gpqa_diamond/stair.parquet" in lineage


def test_the_same_run_gives_the_same_archive(archive: Path, tmp_path: Path) -> None:
    call(ROOT, "stair", "export", "--run", "results/tiny", "--out", str(tmp_path / "again.tar.gz"))
    assert (tmp_path / "again.tar.gz").read_bytes() == archive.read_bytes()
    with tarfile.open(archive) as packed:
        members = packed.getmembers()
    assert [member.name for member in members] == sorted(member.name for member in members)
    assert {(member.mtime, member.uid, member.gid, member.uname, member.mode) for member in members} == {
        (0, 0, 0, "", 0o644)
    }


def test_an_archive_has_no_text_that_may_not_be_published(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert assert_withheld(files, load_run(FOLDER), RunPaths(FOLDER)) > 300
