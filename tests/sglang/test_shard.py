"""A whole shard of rollouts by the real server, undisturbed and under every fault: nothing lost, nothing made twice."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest
import yaml

from stair.config.resolve import resolve
from stair.records.worklog import WorkLog
from tests.sglang.conftest import ENVIRONMENT
from tests.workflow.conftest import ROOT, SMOKE, environment, run_in

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(900)]

MODEL = "qwen3-4b-instruct"
RECORDS = 12
RESPONSES = 4 * RECORDS
STALL_SECONDS = 6


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory, model_folder: Path) -> Path:
    """An overlay whose model is the small one, with a training pool of its own."""
    folder = tmp_path_factory.mktemp("prepared")
    problems = [{"problem": f"What is {a} + {a % 7}?", "answer": str(a + a % 7)} for a in range(RECORDS)]
    (folder / "pool.jsonl").write_text("".join(json.dumps(row) + "\n" for row in problems))
    overlay = {
        "extends": str(SMOKE),
        "note": None,
        "models": {
            MODEL: {
                "tiny": None,
                "path": str(model_folder),
                "rollout_sampling": {
                    "temperature": 1.0, "top_p": 0.95, "top_k": 50, "presence_penalty": 0.5, "max_new_tokens": 160,
                },
                "evaluation_sampling": {"max_new_tokens": 8},
            },
        },
        "training_pool": {
            "tiny": None, "path": str(folder / "pool.jsonl"), "columns": {"problem": "problem", "answer": "answer"},
            "strip_prefixes": [], "strip_suffixes": [],
            "validation_problems": 4, "exclude_benchmarks": [], "exclude_more": None,
        },
        "controllers": {
            key: {"layers": [1, 3]} for key, item in resolve(ROOT, {"run": str(SMOKE)}).controllers.items() if item.layers
        },
        "rollouts": {"engine": "sglang", "shards": 1},
        **dict.fromkeys(("replay", "controls", "runtime")),
        # Few at a time, so that there is a middle.
        "sglang": {"environment": str(ENVIRONMENT), "concurrency": 3, "cache_tokens": 4096, "stall_seconds": STALL_SECONDS},
    }  # fmt: skip
    path = folder / "shard.yaml"
    path.write_text(yaml.safe_dump(overlay))
    return path


def new_run(folder: Path, overlay: Path) -> Path:
    """A run's folder, up to what comes before its rollouts; made once, and then copied."""
    ready, place = overlay.parent / "ready", Path("results") / "shard"
    if not ready.exists():
        ready.mkdir()
        run_in(ready, "stair", "config", "--run", str(overlay), "--write")
        for words in (("data",), ("preflight",), ("preflight", "--limits", "training_pool")):
            run_in(ready, "stair", *words, "--run", str(place), "--model", MODEL)
    shutil.copytree(ready / place, folder / place)
    return folder / place


COMMAND = ("stair", "rollouts", "--run", "results/shard", "--model", MODEL)


def seal(folder: Path) -> bytes:
    """The sealed file's bytes."""
    run_in(folder, *COMMAND, "--seal")
    return (folder / "results" / "shard" / "rollouts" / f"{MODEL}.parquet").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, prepared: Path) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    new_run(folder, prepared)
    run_in(folder, *COMMAND)
    seal(folder)
    return folder


@contextmanager
def shard(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The shard's job, under way. Its whole family must be gone when it is."""
    with open(folder / "output.txt", "ab") as output:
        job = subprocess.Popen(COMMAND, cwd=folder, env=environment(), stdout=output, stderr=output)
    family: set[psutil.Process] = set()
    try:
        yield job
        if job.poll() is None:
            family |= set(psutil.Process(job.pid).children(recursive=True))
            job.wait(timeout=240)
    finally:
        if job.poll() is None:
            family |= set(psutil.Process(job.pid).children(recursive=True))
            job.kill()
            job.wait()
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not alive, f"processes outlived their job: {alive}"


def logged(folder: Path) -> list[bytes]:
    """Whole records in the logs; a seal may have moved them to another file."""
    logs = (folder / "results" / "shard" / "work" / "rollouts" / MODEL / "log").glob("*.log")
    return [line for path in logs for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


def wait_for(folder: Path, job: subprocess.Popen[bytes], ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not ready():
        assert job.poll() is None, f"the job ended too early:\n{(folder / 'output.txt').read_text()}"
        assert time.monotonic() < deadline, f"it never came to that:\n{(folder / 'output.txt').read_text()}"
        time.sleep(0.02)


def wait_for_records(folder: Path, job: subprocess.Popen[bytes], more: int) -> None:
    """Waits until so many more responses are in the log than now."""
    wanted = len(logged(folder)) + more
    wait_for(folder, job, lambda: len(logged(folder)) >= wanted)


def server_of(job: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The server's processes, the guard first."""
    (guard,) = (child for child in psutil.Process(job.pid).children() if "guard.py" in " ".join(child.cmdline()))
    return [guard, *guard.children(recursive=True)]


def assert_as_undisturbed(folder: Path, undisturbed: Path, *before: list[bytes]) -> None:
    """The sealed file is the undisturbed one's; what was in the log has stayed; no key stands in it twice."""
    sealed = seal(folder)
    now = logged(folder)
    assert len(now) == len(set(now)) == RESPONSES
    for each in before:
        assert set(each) <= set(now)
    log = WorkLog(folder / "results" / "shard" / "work" / "rollouts" / MODEL / "log")
    assert log.counts.duplicates == 0
    assert log.counts.damaged == 0
    assert len(log) == RESPONSES
    assert sealed == (undisturbed / "results" / "shard" / "rollouts" / f"{MODEL}.parquet").read_bytes()


def test_an_undisturbed_shard(undisturbed: Path) -> None:
    results = undisturbed / "results" / "shard"
    rows = pq.read_table(results / "rollouts" / f"{MODEL}.parquet").to_pylist()
    assert len(rows) == RESPONSES
    assert {(row["engine"], row["engine_version"], row["attention"], row["dtype"], row["device"]) for row in rows} == {
        ("sglang", "0.5.23", "torch_native", "float32", "cpu")
    }
    assert {row["batch_invariant"] for row in rows} == {True}
    assert {row["finish_reason"] for row in rows} == {"stop", "length"}
    assert len({tuple(row["response_ids"]) for row in rows}) == RESPONSES
    manifest = json.loads((results / "rollouts" / f"{MODEL}.parquet.manifest.json").read_text())
    assert manifest["batch_invariant"] == {"yes": RESPONSES}
    (server,) = manifest["servers"]
    assert server["versions"]["sglang"] == "0.5.23"
    assert server["deterministic"] is True
    assert (results / "logs" / "rollouts" / MODEL / "server-0-of-1.log").read_text().count("----") == 1


def test_a_server_that_is_killed_and_one_that_is_stopped(prepared: Path, undisturbed: Path, tmp_path: Path) -> None:
    new_run(tmp_path, prepared)
    servers = []
    with shard(tmp_path) as job:
        wait_for_records(tmp_path, job, 5)
        servers += server_of(job)
        os.kill(servers[1].pid, signal.SIGKILL)  # the server itself, below its guard
        after_kill = logged(tmp_path)
        # The next one stands still while it is looked at, before any response is asked of it.
        wait_for(tmp_path, job, lambda: (tmp_path / "output.txt").read_text().count("the server is ready") == 2)
        looked_at = server_of(job)
        servers += looked_at
        os.killpg(looked_at[0].pid, signal.SIGSTOP)
        wait_for_records(tmp_path, job, 5)
        stopped = server_of(job)
        servers += stopped
        os.killpg(stopped[0].pid, signal.SIGSTOP)
        at = time.monotonic()
        after_stop = logged(tmp_path)
        wait_for_records(tmp_path, job, 5)
        assert time.monotonic() - at > STALL_SECONDS
    assert job.returncode == 0
    _, alive = psutil.wait_procs(servers, timeout=10)
    assert not alive
    output = (tmp_path / "output.txt").read_text()
    assert output.count("the server died; starting another") == 1
    assert output.count(f"gave no sign of life for {STALL_SECONDS} s; starting another") == 2
    assert_as_undisturbed(tmp_path, undisturbed, after_kill, after_stop)


def test_a_full_disk_then_a_client_that_is_killed_and_killed_again(
    prepared: Path, undisturbed: Path, tmp_path: Path
) -> None:
    new_run(tmp_path, prepared)
    states = []
    with shard(tmp_path) as job:
        wait_for_records(tmp_path, job, 5)
        servers = server_of(job)
        # From here on no file of the job grows beyond this: in the middle of a record.
        (log,) = (tmp_path / "results" / "shard" / "work" / "rollouts" / MODEL / "log").glob("*.log")
        limit = log.stat().st_size + 700
        psutil.Process(job.pid).rlimit(resource.RLIMIT_FSIZE, (limit, limit))
        job.wait(timeout=60)
        states.append(logged(tmp_path))
    assert job.returncode == 2
    assert "File too large" in (tmp_path / "output.txt").read_text()
    assert "make room" in (tmp_path / "output.txt").read_text()
    _, alive = psutil.wait_procs(servers, timeout=10)
    assert not alive

    for _ in range(2):
        with shard(tmp_path) as job:
            wait_for_records(tmp_path, job, 5)
            servers = server_of(job)
            job.kill()
            job.wait()
            states.append(logged(tmp_path))
        _, alive = psutil.wait_procs(servers, timeout=15)
        assert not alive, f"the server outlived its client: {alive}"

    run_in(tmp_path, *COMMAND)
    assert_as_undisturbed(tmp_path, undisturbed, *states)


def test_a_shard_that_is_asked_to_stop_leaves_nothing_behind(prepared: Path, undisturbed: Path, tmp_path: Path) -> None:
    new_run(tmp_path, prepared)
    with shard(tmp_path) as job:
        wait_for_records(tmp_path, job, 5)
        servers = server_of(job)
        job.terminate()
        assert job.wait(timeout=30) == 75
    _, alive = psutil.wait_procs(servers, timeout=10)
    assert not alive
    before = logged(tmp_path)
    assert len(before) >= 5
    # Another concurrency for the rest.
    path = tmp_path / "results" / "shard" / "config.resolved.yaml"
    config = yaml.safe_load(path.read_text())
    config["sglang"]["concurrency"] = 16
    path.write_text(yaml.safe_dump(config))
    run_in(tmp_path, *COMMAND)
    assert_as_undisturbed(tmp_path, undisturbed, before)
