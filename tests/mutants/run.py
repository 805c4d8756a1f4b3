"""Puts faults into copies of the project, one at a time, and reports the faults that no test finds (CONTRIBUTING.md).

Ends with 1 if a fault that `record.csv` calls killed was not killed.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import suppress
from importlib.util import cache_from_source
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

# Before torch and Transformers are imported.
os.environ |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

import pytest
import yaml

HERE, ROOT = Path(__file__).parent, Path(__file__).parents[2]
RECORD = HERE / "record.csv"
SECONDS = 120
"""Processor time for the tests of a fault. Five times as much may pass on the clock."""
IMPORTED_ONCE = ["torch", "transformers.models.qwen3.modeling_qwen3", "transformers.models.qwen3_5.modeling_qwen3_5",
                 "transformers.models.llama.modeling_llama", "pandas", "pyarrow.parquet", "scipy.stats", "pydantic"]  # fmt: skip
"""Modules that the tests of all faults inherit. None is the project's."""
OUTCOMES = KILLED, SURVIVED, TIMED_OUT, STALE = "killed", "survived", "timed out", "no longer applies"
NOT_FOUND = "pytest ends with 4"
"""A named test does not exist, or `conftest.py` has an error."""
Outcome = tuple[str, str]
"""One of `OUTCOMES`, and the test that failed."""


class Mutant(NamedTuple):
    """A fault: `new` replaces `old`, which `file` contains once."""

    file: str
    tests: list[str]
    name: str
    by: str
    old: str
    new: str
    equivalent: str = ""
    """Why no user would notice it. Such a fault runs only by its name."""


class Failures:
    """A plugin of pytest: the names of failed tests."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            self.names.append(report.nodeid)

    pytest_collectreport = pytest_runtest_logreport


class Copy:
    """A copy of the project with an environment whose programs and processes import the copy's code."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.project = folder, folder / "project"
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        for name in subprocess.check_output(command, cwd=ROOT, text=True).split("\0"):
            if (ROOT / name).is_file():
                (self.project / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self.project / name)
        ours, theirs = Path(sys.executable).parents[1], self.project / ".venv"
        venv.create(theirs, symlinks=True)
        packages, site = (next(place.glob("lib/python*/site-packages")) for place in (ours, theirs))
        paths = f"{self.project}\n{self.project / 'grader'}\nimport site; site.addsitedir({str(packages)!r})\n"
        (site / "copy.pth").write_text(paths, encoding="utf-8")
        head = f"#!{ours}/bin/".encode()
        for program in (ours / "bin").iterdir():
            target = theirs / "bin" / program.name
            if (content := program.read_bytes()).startswith(head):
                target.write_bytes(content.replace(head, f"#!{theirs}/bin/".encode(), 1))
                target.chmod(0o755)
            elif not target.exists():
                target.symlink_to(program)

    def write(self, file: str, text: str) -> None:
        path = self.project / file
        path.write_text(text, encoding="utf-8")
        # Two texts of one length, written within a second, would share their bytecode.
        Path(cache_from_source(str(path))).unlink(missing_ok=True)

    def failed(self, words: list[str], seconds: int = SECONDS) -> list[str] | None:
        """The failed tests of a forked pytest, or the code of one that failed otherwise; None after the limit."""
        (self.folder / "result").unlink(missing_ok=True)
        if not (child := os.fork()):
            self._pytest(words, seconds)
        until, ended, status = time.monotonic() + 5 * seconds, 0, 0
        while not ended and time.monotonic() < until:
            time.sleep(0.05)
            ended, status = os.waitpid(child, os.WNOHANG)
        with suppress(ProcessLookupError):  # processes that tests left
            os.killpg(child, signal.SIGKILL)
        if not ended:
            os.waitpid(child, 0)
        if not ended or (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGXCPU):
            return None
        if not (self.folder / "result").exists():
            return [f"the tests' process ends with {status}"]
        code, names = json.loads((self.folder / "result").read_text())
        # 5: all tests are skipped.
        return names or ([f"pytest ends with {code}"] if code not in (0, 5) else [])

    def _pytest(self, words: list[str], seconds: int) -> None:
        os.setsid()
        os.chdir(self.project)
        log = os.open(self.folder / "log", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        for stream in range(3):
            os.dup2(log, stream)
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, resource.RLIM_INFINITY))
        sys.executable = str(self.project / ".venv" / "bin" / "python")
        sys.path[:1] = [str(self.project), str(self.project / "grader")]
        failures = Failures()
        options = ["-c", "pyproject.toml", "-q", "-p", "no:cacheprovider", f"--basetemp={self.folder / 'tmp'}"]
        code = pytest.main([*words, *options], plugins=[failures])
        (self.folder / "result").write_text(json.dumps([int(code), failures.names]))
        os._exit(0)


def _start(folder: str) -> None:
    global copy
    copy = Copy(Path(tempfile.mkdtemp(dir=folder)))


def _try(mutant: Mutant, first: str) -> Outcome:
    """`first`: the test that runs before the others."""
    path = copy.project / mutant.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if text.count(mutant.old) != 1:
        return STALE, f"{mutant.file} contains the old text {text.count(mutant.old)} times"
    if missing := [test for test in mutant.tests if not (copy.project / test.split("::")[0]).exists()]:
        return STALE, f"there is no {missing[0]}"
    copy.write(mutant.file, text.replace(mutant.old, mutant.new))
    try:
        failed = copy.failed(["-x", first, *mutant.tests]) if "::" in first else [NOT_FOUND]
        if failed == [NOT_FOUND]:
            failed = copy.failed(["-x", *mutant.tests])
    finally:
        copy.write(mutant.file, text)
    return (TIMED_OUT, "") if failed is None else (KILLED, failed[0]) if failed else (SURVIVED, "")


def _unmutated(tests: list[str]) -> list[str]:
    failed = copy.failed(tests, SECONDS * len(tests))
    return tests if failed is None else failed


def part_of(file: str) -> str:
    """The folder of the product."""
    folders = file.removesuffix(".py").split("/")
    return folders[2] if folders[1] == "stages" else "grader" if folders[0] == "grader" else folders[1]


def main() -> int:
    words = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    words.add_argument("--only", action="append", metavar="NAME", help="a fault, or a file with all of its faults")
    words.add_argument("--workers", type=int, default=2)
    words.add_argument("--record", action="store_true", help=f"write the outcomes to {RECORD.name}")
    given, listed, before, after = words.parse_args(), list[Mutant](), dict[str, Outcome](), dict[str, Outcome]()
    for file, part in yaml.safe_load((HERE / "mutants.yaml").read_text(encoding="utf-8")).items():
        listed += [Mutant(file, part["tests"].split(), **each) for each in part["mutants"]]
    assert len({each.name for each in listed}) == len(listed), "two faults have one name"
    if RECORD.exists():
        before = {name: (outcome, test) for name, outcome, test in csv.reader(RECORD.open(encoding="utf-8"))}
    chosen = [each for each in listed if not given.only or {each.name, each.file} & set(given.only)]
    chosen = [each for each in chosen if given.only or not each.equivalent]
    for module in IMPORTED_ONCE:
        importlib.import_module(module)
    started = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="m") as folder,
        ProcessPoolExecutor(given.workers, get_context("fork"), _start, (folder,)) as pool,
    ):
        running = {pool.submit(_try, each, before.get(each.name, ("", ""))[1]): each for each in chosen}
        for number, done in enumerate(as_completed(running), 1):
            name = running[done].name
            after[name] = outcome, test = done.result()
            left = (time.monotonic() - started) / number * (len(chosen) - number) / 60
            print(f"{number}/{len(chosen)}, {left:.0f} min left: {outcome:9} {name}  {test}", flush=True)
            if given.record:
                rows = [(each.name, *(before | after)[each.name]) for each in listed if each.name in before | after]
                with RECORD.open("w", newline="", encoding="utf-8") as file:
                    csv.writer(file, lineterminator="\n").writerows(rows)
        killing = sorted({test for outcome, test in after.values() if outcome == KILLED and "::" in test})
        unsound = pool.submit(_unmutated, killing).result() if killing else []
    parts = Counter((part_of(each.file), after[each.name][0]) for each in chosen)
    print(f"\n{'part':20}", *(f"{outcome:>17}" for outcome in OUTCOMES))
    for part in sorted({part for part, _ in parts}):
        print(f"{part:20}", *(f"{parts[part, outcome]:17}" for outcome in OUTCOMES))
    lost = [name for name, (outcome, _) in after.items() if outcome != KILLED and before.get(name, [""])[0] == KILLED]
    for message in (
        *(f"no longer killed: {name}" for name in lost),
        *(f"fails without a fault: {test}" for test in unsound),
    ):
        print(message)
    return int(bool(lost or unsound))


if __name__ == "__main__":
    sys.exit(main())
