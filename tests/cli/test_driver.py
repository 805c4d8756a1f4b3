"""Which process drives a run, and Snakemake's lock when the driver was killed."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stair.cli.reproduce import _snakemake
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, ConfigError
from stair.pipeline.driver import is_driven, unlock
from tests.by_hand import by_hand

DRIVE = """
import sys
from pathlib import Path
from stair.config.paths import RunPaths
from stair.pipeline.driver import record_driver
record_driver(RunPaths(Path(sys.argv[1])))
print("drives", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def paths(tmp_path: Path) -> RunPaths:
    """A run with Snakemake's lock."""
    paths = RunPaths(tmp_path / "run")
    lock(paths).parent.mkdir(parents=True)
    lock(paths).touch()
    return paths


@pytest.fixture
def driver(paths: RunPaths) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", DRIVE, str(paths.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None and driver.stdout.readline() == "drives\n"
        yield driver
        driver.kill()


def lock(paths: RunPaths) -> Path:
    return paths.folder / ".snakemake" / "locks" / "0.output.lock"


def test_the_lock_of_a_killed_driver_is_removed_with_one_line(
    paths: RunPaths, driver: subprocess.Popen[str], capsys: pytest.CaptureFixture[str]
) -> None:
    refused = rf"another process drives .*\(process {driver.pid} on {socket.gethostname()}\)"
    with pytest.raises(ConfigError, match=refused):
        unlock(paths)
    with pytest.raises(ConfigError, match=refused):  # it has begun in the same second
        _snakemake(paths, ["false"])
    driver.kill()
    os.waitid(os.P_PID, driver.pid, os.WEXITED | os.WNOWAIT)
    unlock(paths)  # its parent has not collected it: a container's first process may never do so
    assert capsys.readouterr().err.splitlines() == [
        "The previous run was interrupted; resuming from its finished work."
    ]
    assert not lock(paths).exists() and not paths.driver.exists()
    unlock(paths)
    assert capsys.readouterr().err == ""


def test_a_driver_that_ends_leaves_no_record(paths: RunPaths, driver: subprocess.Popen[str]) -> None:
    driver.communicate()
    assert not paths.driver.exists()
    lock(paths).unlink()
    assert not is_driven(paths)


@pytest.mark.parametrize("record", [None, "", "elsewhere:1"])
def test_a_lock_of_an_unknown_driver_stays(paths: RunPaths, record: str | None) -> None:
    if record is not None:
        paths.driver.parent.mkdir()
        paths.driver.write_text(record)
    with pytest.raises(ConfigError, match=r"if it is surely gone, delete .*locks"):
        unlock(paths)
    assert lock(paths).exists()


HIDDEN = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from stair.config.paths import RunPaths
from stair.pipeline.driver import is_driven
print(is_driven(RunPaths(Path(sys.argv[1]))))
"""


def test_a_process_that_this_user_cannot_see_is_not_dead(paths: RunPaths) -> None:
    """Another user's, where /proc is mounted with hidepid=2."""
    hidden = ("unshare", "--mount", "sh", "-c", 'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh")
    # The interpreter may be in a folder of root's.
    capabilities = ("--inh-caps=+dac_override", "--ambient-caps=+dac_override")
    other = ("setpriv", "--reuid=12345", "--regid=12345", "--clear-groups", *capabilities)
    if subprocess.run([*hidden, *other, "true"], capture_output=True, check=False).returncode:
        pytest.skip("only root can hide processes and take another user id")
    paths.driver.parent.mkdir()
    paths.driver.write_text(f"{socket.gethostname()}:{os.getpid()}")
    command = [*hidden, *other, sys.executable, "-c", HIDDEN, str(paths.folder), str(Path(__file__).parents[2])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "True\n", done.stderr


def test_the_configuration_of_a_driven_run_is_not_replaced(tmp_path: Path) -> None:
    words = ("config", "--write", "--run", "tiny", "--set", f"results={tmp_path}")
    by_hand(*words)
    paths = RunPaths(tmp_path / "tiny")
    before = (tmp_path / "tiny" / RESOLVED).read_bytes()
    lock(paths).parent.mkdir(parents=True)
    lock(paths).touch()
    with pytest.raises(ConfigError, match="another process drives the run"):
        by_hand(*words, "--set", "evaluation={seed: other}")
    assert (tmp_path / "tiny" / RESOLVED).read_bytes() == before
    lock(paths).unlink()
    by_hand(*words, "--set", "evaluation={seed: other}")
    assert (tmp_path / "tiny" / RESOLVED).read_bytes() != before
