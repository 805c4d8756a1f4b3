"""Remedies that name a command name the one with which the user started the run."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from stair.cli.reproduce import parse_settings
from stair.config.resolve import load_run, resolve
from tests.workflow.conftest import ROOT, SMOKE, run_in

SETTINGS = ("--set", "evaluation={samples: 3, seed: it's mine}", "--set", "results=out")


@pytest.mark.parametrize(
    "start", [("config", "--write"), ("reproduce", "--target", "out/mine/data/benchmarks/math500.parquet")]
)
def test_a_remedy_has_the_overlays_path_and_the_settings(tmp_path: Path, start: tuple[str, ...]) -> None:
    (tmp_path / "mine.yaml").write_text("extends: smoke\n")
    run_in(tmp_path, "stair", *start, "--run", "mine.yaml", *SETTINGS)
    done = run_in(tmp_path, "stair", "check", "--run", "out/mine", check=False)
    (line,) = done.stderr.splitlines()
    words = shlex.split(line.partition("to make it: ")[2])
    assert words[:4] == ["stair", "reproduce", "--run", str(tmp_path / "mine.yaml")]
    assert words[4::2] == ["--set", "--set"]
    overrides = parse_settings(words[5::2]) | {"run": words[3]}
    assert resolve(ROOT, overrides) == load_run(tmp_path / "out/mine"), "the command starts the same run"


def test_a_run_of_the_project_goes_by_its_name(tmp_path: Path) -> None:
    run_in(tmp_path, "stair", "config", "--write", "--run", str(SMOKE))
    done = run_in(tmp_path, "stair", "verify", "--run", "results/smoke", check=False)
    assert "to mend it: stair reproduce --run smoke\n" in done.stdout


def test_an_expensive_run_is_started_with_its_settings(tmp_path: Path) -> None:
    done = run_in(tmp_path, "stair", "reproduce", "--run", "paper", "--set", "evaluation={samples: 3}")
    assert "stair plan --run paper --set 'evaluation={samples: 3}'\n" in done.stdout
    assert done.stdout.endswith("To start it: stair reproduce --go --run paper --set 'evaluation={samples: 3}'\n")
