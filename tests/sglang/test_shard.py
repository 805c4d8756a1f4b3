"""A whole shard of rollouts by the real server, undisturbed and under faults: nothing lost, nothing made twice."""

from __future__ import annotations

import json
import shutil
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
from stair.records.interruption import EXIT_AGAIN
from stair.records.worklog import WorkLog
from tests.sglang.conftest import ENVIRONMENT
from tests.workflow.conftest import ROOT, SMOKE, environment, run_in

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(900)]

MODEL = "qwen3-4b-instruct"
RECORDS = 8
RESPONSES = 4 * RECORDS


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
        "sglang": {"environment": str(ENVIRONMENT), "concurrency": 3, "cache_tokens": 4096},
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
        for words in (("training-pool",), ("preflight-model",)):
            run_in(ready, "stair", *words, "--run", str(place), "--model", MODEL)
    shutil.copytree(ready / place, folder / place)
    return folder / place


COMMAND = ("stair", "rollout-shard", "--run", "results/shard", "--model", MODEL)


def seal(folder: Path) -> bytes:
    """The sealed file's bytes."""
    run_in(folder, "stair", "seal-rollouts", *COMMAND[2:])
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
    """The shard's job, under way. The processes of its server must end with it."""
    with open(folder / "output.txt", "ab") as output:
        before = output.tell()
        job = subprocess.Popen(COMMAND, cwd=folder, env=environment(), stdout=output, stderr=output)
    family: list[psutil.Process] = []
    try:
        wait_for(folder, job, lambda: "the server is ready" in (folder / "output.txt").read_text()[before:])
        family = psutil.Process(job.pid).children(recursive=True)
        assert len(family) > 2
        yield job
    finally:
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


def configure(run: Path, **settings: float) -> None:
    """Changes the server's settings of a run."""
    path = run / "config.resolved.yaml"
    config = yaml.safe_load(path.read_text())
    config["sglang"].update(settings)
    path.write_text(yaml.safe_dump(config))


def test_an_undisturbed_shard(undisturbed: Path) -> None:
    results = undisturbed / "results" / "shard"
    rows = pq.read_table(results / "rollouts" / f"{MODEL}.parquet").to_pylist()
    assert len(rows) == RESPONSES
    assert {(row["engine"], row["engine_version"], row["attention"], row["dtype"], row["device"]) for row in rows} == {
        ("sglang", "0.5.23", "torch_native", "float32", "cpu")
    }
    assert {row["finish_reason"] for row in rows} == {"stop", "length"}
    assert len({tuple(row["response_ids"]) for row in rows}) == RESPONSES
    log = (results / "logs" / "rollouts" / MODEL / "server-0-of-1.log").read_text()
    assert log.count("----") == 1 and "'sglang': '0.5.23'" in log.splitlines()[0]


def test_a_shard_that_is_killed_and_stopped_and_then_loses_servers(
    prepared: Path, undisturbed: Path, tmp_path: Path
) -> None:
    """Each attempt resumes at the first missing response, and no server outlives its job (`shard`)."""
    run = new_run(tmp_path, prepared)
    states = []
    with shard(tmp_path) as job:
        wait_for_records(tmp_path, job, 5)
        job.kill()
        job.wait()
        states.append(logged(tmp_path))
    with shard(tmp_path) as job:
        wait_for_records(tmp_path, job, 3)
        job.terminate()
        assert job.wait(timeout=60) == EXIT_AGAIN
        states.append(logged(tmp_path))
    with shard(tmp_path) as job:
        wait_for_records(tmp_path, job, 3)
        family = psutil.Process(job.pid).children(recursive=True)
        max(family, key=lambda each: each.memory_info().rss).kill()  # the process that computes
        assert job.wait(timeout=60) == 2
        states.append(logged(tmp_path))
    lines = (tmp_path / "output.txt").read_text().splitlines()
    (line,) = [line for line in lines if "SGLang's server ended with exit code" in line]
    assert "run the same command again" in line
    # No batch is as fast as that, so SGLang's watchdog ends the server.
    configure(run, stall_seconds=0.001)
    stalled = run_in(tmp_path, *COMMAND, check=False)
    assert stalled.returncode == 2 and "watchdog timeout" in stalled.stderr, stalled.stderr
    states.append(logged(tmp_path))
    # The rest at another concurrency.
    configure(run, stall_seconds=300, concurrency=16)
    run_in(tmp_path, *COMMAND)
    assert_as_undisturbed(tmp_path, undisturbed, *states)
