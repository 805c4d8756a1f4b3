"""Any damaged or removed file of a finished run: the same command gives the same bytes, or one line with a remedy that works.

One file of each path pattern is damaged in three ways. By default a sample is tested; `ALL=1` tests all, which takes hours.
"""

from __future__ import annotations

import os
import random
import re
import shlex
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.conftest import COMMAND
from tests.workflow.conftest import RESULTS, contents, environment, run_in

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("damaged")]

_RUN = Path("results/smoke")
_SAMPLE = {("garbage", ".snakemake/metadata"), ("garbage", "work/start.json"), ("flipped", "tables/intervals.md")}


def flip(path: Path) -> None:
    """Another bit in the middle, as a disk changes it: the file keeps its time."""
    before, content = path.stat(), bytearray(path.read_bytes() or b"\0")
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(200))


DAMAGES: dict[str, Callable[[Path], None]] = {"flipped": flip, "garbage": garbage, "removed": Path.unlink}


def pattern(path: Path) -> str:
    """A file's path without the names that only number it."""
    if ".snakemake" in path.parts:
        return path.parent.as_posix()
    return re.sub(r"p[0-9a-f]{15}|\d+", "*", path.as_posix())


def files(folder: Path) -> dict[str, Path]:
    """The first file of each path pattern."""
    found = (path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file())
    return {pattern(path): path for path in reversed(list(found))}


def mend(folder: Path, line: str) -> None:
    """Follows the remedy of a line."""
    if command := re.search(r"to (?:mend|update)[^:]*: (.*)$", line):
        subprocess.run(command[1], shell=True, cwd=folder, env=environment(), capture_output=True, check=False)
    elif deleted := re.search(r"delete (\S+?)[;,)]? ", f"{line} "):
        for place in (folder / _RUN / deleted[1], folder / deleted[1]):
            if place.is_relative_to(folder):
                place.unlink(missing_ok=True)


def outcome(folder: Path, expected: dict[str, bytes]) -> str:
    """Runs the command, follows its remedy once, and runs it again."""
    done = run_in(folder, *COMMAND, check=False)
    told = "same bytes"
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith(("stair: error: ", "failed: "))]
        if len(lines) != 1 or "Traceback" in done.stderr:
            return f"{len(lines)} lines: {done.stderr[-1500:]}"
        mend(folder, lines[0])
        again = run_in(folder, *COMMAND, check=False)
        if again.returncode:
            return f"the remedy does not work: {shlex.quote(lines[0])}: {again.stderr[-1500:]}"
        told = "one line"
    now = contents(folder / _RUN, *RESULTS)
    changed = [name for name in expected if now.get(name) != expected[name]]
    return f"other bytes: {changed}" if changed else told


def cases(folder: Path) -> Iterator[tuple[Path, str]]:
    for name, path in files(folder).items():
        yield from ((path, how) for how in DAMAGES if "ALL" in os.environ or (how, name) in _SAMPLE)


@pytest.mark.timeout(0)
def test_a_damaged_file_changes_nothing_or_is_one_line(undisturbed: Path, tmp_path: Path) -> None:
    expected, faults, outcomes = contents(undisturbed, *RESULTS), [], Counter[str]()
    for path, how in cases(undisturbed):
        folder = tmp_path / "run"
        shutil.copytree(undisturbed, folder / _RUN, symlinks=True)
        DAMAGES[how](folder / _RUN / path)
        told = outcome(folder, expected)
        outcomes[told.partition(":")[0]] += 1
        print(f"{how} {path}: {told}", flush=True)
        if told not in ("same bytes", "one line"):
            faults.append(f"{how} {path}: {told}")
        shutil.rmtree(folder)
    print(dict(outcomes))
    assert sum(outcomes.values()) >= len(_SAMPLE) and not faults, "\n".join(faults)
