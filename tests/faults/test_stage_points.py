"""SIGKILL at the write points of every stage that writes its output in one piece, and again in its resume."""

from __future__ import annotations

import importlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stair.cli.warm import MODULES
from stair.pipeline.jobs import JOBS
from stair.records.files import remove_unfinished
from tests.faults.harness import Kill, every_kill, forked, some_of

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]
MODEL, PLACE = "qwen3-4b-instruct", "qwen3-4b-instruct/math500"

# A curve has the time of each update; a manifest's checksum covers its times.
TIMED = ("sealed", "sha256", "seconds", "tokens_per_second", "curve.csv")

STAGES: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    # command, what it writes
    (("raw", "--name", "math500"), ("raw/math500.jsonl",)),
    (("benchmark", "--benchmark", "math500"), ("data/benchmarks/math500.parquet",)),
    (("training-pool", "--model", MODEL), (f"data/training/{MODEL}.parquet",)),
    (
        ("training-sessions", "--model", MODEL),
        (f"sessions/training/{MODEL}.parquet", f"sessions/validation/{MODEL}.parquet"),
    ),
    (("evaluation-sessions", "--benchmark", "math500"), ("sessions/evaluation/math500.parquet",)),
    (("preflight-model", "--model", MODEL), (f"preflight/{MODEL}.json",)),
    (
        ("train-controller", "--model", MODEL, "--controller", "stair"),
        (f"controllers/{MODEL}/stair/controller.safetensors",),
    ),
    (
        ("score-condition", "--model", MODEL, "--benchmark", "math500", "--condition", "native"),
        (f"evaluation/{PLACE}/native.parquet",),
    ),
    (
        ("replay-design", "--model", MODEL),
        (f"replay/{MODEL}/problems.parquet", f"replay/{MODEL}/histories.parquet"),
    ),
    (("seal-replay", "--model", MODEL), (f"replay/{MODEL}/states.sha256",)),
    (("check",), ("checks.csv",)),
    (
        ("table", "--table", "continuous_summary"),
        tuple(f"tables/continuous_summary{suffix}" for suffix in (".csv", ".md", ".tex", ".html")),
    ),
    (("figure", "--figure", "overview"), ("figures/overview.csv", "figures/overview.png", "figures/overview.pdf")),
    (("provenance",), ("provenance.json",)),
]

STEPS = {"train-controller": 5, "figure": 3, "score-condition": 2}
"""Commands that take seconds are killed at every so many of these points."""


@pytest.fixture(scope="module", autouse=True)
def _preloaded() -> None:
    """What every forked child would import."""
    for module in (*MODULES, *(row.run.partition(":")[0] for row in JOBS.values())):
        importlib.import_module(module)


def job(words: tuple[str, ...]) -> Callable[[Path], None]:
    """A command of the program, run in this process."""

    def run(folder: Path) -> None:
        from stair.cli.job import add_job_commands
        from stair.cli.main import app

        add_job_commands()
        os.chdir(folder.parent.parent)
        app([words[0], "--run", "results/smoke", *words[1:]], standalone_mode=False)

    return run


def written(results: Path, names: tuple[str, ...]) -> dict[str, Any]:
    """Outputs and their manifests, but for the time of sealing and what a training took."""
    found: dict[str, Any] = {name: (results / name).read_bytes() for name in names}
    for path in {manifest for name in names for manifest in (results / name).parent.glob("*manifest.json")}:
        found[path.name] = timeless(json.loads(path.read_text()))
    return found


def timeless(content: Any) -> Any:
    """A manifest's content without what the clock has written into it."""
    if isinstance(content, list):
        return [timeless(value) for value in content]
    if not isinstance(content, dict):
        return content
    return {key: timeless(value) for key, value in content.items() if key.rpartition("/")[2] not in TIMED}


def files_of(results: Path) -> set[Path]:
    return {path for path in results.rglob("*") if path.is_file()}


def removed(results: Path, names: tuple[str, ...]) -> None:
    """Deletes outputs as Snakemake does before it runs a job again; manifests are none of them."""
    for name in names:
        (results / name).unlink(missing_ok=True)


@pytest.mark.parametrize(("words", "names"), STAGES, ids=[" ".join(words) for words, _ in STAGES])
def test_a_stage_that_is_killed_at_any_write_point_ends_the_same(
    undisturbed: Path, tmp_path: Path, words: tuple[str, ...], names: tuple[str, ...]
) -> None:
    results = tmp_path / "results" / "smoke"
    shutil.copytree(undisturbed, results)
    run = job(words)
    removed(results, names)
    points = forked(run, results).points
    expected = written(results, names)
    before = files_of(results)
    assert len(points) > 3
    kills = every_kill(points, of_a_kind=1)
    for number, kill in enumerate(kills[:: STEPS.get(words[0], 1)]):
        removed(results, names)
        where = f"{kill} ({points[kill.number]})"
        assert forked(run, results, kill).killed, where
        if number % 3 == 0:
            removed(results, names)
            forked(run, results, Kill(some_of(len(points), number)))
        # Whole or absent, at any moment.
        for name in names:
            assert not (results / name).exists() or (results / name).read_bytes() == expected[name], f"{name}: {where}"
        forked(run, results)
        assert written(results, names) == expected, where
        remove_unfinished(results)
        now = files_of(results)
        assert now == before, f"{where}: {sorted(now ^ before)}"
