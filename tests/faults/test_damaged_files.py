"""Any damaged or removed file of a finished run: the same command gives the same bytes, or one line with a remedy that works.

All files are damaged together. With `ALL=1` one file of each kind is damaged by itself too, which takes hours.
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
from itertools import cycle
from pathlib import Path

import pytest

from stair.config.resolve import load_run
from stair.pipeline.verify import Fault, Receipts, faults
from stair.records.manifest import MEASURED, SUFFIX, manifest_files, read_manifest
from tests.faults.conftest import COMMAND
from tests.workflow.conftest import RESULTS, contents, environment, run_in

pytestmark = [pytest.mark.faults, pytest.mark.xdist_group("damaged")]

_RUN = Path("results/smoke")
_SAMPLE = {
    ("flipped", "tables/*.md"),
    ("garbage", "raw/math*.jsonl.manifest.json"),
}


def flip(path: Path) -> None:
    """Another bit in the middle, as a disk changes it: the file keeps its time."""
    before, content = path.stat(), bytearray(path.read_bytes() or b"\0")
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def garbage(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(200))


def cut(path: Path) -> None:
    """Half of it, as a disk loses the rest: the file keeps its time."""
    before = path.stat()
    os.truncate(path, before.st_size // 2)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def empty(path: Path) -> None:
    path.write_bytes(b"")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "flipped": flip,
    "garbage": garbage,
    "removed": Path.unlink,
    "cut": cut,
    "emptied": empty,
}


def kind(path: Path) -> str:
    """A file's path without the names that only number it, or that name one of many files made and read alike."""
    if path.parts[0] == "logs":
        return "logs"
    if path.parts[0] == ".snakemake":
        return path.parent.as_posix()
    if path.parts[0] in ("tables", "figures"):
        return f"{path.parts[0]}/*{''.join(path.suffixes)}"
    if path.parts[0] == "work" and {"progress", "log"} & set(path.parts):
        return f"work/{path.parts[1]}"
    return re.sub(r"p[0-9a-f]{15}|\d+", "*", path.as_posix())


def every_file(folder: Path) -> list[Path]:
    return [path.relative_to(folder) for path in sorted(folder.rglob("*")) if path.is_file()]


def files(folder: Path) -> dict[str, Path]:
    """The first file of each kind."""
    return {kind(path): path for path in reversed(every_file(folder))}


def mend(folder: Path, line: str) -> None:
    """Follows the remedy of a line."""
    if command := re.search(r"to make (?:it|them) again: (.*?)(?: \(log: .*\))?$", line):
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
        # Every job that would read the file names it, with the same remedy.
        reasons = {re.sub(r"^failed: [^:]+: | \(log: .*\)$", "", line) for line in lines} - {"the same"}
        causes = {reason.partition(" is made from ")[2] or reason for reason in reasons}
        if len(causes) != 1 or "Traceback" in done.stderr:
            return f"{len(lines)} lines: {done.stderr[-1500:]}"
        mend(folder, lines[0])
        again = run_in(folder, *COMMAND, check=False)
        if again.returncode:
            return f"the remedy does not work: {shlex.quote(lines[0])}: {again.stderr[-1500:]}"
        told = "one line"
    now = contents(folder / _RUN, *RESULTS)
    changed = [name for name in expected if now.get(name) != expected[name]]
    return f"other bytes: {changed}" if changed else told


def sealed_files(folder: Path) -> dict[str, set[str]]:
    """The files with a digest in a manifest: outputs, and measurements behind an output."""
    manifests = [read_manifest(path).content for path in manifest_files(folder)]
    return {key: {name for content in manifests for name in content.get(key, ())} for key in ("files", MEASURED)}


def test_exactly_the_damaged_files_are_named(undisturbed: Path, tmp_path: Path) -> None:
    """All outputs, then all measurements, then all manifests."""
    folder = shutil.copytree(undisturbed, tmp_path / "smoke", symlinks=True)
    sealed = sealed_files(undisturbed)
    for name in sealed["files"]:
        flip(folder / name)
    assert {(fault.file, fault.state) for fault in verified(folder)} == {(name, "damaged") for name in sealed["files"]}
    shutil.copytree(undisturbed, folder, symlinks=True, dirs_exist_ok=True)
    for name in sealed[MEASURED]:
        flip(folder / name)
    assert (
        {fault.reason for fault in verified(folder)}
        == {f"its measurement {name} has changed" for name in sealed[MEASURED]}
        != set()
    )
    shutil.copytree(undisturbed, folder, symlinks=True, dirs_exist_ok=True)
    manifests = list(manifest_files(folder))
    for path in manifests:
        flip(path)
    assert {fault.file for fault in verified(folder)} >= {path.relative_to(folder).as_posix() for path in manifests}


def verified(folder: Path) -> list[Fault]:
    return list(faults(load_run(folder), Receipts(folder)))


@pytest.mark.parametrize("how", ["flipped", "garbage", "removed"])
def test_files_that_are_no_results_can_all_be_lost(undisturbed: Path, tmp_path: Path, how: str) -> None:
    """Every file below work/ and logs/, all together, the resolved configuration, and, removed, Snakemake's records."""
    folder, kept = tmp_path / "run", set[str]().union(*sealed_files(undisturbed).values())
    shutil.copytree(undisturbed, folder / _RUN, symlinks=True)
    for path in every_file(undisturbed):
        if (
            path.as_posix() not in kept
            and SUFFIX not in path.name
            and (how == "removed" or path.parts[0] != ".snakemake")
        ):
            DAMAGES[how](folder / _RUN / path)
    told = outcome(folder, contents(undisturbed, *RESULTS))
    assert told in ("same bytes", "one line"), told


def cases(folder: Path) -> Iterator[tuple[Path, str]]:
    """The sample; with `ALL=1` one file of each kind: removed, flipped, and damaged in one of the other ways by turns."""
    found = files(folder)
    if "ALL" not in os.environ:
        yield from ((found[kind], how) for how, kind in _SAMPLE)
        return
    others = cycle(("garbage", "cut", "emptied"))
    for path in found.values():
        yield from ((path, how) for how in ("removed", "flipped", next(others)))


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
