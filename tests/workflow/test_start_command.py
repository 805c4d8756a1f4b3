"""A run is named by its overlay, or by its folder, as remedies do."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.resolve import RESOLVED, load_run, resolve
from tests.workflow.conftest import ROOT, run_in

SETTINGS = ("--set", "evaluation={samples: 3, seed: it's mine}", "--set", "results=out")


@pytest.mark.parametrize(
    "start", [("config", "--write"), ("reproduce", "--target", "out/mine/data/benchmarks/math500.parquet")]
)
def test_a_remedy_names_the_runs_folder_which_has_its_settings(tmp_path: Path, start: tuple[str, ...]) -> None:
    (tmp_path / "mine.yaml").write_text("extends: smoke\n")
    run_in(tmp_path, "stair", *start, "--run", "mine.yaml", *SETTINGS)
    done = run_in(tmp_path, "stair", "check", "--run", "out/mine", check=False)
    (line,) = done.stderr.splitlines()
    assert line.endswith("to make it: stair reproduce --run out/mine")
    resolved = (tmp_path / "out/mine" / RESOLVED).read_text()
    (tmp_path / "mine.yaml").unlink()
    run_in(tmp_path, "stair", "config", "--write", "--run", "out/mine")
    assert (tmp_path / "out/mine" / RESOLVED).read_text() == resolved, "the command starts the same run"
    run_in(tmp_path, "stair", "config", "--write", "--run", "out/mine", "--set", "evaluation={samples: 2}")
    config = load_run(tmp_path / "out/mine")
    assert (config.evaluation.samples, config.evaluation.seed) == (2, "it's mine")
    (tmp_path / "out/mine").rename(tmp_path / "copied")
    assert resolve(ROOT, {"run": str(tmp_path / "copied")}).run == "copied"


def test_an_expensive_run_is_started_with_its_settings(tmp_path: Path) -> None:
    done = run_in(tmp_path, "stair", "reproduce", "--run", "paper", "--set", "evaluation={samples: 3}")
    assert "stair plan --run paper --set 'evaluation={samples: 3}'\n" in done.stdout
    assert done.stdout.endswith("To start it: stair reproduce --go --run paper --set 'evaluation={samples: 3}'\n")
