"""A stage whose log is complete seals again without a model and without torch."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.workflow.conftest import run_in

pytestmark = pytest.mark.xdist_group("workflow")
MODEL = "qwen3-4b-instruct"

PROGRAM = """
import sys
sys.argv = ["stair", *sys.argv[1:]]
from stair.cli.main import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(
    ("words", "file"),
    [
        (("rollouts", "--model", MODEL), f"rollouts/{MODEL}.parquet"),
        (
            ("evaluate", "--model", MODEL, "--benchmark", "math500", "--condition", "stair"),
            f"responses/{MODEL}/math500/stair.parquet",
        ),
    ],
)
def test_a_complete_log_is_sealed_again_to_the_same_bytes(copied_run: Path, words: tuple[str, ...], file: str) -> None:
    path = copied_run / "results/micro" / file
    before = path.read_bytes()
    path.unlink()
    weights = copied_run / f"results/micro/backbones/{MODEL}/model.safetensors"
    run_in(copied_run, sys.executable, "-c", PROGRAM, words[0], "--run", "results/micro", *words[1:], "--seal")
    assert path.read_bytes() == before
    # A shard with nothing to do needs none either.
    assert weights.is_file()
    run_in(copied_run, sys.executable, "-c", PROGRAM, words[0], "--run", "results/micro", *words[1:])


def test_compacted_logs_are_sealed_to_the_same_bytes(copied_run: Path) -> None:
    results = copied_run / "results" / "micro"
    logs = results / f"work/rollouts/{MODEL}/log"
    (logs / "shard-0-of-2.000.log").write_bytes((logs / "shard-0-of-2.000.log").read_bytes() + b"torn")
    (results / "tables" / ".intervals.csv.elsewhere.12.partial").touch()
    os.utime(results / "tables" / ".intervals.csv.elsewhere.12.partial", (0, 0))
    rollouts = results / f"rollouts/{MODEL}.parquet"
    before = rollouts.read_bytes()
    done = run_in(copied_run, "stair", "compact", "--run", "results/micro")
    assert f"work/rollouts/{MODEL}/log: 2 files with " in done.stdout
    assert "1 unfinished files of processes that have ended removed" in done.stdout
    assert [path.name for path in logs.iterdir()] == ["compacted.000.log"]
    rollouts.unlink()
    run_in(copied_run, "stair", "rollouts", "--run", "results/micro", "--model", MODEL, "--seal")
    assert rollouts.read_bytes() == before
    assert run_in(copied_run, "stair", "compact", "--run", "results/micro").stdout == ""
