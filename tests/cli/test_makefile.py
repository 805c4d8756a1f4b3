"""What the Makefile's variables become on the command line of `stair`."""

from __future__ import annotations

import os
import shlex
import subprocess

import pytest

from tests.workflow.conftest import ROOT

ODD = '../it\'s "my" run $HOME.yaml'


def words(*arguments: str) -> list[str]:
    """The words of the last `stair` command of a target, by a dry run of make."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "RUN")}
    command = ["make", "-n", *(argument.replace("$", "$$") for argument in arguments)]
    lines = subprocess.run(command, cwd=ROOT, env=inherited, capture_output=True, text=True, check=True).stdout
    return shlex.split([line for line in lines.splitlines() if "bin/stair " in line][-1])[1:]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("reproduce", f"RUN={ODD}"), ["reproduce", "--run", ODD]),
        (("paper", f"RUN={ODD}"), ["paper", "--run", ODD]),
        (("archive", f"RUN={ODD}", "OUT=my arch.tar.gz"), ["export", "--run", ODD, "--out", "my arch.tar.gz"]),
        (("archive",), ["export", "--run", "tiny"]),
        (("from-archive", "FILE=my arch.tar.gz"), ["from-archive", "my arch.tar.gz"]),
        (("from-archive", "FILE=a", f"RUN={ODD}"), ["from-archive", "a", "--run", ODD]),
    ],
)
def test_a_path_with_spaces_and_quotes_is_one_word(arguments: tuple[str, ...], expected: list[str]) -> None:
    assert words(*arguments) == expected


@pytest.mark.parametrize(
    ("value", "on"), [("1", True), ("yes", True), ("0", False), ("no", False), ("false", False), ("", False)]
)
def test_a_switch_can_be_off(value: str, on: bool) -> None:
    assert ("--go" in words("reproduce", f"GO={value}")) is on
