"""Fetching from a hub that runs on this machine: the real command, the real library, over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from stair.cli.upkeep import fetch as start_fetch
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, dump, load_run, resolve, validate
from stair.models.hub import check_fetched, read_lock
from stair.models.published import CONFIGS
from stair.pipeline.input_checks import input_faults, refuse
from stair.pipeline.provenance import provenance
from stair.records.interruption import EXIT_AGAIN
from stair.stages.data import stage
from tests.models.hub_server import Hub, Repository, serving

ROOT = Path(__file__).parents[2]
OLD, NEW = "a" * 40, "b" * 40
WEIGHTS = bytes(range(256)) * 40
LARGE = bytes(range(256)) * 94_000
"""24 MB: the library writes what comes in pieces of 10 MB, so that something is left when an answer breaks off."""
CONFIG = json.dumps(CONFIGS["qwen3-4b-instruct"]).encode()
MODEL = {
    "config.json": CONFIG,
    "model.safetensors": WEIGHTS,
    "tokenizer.json": b"{}",
    "big.bin": b"x",
}
ROWS = b"".join(json.dumps({"problem": f"What is {n} + 1?", "answer": str(n + 1)}).encode() + b"\n" for n in range(8))


@pytest.fixture
def hub() -> Iterator[Hub]:
    repositories = {
        "lab/model": Repository({OLD: {**MODEL, "tokenizer.json": b"{ }"}, NEW: MODEL}),
        "datasets/lab/bench": Repository({NEW: {"data/test.jsonl": ROWS, "README.md": b"about"}}),
        "datasets/lab/closed": Repository({NEW: {"closed.jsonl": ROWS}}, gated=True),
    }
    with serving(Hub(repositories)) as running:
        yield running


def run_folder(place: Path, **changes: object) -> Path:
    """A run with one model, one benchmark and a training pool, all from the hub; nothing else of it matters here."""
    paper = resolve(ROOT, {"run": "paper"}).model_dump(mode="json")
    sampling = {"max_new_tokens": 8}
    source = {"repository": "lab/bench", "file": "data/test.jsonl", "label": "B"}
    values = {
        "hub": {"cache": str(place / "cache"), "lock": str(place / "revisions.lock")},
        "results": str(place / "results"),
        "models": {
            "m": {
                "label": "M", "repository": "lab/model", "thinking": False, "rollout_sampling": sampling,
                "evaluation_sampling": sampling,
            }
        },
        "benchmarks": {"b": source},
        "training_pool": {"name": "t", "repository": "lab/bench", "file": "data/test.jsonl", "validation_problems": 0},
        "controllers": {},
        "conditions": {"vanilla": {"label": "Vanilla", "turns": 1}},
        "overview": {"models": ["m"]},
        "transitions": {"model": "m", "benchmark": "b"},
        **dict.fromkeys(("replay", "controls", "runtime")),
    }  # fmt: skip
    overlay = paper | values
    for key, change in changes.items():
        overlay[key] = {**overlay[key], **change} if isinstance(change, dict) else change  # type: ignore[dict-item]
    config = validate(overlay, "test")
    folder = RunPaths.of(config).folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.resolved.yaml").write_text(dump(config))
    return folder


def command(folder: Path, *words: str) -> list[str]:
    return [sys.executable, "-c", "from stair.cli import main; main()", "fetch", "--run", str(folder), *words]


def surroundings(hub: Hub, home: Path) -> dict[str, str]:
    found = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "STAIR_"))}
    return found | {"HF_ENDPOINT": hub.address, "HF_HOME": str(home / "home"), "HF_HUB_OFFLINE": "1"}


def fetch(hub: Hub, folder: Path, *words: str, token: str | None = None) -> subprocess.CompletedProcess[str]:
    there = surroundings(hub, folder) | ({"HF_TOKEN": token} if token else {})
    return subprocess.run(command(folder, *words), env=there, capture_output=True, text=True, timeout=120, check=False)


def start(hub: Hub, folder: Path, *words: str) -> subprocess.Popen[str]:
    """A fetch that goes on in the background."""
    return subprocess.Popen(
        command(folder, *words),
        env=surroundings(hub, folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def fetched(hub: Hub, folder: Path, *words: str, token: str | None = None) -> str:
    done = fetch(hub, folder, *words, token=token)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(hub: Hub, folder: Path, *words: str) -> str:
    """The one line with which a fetch is refused."""
    done = fetch(hub, folder, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("stair: error: ")]
    assert "Traceback" not in done.stderr
    return line


def test_everything_comes_and_commits_are_recorded(hub: Hub, tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    fetched(hub, folder)
    cache = tmp_path / "cache"
    assert (cache / "models/lab/model/model.safetensors").read_bytes() == WEIGHTS
    assert not (cache / "models/lab/model/big.bin").exists(), "what no model needs is left there"
    assert (cache / "datasets/lab/bench/data/test.jsonl").read_bytes() == ROWS
    lock = json.loads((tmp_path / "revisions.lock").read_text())
    assert lock == {"models/lab/model": NEW, "datasets/lab/bench": NEW}
    mark = json.loads((cache / "models/lab/model/fetched.json").read_text())
    assert mark == {"repository": "lab/model", "commit": NEW}
    facts = provenance(load_run(folder), RunPaths(folder))
    assert facts["models"]["m"]["fetched"] == mark
    assert {facts["data_sets"][name]["fetched"]["commit"] for name in ("b", "training_pool")} == {NEW}

    # Again: nothing is asked for. In another run with the same cache: the same.
    asked = len(hub.asked("lab/"))
    assert fetched(hub, folder).count(" is here (") == 2
    assert fetched(hub, run_folder(tmp_path, run="another")).count(" is here (") == 2
    assert len(hub.asked("lab/")) == asked


def test_what_is_recorded_must_come_again(hub: Hub, tmp_path: Path) -> None:
    later = "c" * 40
    hub.repositories["lab/model"].commits[later] = {**MODEL, "tokenizer.json": b"{   }"}
    folder, lock = run_folder(tmp_path), tmp_path / "revisions.lock"

    def record(commit: str) -> None:
        lock.write_text(json.dumps({"models/lab/model": commit}))

    record(NEW)
    fetched(hub, folder, "--only", "models.m")
    assert (tmp_path / "cache/models/lab/model/tokenizer.json").read_bytes() == b"{}", "not the newest"
    # A cache that holds another commit than is recorded is refused, by fetch and by the start of any run.
    record(later)
    assert f"holds lab/model at {NEW}, but" in refused(hub, folder)
    with pytest.raises(ConfigError, match="delete that folder and fetch again, or restore the lock file"):
        refuse(input_faults(load_run(folder), RunPaths(folder)))
    (tmp_path / "cache/models/lab/model/fetched.json").unlink()
    record("d" * 40)
    assert "Revision Not Found" in refused(hub, folder)
    for text in ("{", "[]", '{"models/lab/model": {}}', '{"models/lab/model": 1}'):
        lock.write_text(text)
        with pytest.raises(ConfigError, match=r"revisions\.lock cannot be read .*; restore it, or delete it"):
            read_lock(lock)


def test_a_revision_that_is_asked_for_has_a_place_of_its_own(hub: Hub, tmp_path: Path) -> None:
    fetched(hub, run_folder(tmp_path))
    model = resolve(ROOT, {"run": "paper"}).models["qwen3-4b-instruct"].model_dump(mode="json")
    pinned = {"m": {**model, "repository": "lab/model", "revision": OLD, "evaluation_changes": {}}}
    fetched(hub, run_folder(tmp_path, run="pinned", models=pinned))
    assert (tmp_path / f"cache/models/lab/model@{OLD}/tokenizer.json").read_bytes() == b"{ }"
    assert (tmp_path / "cache/models/lab/model/tokenizer.json").read_bytes() == b"{}"
    pinned["m"]["revision"] = "v9"
    line = refused(hub, run_folder(tmp_path, run="nowhere", models=pinned))
    assert "models.m: lab/model from " in line and "Revision Not Found" in line


def test_a_stopped_fetch_goes_on_with_the_same_commit(hub: Hub, tmp_path: Path) -> None:
    folder, cache = run_folder(tmp_path), tmp_path / "cache/models/lab/model"
    hub.repositories["lab/model"] = Repository({NEW: {**MODEL, "model.safetensors": LARGE}})
    hub.stall_after["model.safetensors"] = 14_000_000
    process = start(hub, folder, "--only", "models.m")
    wait_for(lambda: (cache / "tokenizer.json").is_file() and (cache / "config.json").is_file())
    wait_for(lambda: bool(hub.asked(f"GET /lab/model/resolve/{NEW}/model.safetensors")))
    process.terminate()
    process.communicate()
    assert process.returncode == EXIT_AGAIN
    assert (cache / "config.json").is_file() and not (cache / "fetched.json").exists()

    # A connection that breaks within a file is taken up where it broke. Complete files do not come again.
    hub.repositories["lab/model"].commits["c" * 40] = {**MODEL, "model.safetensors": LARGE, "tokenizer.json": b"[]"}
    del hub.stall_after["model.safetensors"]
    hub.break_off_after["model.safetensors"] = 11_000_000  # the library writes pieces of 10 MB
    before = len(hub.requests)
    fetched(hub, folder, "--only", "models.m")
    asked = [request for request in hub.requests[before:] if request.startswith("GET /lab/model/resolve")]
    assert len([request for request in asked if "bytes=" in request]) > 1
    assert not any("config.json" in request for request in asked)
    assert (cache / "model.safetensors").read_bytes() == LARGE
    assert (cache / "tokenizer.json").read_bytes() == b"{}", "not the newest"


def test_a_file_that_is_gone_from_the_cache_comes_again(hub: Hub, tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    fetched(hub, folder, "--only", "benchmarks.b")
    rows = tmp_path / "cache/datasets/lab/bench/data/test.jsonl"
    mark = RunPaths(folder).fetched_mark(load_run(folder), "b")
    times = mark.stat().st_mtime_ns
    rows.unlink()
    fetched(hub, folder, "--only", "benchmarks.b")
    assert rows.read_bytes() == ROWS
    assert mark.stat().st_mtime_ns == times, "what was made from it is not made again"


def test_what_is_not_fetched_names_the_command_that_fetches_it(hub: Hub, tmp_path: Path) -> None:
    folder, mark = run_folder(tmp_path), tmp_path / "cache/models/lab/model/fetched.json"
    config, paths = load_run(folder), RunPaths(folder)
    with pytest.raises(ConfigError, match=r"benchmarks\.b: lab/bench is not in .*; fetch it: stair fetch --run"):
        stage.benchmark(config, paths, "b")
    fetched(hub, folder, "--only", "models.m")
    check_fetched(config, paths, "models.m")
    # A mark that was lost is written again, and what is complete does not come again.
    mark.unlink()
    with pytest.raises(ConfigError, match=r"models\.m: lab/model is not in .*; fetch it: stair fetch --run"):
        check_fetched(config, paths, "models.m")
    before = len(hub.requests)
    fetched(hub, folder, "--only", "models.m")
    assert not [request for request in hub.requests[before:] if "resolve" in request]
    check_fetched(config, paths, "models.m")


def test_a_gated_data_set_is_told_before_anything_is_downloaded(hub: Hub, tmp_path: Path) -> None:
    closed = {"b": {"repository": "lab/closed", "file": "closed.jsonl", "label": "Closed"}}
    folder = run_folder(tmp_path, benchmarks=closed)
    line = refused(hub, folder)
    assert "benchmarks.b: lab/closed from " in line and "gated repo" in line and "Access is restricted" in line
    assert not hub.asked("resolve")
    assert "gated repo" in refused(hub, folder, "--only", "benchmarks.b")
    fetched(hub, folder, token="hf_allowed")
    assert (tmp_path / "cache/datasets/lab/closed/closed.jsonl").read_bytes() == ROWS
    assert "hf_allowed" not in (tmp_path / "revisions.lock").read_text()


def test_other_faults_are_one_line(hub: Hub, tmp_path: Path) -> None:
    missing = {"b": {"repository": "lab/bench", "file": "test.jsonl", "label": "B"}}
    line = refused(hub, run_folder(tmp_path / "a", benchmarks=missing))
    assert f"benchmarks.b: lab/bench has no test.jsonl at {NEW}" in line
    none = {"b": {"repository": "lab/none", "file": "x.jsonl", "label": "B"}}
    assert "Repository Not Found" in refused(hub, run_folder(tmp_path / "b", benchmarks=none))
    assert "models.x is not fetched from the hub" in refused(hub, run_folder(tmp_path / "c"), "--only", "models.x")


def test_a_hub_that_does_not_answer(tmp_path: Path) -> None:
    with serving(Hub()) as gone:
        pass
    assert f"from {gone.address}: [Errno 111] Connection refused" in refused(gone, run_folder(tmp_path))


def test_one_target_fetches_everything(hub: Hub, tmp_path: Path) -> None:
    """`snakemake fetch` on an overlay that takes one model and all data from the hub.

    Relative paths start where the run was started, though its jobs work in its own folder.
    """
    sampling = {"max_new_tokens": 8}
    model = {"label": "M", "repository": "lab/model", "thinking": False}
    model |= {"rollout_sampling": sampling, "evaluation_sampling": sampling}
    source = {"repository": "lab/bench", "file": "data/test.jsonl"}
    overlay = {
        "results": "results",
        "hub": {"cache": "cache", "lock": "revisions.lock"},
        "select": {"models": ["m"], "benchmarks": ["b"], "controllers": [], "conditions": ["vanilla"]},
        "models": {"m": model},
        "training_pool": source,
        "benchmarks": {"b": {**source, "label": "B"}},
        "overview": {"models": ["m"]},
        "transitions": {"model": "m", "benchmark": "b"},
        **dict.fromkeys(("replay", "controls", "runtime")),
    }  # fmt: skip
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(overlay))
    overlay["select"]["benchmarks"].append("closed")
    overlay["benchmarks"]["closed"] = {"repository": "lab/closed", "file": "closed.jsonl", "label": "Closed"}
    (tmp_path / "more.yaml").write_text(yaml.safe_dump(overlay))
    there = surroundings(hub, tmp_path)
    there["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{there['PATH']}"

    def snakemake(*words: str, run: str = "mine", fails: bool = False) -> str:
        command = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "--cores", "1", *words]
        command += ["--config", f"run={tmp_path / run}.yaml"]
        done = subprocess.run(
            command, env=there, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False
        )
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout + done.stderr

    assert "lab/model at bbbbbbbbbbbb is here" in snakemake("fetch")
    assert (tmp_path / "cache/models/lab/model/model.safetensors").read_bytes() == WEIGHTS
    assert [path.parent for path in tmp_path.rglob("revisions.lock")] == [tmp_path]
    # Another run that lacks access to something else: told as it is, and what is here stays, marks and all.
    times = {mark: mark.stat().st_mtime_ns for mark in (tmp_path / "cache").rglob("*fetched.json")}
    assert len(times) == 2
    told = snakemake("fetch", run="more", fails=True)
    assert "benchmarks.closed: lab/closed from " in told
    assert "completed successfully" not in told
    assert {mark: mark.stat().st_mtime_ns for mark in (tmp_path / "cache").rglob("*fetched.json")} == times
    # The stages after it wait for what was fetched, and have no other rule for it.
    planned = snakemake("-n", "rollouts")
    assert "fetch_hub" not in planned
    assert "preflight_model" in planned


def test_a_run_by_its_name_that_has_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    start_fetch()
    assert "nothing to fetch" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"models\.x is not fetched .* \(fetched are: .*models\.qwen3-4b-instruct"):
        start_fetch("paper", ["models.x"])
    assert not [*tmp_path.iterdir()]


def test_every_other_command_has_hub_access_off() -> None:
    program = (
        "import os, sys\n"
        "os.environ.pop('HF_HUB_OFFLINE', None)\n"
        "sys.argv = ['stair', 'config', '--run', 'smoke', '--key', 'hub.cache']\n"
        "from stair.cli import main\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code\n"
        "from huggingface_hub import constants\n"
        "print('offline', constants.HF_HUB_OFFLINE)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[-1] == "offline True"
