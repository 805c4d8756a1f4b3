"""The SGLang engine and a server process without a model: what it answers, how it ends, what is said of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from stair.engines.base import Completion
from stair.engines.sglang.launch import Launch
from stair.engines.sglang.server import Server, ServerFailed
from tests.engines.fake_sglang import DIE, FAIL, REFUSE, RETRACT, STALL, make_engine, make_environment, numbered

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Launch:
    return replace(make_environment(tmp_path_factory.mktemp("sglang")), stall_seconds=2.0)


@pytest.fixture
def misbehave(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the server's behaviour at its start, as JSON."""
    return lambda settings: monkeypatch.setenv("FAKE_SGLANG", settings)


def test_a_run_answers_every_request_and_leaves_no_process(launch: Launch) -> None:
    reports: list[dict[str, Any]] = []
    requests = [*numbered(30), *numbered(1, first=111)]
    requests[-1] = replace(requests[-1], key="too long", prompt_ids=(110,) * 100)
    with closing(make_engine(launch, started=reports.append)) as engine:
        found = {completion.key: completion for completion in engine.run(requests)}
        assert engine.server is not None
        family = [psutil.Process(engine.server.process), *psutil.Process(engine.server.process).children()]
        scratch = Path(family[1].environ()["TMPDIR"])
        assert scratch.is_dir()
        again = engine.submit(numbered(1)[0]), *engine.run(numbered(2))
    assert len(again) == 3
    assert found.keys() == {request.key for request in requests}
    assert found["too long"].finish_reason == "context"
    assert all(found[f"r{number}"].response_ids == (10 + number, 0) for number in range(30))
    assert {found[f"r{number}"].batch_invariant for number in range(30)} == {True}
    (report,) = reports
    assert (report["batch_invariant"], report["cache_tokens"], report["versions"]["sglang"]) == (True, 1000, "0.5.23")
    assert not psutil.wait_procs(family, timeout=10)[1]
    assert not scratch.exists()


def test_requests_that_fail_are_named_and_all_others_are_answered(launch: Launch) -> None:
    failed: dict[str, str] = {}
    refused, broken = replace(numbered(1, REFUSE)[0], key="refused"), replace(numbered(1, FAIL)[0], key="broken")
    with closing(make_engine(launch)) as engine:
        engine.failed = failed.__setitem__
        found = {completion.key for completion in engine.run([refused, *numbered(5), broken])}
        engine.failed = None
        with pytest.raises(ValueError, match="it cannot be"):
            list(engine.run([refused]))
    assert found == {request.key for request in numbered(5)}
    assert "status 400" in failed["refused"] and "it cannot be" in failed["refused"]
    assert "status 500" in failed["broken"]


@pytest.mark.parametrize(
    ("first", "said"),
    [(DIE, "ended with exit code 137"), (STALL, r"gave no sign of life for 2 s \(sglang.stall_seconds\)")],
    ids=["dies", "stalls"],
)
def test_a_server_that_is_lost_ends_the_run_in_one_line_and_keeps_finished_responses(
    launch: Launch, first: int, said: str
) -> None:
    found: list[Completion] = []
    requests = [*numbered(6), replace(numbered(1, first)[0], key="bad"), *numbered(3, 112)]
    with closing(make_engine(launch, width=2)) as engine:
        engine.failed = lambda key, reason: pytest.fail(f"{key} is to blame: {reason}")
        with pytest.raises(ServerFailed, match=f"^SGLang's server {said}") as caught:
            found.extend(engine.run(requests))
        found += engine.ended()
        assert {completion.key for completion in found} >= {request.key for request in numbered(6)}
    told = str(caught.value)
    assert told.endswith("RuntimeError: no such thing")
    assert "usage" not in told and "Warning" not in told and "^" not in told
    assert len(told) < 1000 and "\n" not in told


def test_a_full_cache_narrows_the_run_and_loses_nothing(launch: Launch, capsys: pytest.CaptureFixture[str]) -> None:
    requests = [*numbered(12), *(replace(one, key=f"retracted {one.key}") for one in numbered(12, RETRACT))]
    with closing(make_engine(launch)) as engine:
        found = [completion.key for completion in engine.run(requests)]
    assert sorted(found) == sorted(request.key for request in requests)
    told = capsys.readouterr().err
    assert "the server's cache ran full; now 4 requests at a time" in told
    assert "now 2 requests" in told and "now 1 requests" not in told


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ('{"start": "die"}', r"^SGLang's server ended with exit code 3; the end of .*RuntimeError: no such thing$"),
        ('{"start": "never"}', r"was not ready after 1 s \(sglang.start_seconds\); the end of .*no such thing$"),
        ('{"name": "stair-other"}', "another server answers at http"),
        ('{"facts": {"max_total_num_tokens": 80}}', "holds 80 tokens, and one response of this run can need 90"),
    ],
)
def test_a_server_that_does_not_come_up_as_itself_is_no_responses_fault(
    launch: Launch, misbehave: Callable[[str], None], settings: str, said: str
) -> None:
    misbehave(settings)
    with closing(make_engine(replace(launch, start_seconds=1), needed=90)) as engine:
        with pytest.raises(ValueError, match=said):
            list(engine.run(numbered(1)))
        assert engine.server is not None
        pid = engine.server.process
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("when", ["starting", "answering"])
def test_a_stop_ends_the_server_and_keeps_finished_responses(
    launch: Launch, misbehave: Callable[[str], None], when: str
) -> None:
    if when == "starting":
        misbehave('{"start": "never"}')

    def stop(running: int, drawn: int) -> None:
        if when == "starting" or drawn:
            raise KeyboardInterrupt

    found: list[Completion] = []
    with closing(make_engine(launch)) as engine:
        engine.watch = stop
        with pytest.raises(KeyboardInterrupt):
            found.extend(engine.run(numbered(8)))
        time.sleep(0.5)
        found += engine.ended()
        assert engine.server is not None
        pid = engine.server.process
    assert len(found) == (0 if when == "starting" else 8)
    assert not psutil.pid_exists(pid)


def test_only_failed_checks_in_a_row_count_as_a_stall(launch: Launch, tmp_path: Path) -> None:
    """A suspended job wakes with a health request that has timed out, though the server is well."""
    server = Server(replace(launch, stall_seconds=0.05), tmp_path / "log")
    answers = iter([False] * 4 + [True] + [False] * 5)
    server._healthy = lambda seconds: next(answers)  # type: ignore[method-assign]
    try:
        server._watch()
        assert next(answers, None) is None
        with pytest.raises(ServerFailed, match="gave no sign of life"):
            server.check(within=10)
    finally:
        server.stop()


JOB = """
import sys
from dataclasses import replace
from pathlib import Path
from tests.engines.fake_sglang import make_engine, numbered
from stair.engines.sglang.launch import Launch
place = Path(sys.argv[1])
launch = Launch(place / "env", "0.5.23", place / "model", 100, "float32", "cpu", "torch_native", running=8)
engine = make_engine(launch)
engine.watch = lambda running, drawn: print(engine.server.process, running, flush=True)
for completion in engine.run(numbered(100_000)):
    pass
"""


@pytest.mark.parametrize("when", ["starting", "answering", "stopped"])
def test_the_servers_processes_end_with_a_job_that_is_killed(
    launch: Launch, misbehave: Callable[[str], None], when: str
) -> None:
    """Also the one whose parent's death would not end it, as SGLang's are while they import."""
    misbehave(json.dumps({"family": True, "start": "never" if when == "starting" else ""}))
    command = [sys.executable, "-c", JOB, str(launch.environment.parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as job:
        assert job.stdout is not None
        deadline, family, running = time.monotonic() + 60, list[psutil.Process](), "0"
        while len(family) < 3 or (when != "starting" and running == "0"):
            assert time.monotonic() < deadline
            guard, running = job.stdout.readline().split()
            family = [psutil.Process(int(guard)), *psutil.Process(int(guard)).children(recursive=True)]
        for each in family[1:] if when == "stopped" else ():
            each.suspend()
        job.send_signal(signal.SIGKILL)
    assert not psutil.wait_procs(family, timeout=15)[1]
