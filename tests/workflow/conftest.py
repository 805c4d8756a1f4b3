"""A smoke run of the real workflow, made once for all tiers and copied by the tests that change something."""

from __future__ import annotations

import atexit
import csv
import fcntl
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from tempfile import NamedTemporaryFile, TemporaryFile
from typing import IO

import pytest

from stair.cli.warm import SOCKET, warm_process
from stair.core import condition_key
from stair.pipeline.job_list import JOB_LIST
from stair.records.manifest import commit, manifest_files
from tests.listed import listed

ROOT = Path(__file__).parents[2]
SMOKE = ROOT / "workflow" / "runs" / "smoke.yaml"
BIN = Path(sys.executable).parent
CODE = ("stair", "snakemake_logger_plugin_stair", "workflow", "profiles", "envs", "grader/answer_grader")


def environment() -> dict[str, str]:
    """The surroundings of a user's shell: the environment's programs on the PATH."""
    return {**os.environ, "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"}


_warm: dict[str, str] = {}
"""Names the socket of the process from which commands fork, while there is one."""


@pytest.fixture(scope="session", autouse=True)
def _one_import_for_all_commands() -> Iterator[None]:
    """Commands and Snakemake's jobs fork from one warm process, as a run's jobs do, and need not import torch each.

    The finished run, from which all others are copied, is made without it, as are runs that are to be killed.
    """
    with warm_process(shell := environment()):
        _warm[SOCKET] = shell[SOCKET]
        yield
    _warm.clear()


def run_in(
    folder: Path, *words: str, check: bool = True, warm: bool | None = None, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a folder; its output is in the assertion's message when it fails.

    `warm`: whether commands fork from the warm process; by default those that are given here directly. Snakemake itself
    then forks from this process. `more`: more environment variables; with a PYTHONPATH, commands do not fork.
    """
    warm = words[0] in ("stair", "snakemake") if warm is None else warm
    other_code = "PYTHONPATH" in os.environ or "PYTHONPATH" in (more or {})
    shell = environment() | (_warm if warm and not other_code else {}) | dict(more or {})
    if words[0] == "snakemake" and warm:
        done = forked_snakemake(folder, words, shell)
    else:
        done = subprocess.run(words, cwd=folder, env=shell, capture_output=True, text=True, timeout=400, check=False)
    if check:
        assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done


def forked_snakemake(folder: Path, words: tuple[str, ...], shell: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """Snakemake in a fork of this process, which imports it and parses the package's sources once for all tests."""
    _prepare_snakemake()
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        child = multiprocessing.get_context("fork").Process(
            target=_snakemake, args=(folder, words, shell, output, errors)
        )
        child.start()
        child.join(400)
        if child.exitcode is None:
            child.kill()
            pytest.fail(f"{' '.join(words)} has not ended")
        for file in (output, errors):
            file.seek(0)
        return subprocess.CompletedProcess(words, child.exitcode, output.read(), errors.read())


_PACKAGES = ("stair", "answer_grader", "snakemake_logger_plugin_stair")
"""The project's, which a forked Snakemake imports again where there is other code of them."""


@cache
def _prepare_snakemake() -> None:
    from snakemake import cli as snakemake_cli  # other folders' tests import this file without Snakemake

    snakemake_cli.get_argument_parser()  # imports the plugins


def _snakemake(folder: Path, words: tuple[str, ...], shell: dict[str, str], output: IO[str], errors: IO[str]) -> None:
    """Runs the program of this name in the forked process."""
    from snakemake.cli import main

    os.chdir(folder)
    os.environ.clear()
    os.environ.update(shell)
    os.dup2(output.fileno(), 1)
    os.dup2(errors.fileno(), 2)
    sys.stdout, sys.stderr, sys.argv = os.fdopen(1, "w"), os.fdopen(2, "w"), list(words)
    atexit._clear()  # the handlers of the tests' process
    if "PYTHONPATH" in shell:  # has other code of the project
        sys.path[:0] = shell["PYTHONPATH"].split(os.pathsep)
        for name in [name for name in sys.modules if name.split(".")[0] in _PACKAGES]:
            del sys.modules[name]
    try:
        main()
    finally:
        atexit._run_exitfuncs()  # which a forked process does not run by itself


def snakemake(
    folder: Path,
    *words: str,
    config: tuple[str, ...] = (),
    check: bool = True,
    more: Mapping[str, str] | None = None,
    root: Path = ROOT,
    run: Path = SMOKE,
) -> subprocess.CompletedProcess[str]:
    """Runs Snakemake on a run in a folder; `root` has the Snakefile."""
    tail = ("--config", f"run={run}", *config)
    command = ("snakemake", "--snakefile", str(root / "Snakefile"), *words)
    return run_in(folder, *command, *tail, check=check, more=more)


def jobs_of(done: subprocess.CompletedProcess[str]) -> dict[str, int]:
    """The job counts of a dry run, by rule."""
    counts, within = {}, False
    for line in done.stdout.splitlines() + done.stderr.splitlines():
        if line.startswith("job ") and "count" in line:
            within = True
        elif within and line.startswith("total"):
            break
        elif within and (parts := line.split()) and len(parts) == 2 and parts[1].isdigit():
            counts[parts[0]] = int(parts[1])
    return counts


def planned(
    folder: Path,
    *words: str,
    config: tuple[str, ...] = (),
    more: Mapping[str, str] | None = None,
    root: Path = ROOT,
) -> set[str]:
    """The jobs that Snakemake would run on the smoke run, as tests/workflow/smoke_jobs.py names them."""
    with NamedTemporaryFile("r+") as listed:
        listing = {JOB_LIST: listed.name, **(more or {})}
        snakemake(folder, *words, "--dry-run", config=config, more=listing, root=root)
        jobs = [json.loads(line) for line in listed]
    names = [name_of(job["rule"], job["wildcards"]) for job in jobs]
    assert len(names) == len(set(names))
    return set(names)


def name_of(rule: str, wildcards: Mapping[str, str]) -> str:
    """The rule and the wildcards, without those that all of the run's jobs share."""
    shared = {"model": "qwen3-4b-instruct", "benchmark": "math500"}
    if "study" in wildcards:
        wildcards = {**wildcards, "condition": condition_key(wildcards["study"], wildcards["condition"])}
    hidden = ("of", "suffix", "study")
    kept = (value for key, value in wildcards.items() if value != shared.get(key) and key not in hidden)
    return " ".join((rule, *kept))


def with_dependents(changed: Collection[str]) -> set[str]:
    """Jobs of the smoke run and all that are made from their outputs, as Snakemake lists them."""
    ran: set[str] = set()
    made: set[str] = set()
    for job in listed("smoke"):
        if (name := name_of(job.rule, job.wildcards)) in changed or made & set(job.inputs):
            ran.add(name)
            made |= set(job.outputs)
    return ran


def receipts(results: Path) -> dict[Path, bytes]:
    """The manifests of a run. Each has the time of its job."""
    return {path: path.read_bytes() for path in manifest_files(results)}


def assert_ran(results: Path, before: dict[Path, bytes], expected: Collection[str]) -> None:
    """Since `before`, as many jobs of each rule have run as in `expected`. Shards have no manifest and are not counted."""
    now = receipts(results)
    ran = Counter(json.loads(now[path])["rule"] for path in now if before.get(path) != now[path])
    rules = [name.split()[0] for name in expected]
    assert ran == Counter(rule for rule in rules if not rule.endswith("_shard"))


def contents(folder: Path, *patterns: str) -> dict[str, bytes]:
    """The bytes of a run's files, without what was measured of the machine."""
    found = (path for pattern in patterns for path in folder.glob(pattern) if path.is_file())
    paths = {path for path in found if path.name not in _MEASURED}
    return {str(path.relative_to(folder)): _results_of(path) for path in sorted(paths)}


_MEASURED = {f"{table}{suffix}" for table in ("bank_runtime", "in_text") for suffix in (".csv", ".md", ".tex", ".html")}
_MEASURED -= {"in_text.csv"}


def _results_of(path: Path) -> bytes:
    if path.name == "in_text.csv":
        return b"".join(line for line in path.open("rb") if not line.startswith(b"app:component-runtime"))
    if path.name != "curve.csv":
        return path.read_bytes()
    rows = list(csv.DictReader(path.read_text().splitlines()))
    kept = [[row[name] for name in row if name not in ("tokens_per_second", "peak_memory_mib")] for row in rows]
    return repr(kept).encode()


RESULTS = (
    "responses/**/*.parquet",
    "rollouts/*.parquet",
    "sessions/**/*.parquet",
    "controllers/**/*.safetensors",
    "controllers/**/curve.csv",
    "evaluation/**/*.parquet",
    "tables/*.csv",
    "tables/*.md",
    "tables/*.tex",
    "tables/*.html",
)
"""What must be the same, byte for byte, however often a run was cut off."""


def _key() -> str:
    """The digest of all that decides the smoke run: the code, the models, the environment, and the commit in its provenance."""
    digest = sha256(str(ROOT).encode())  # Snakemake records the model by its path
    for name in (*CODE, "backbones", "Snakefile", "config.yaml"):
        place = ROOT / name
        for path in sorted(place.rglob("*") if place.is_dir() else [place]):
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    digest.update(repr((commit(), sys.version, sorted((each.name, each.version) for each in distributions()))).encode())
    return digest.hexdigest()


@pytest.fixture(scope="session")
def finished_run(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the smoke run has ended; not to be changed.

    It is made once for all tiers and workers, until something changes that decides it. Each takes a copy of its own (8 MB).
    It was started in a shell that must not disturb it: with what a notebook, a container, `module load` and a user of
    Snakemake set, and with an output that has no dash.
    """
    cache = pytestconfig.cache.mkdir("smoke")
    made = cache / _key()
    with open(cache / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not made.is_dir():
            for old in [path for path in cache.iterdir() if path.is_dir()]:
                shutil.rmtree(old)
            folder = tmp_path_factory.mktemp("smoke")  # outside the project, as the tests' copies are
            foreign = _foreign(tmp_path_factory.mktemp("foreign"))
            run_in(folder, "stair", "reproduce", "--run", str(SMOKE), warm=False, more=foreign)
            shutil.copytree(folder, cache / "unfinished", symlinks=True).rename(made)
        return Path(shutil.copytree(made, tmp_path_factory.mktemp("finished") / "smoke", symlinks=True))


def _foreign(folder: Path) -> dict[str, str]:
    """Variables of a shell that would disturb a run, and in the folder what they name."""
    for name in ("numpy", "yaml"):
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text("raise ImportError('built for another Python')\n")
    (folder / "config.yaml").write_text("forceall: true\nuse-conda: true\n")
    return {
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "HOME": "/nowhere",
        "PYTHONPATH": str(folder),
        "SNAKEMAKE_PROFILE": str(folder),
        "PYTHONIOENCODING": "ascii",
    }


@pytest.fixture
def copied_run(finished_run: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, Snakemake's memory included."""
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder, symlinks=True)
    return folder


@pytest.fixture
def project_copy(tmp_path: Path) -> Path:
    """A copy of the code and of the workflow, which commands with this PYTHONPATH use in place of the project's."""
    folder = tmp_path / "copy"
    for name in CODE:
        shutil.copytree(ROOT / name, folder / Path(name).name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, folder / name)
    (folder / "backbones").symlink_to(ROOT / "backbones")
    return folder
