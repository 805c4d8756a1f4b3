"""The Makefile's targets by dry run: files that they name, and what variables become on the command line of `stair`."""

from __future__ import annotations

import os
import re
import shlex
import subprocess

import pytest

from tests.workflow.conftest import ROOT

ODD = '../it\'s "my" run $HOME.yaml'


MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
TARGETS = MAKEFILE.partition(".PHONY:")[2].partition("\n")[0].split()


def make(*arguments: str) -> str:
    """The output of make, without the variables of a make around the tests."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "RUN")}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=inherited, capture_output=True, text=True, check=True
    ).stdout


def words(*arguments: str) -> list[str]:
    """The words of the last `stair` command of a target, by a dry run of make."""
    lines = make("-n", *(argument.replace("$", "$$") for argument in arguments)).splitlines()
    return shlex.split([line for line in lines if "bin/stair " in line][-1])[1:]


@pytest.mark.parametrize("target", TARGETS)
def test_a_target_has_its_line_in_the_help_and_its_files(target: str) -> None:
    assert target == "help" or re.search(rf"\b{target}\b", make("help"))
    named = set(re.findall(r"\b(?:tests|envs|tools)/[\w./-]*\w", make("-n", target, "FILE=archive.tar.gz")))
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_help_names_no_other_target() -> None:
    assert set(re.findall(r"^make ([\w-]+)", make("help"), flags=re.M)) <= set(TARGETS)


def test_responses_by_sglang_build_its_environment_first() -> None:
    told = make("-n", "-B", "reproduce", "RUN=smoke", "ENGINE=sglang")
    assert (
        0 <= told.find("envs/sglang.sh") < told.find("stair reproduce --run 'smoke'  --set 'rollouts={engine: sglang}'")
    )


def test_an_archive_must_be_named() -> None:
    with pytest.raises(subprocess.CalledProcessError) as error:
        make("-n", "from-archive")
    assert "make from-archive FILE=" in error.value.stderr


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
