"""The SGLang engine and a server process without a model: what it answers, how it ends, what is said of it."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from stair.config.engines import SGLangSettings
from stair.engines.base import Completion
from stair.engines.sglang.server import ServerFailed
from tests.engines.fake_sglang import DIE, FAIL, REFUSE, RETRACT, make_engine, make_environment, numbered

pytestmark = pytest.mark.timeout(120)


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> SGLangSettings:
    return make_environment(tmp_path_factory.mktemp("sglang"))


@pytest.fixture
def misbehave(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Sets the server's behaviour at its start, as JSON."""
    return lambda settings: monkeypatch.setenv("FAKE_SGLANG", settings)


def test_a_run_answers_every_request_and_leaves_no_process(settings: SGLangSettings) -> None:
    requests = [*numbered(30), *numbered(1, first=111)]
    requests[-1] = replace(requests[-1], key="too long", prompt_ids=(110,) * 100)
    with closing(make_engine(settings)) as engine:
        found = {completion.key: completion for completion in engine.run(requests)}
        assert engine.server is not None
        server = psutil.Process(engine.server.process.pid)
        scratch = Path(server.environ()["TMPDIR"])
        assert scratch.is_dir()
        again = engine.submit(numbered(1)[0]), *engine.run(numbered(2))
    assert len(again) == 3
    assert found.keys() == {request.key for request in requests}
    assert found["too long"].finish_reason == "context"
    assert all(found[f"r{number}"].response_ids == (10 + number, 0) for number in range(30))
    log = settings.environment_folder.parent / "server.log"
    assert "'sglang': '0.5.23'" in log.read_text().splitlines()[0]
    assert not server.is_running()
    assert not scratch.exists()


def test_requests_that_fail_are_named_and_all_others_are_answered(settings: SGLangSettings) -> None:
    failed: dict[str, str] = {}
    refused, broken = replace(numbered(1, REFUSE)[0], key="refused"), replace(numbered(1, FAIL)[0], key="broken")
    with closing(make_engine(settings)) as engine:
        engine.failed = failed.__setitem__
        found = {completion.key for completion in engine.run([refused, *numbered(5), broken])}
        engine.failed = None
        with pytest.raises(ValueError, match="it cannot be"):
            list(engine.run([refused]))
    assert found == {request.key for request in numbered(5)}
    assert "status 400" in failed["refused"] and "it cannot be" in failed["refused"]
    assert "status 500" in failed["broken"]


def test_a_server_that_dies_ends_the_run_in_one_line_and_keeps_finished_responses(settings: SGLangSettings) -> None:
    found: list[Completion] = []
    requests = [*numbered(6), replace(numbered(1, DIE)[0], key="bad"), *numbered(3, 112)]
    with closing(make_engine(settings, concurrency=2)) as engine:
        engine.failed = lambda key, reason: pytest.fail(f"{key} is to blame: {reason}")
        with pytest.raises(ServerFailed, match=r"^SGLang's server ended with exit code -9") as caught:
            found.extend(engine.run(requests))
        found += engine.ended()
        assert {completion.key for completion in found} >= {request.key for request in numbered(6)}
    told = str(caught.value)
    assert told.endswith("RuntimeError: no such thing")
    assert len(told) < 1000 and "\n" not in told


def test_a_full_cache_narrows_the_run_and_loses_nothing(
    settings: SGLangSettings, capsys: pytest.CaptureFixture[str]
) -> None:
    requests = [*numbered(12), *(replace(one, key=f"retracted {one.key}") for one in numbered(12, RETRACT))]
    with closing(make_engine(settings)) as engine:
        found = [completion.key for completion in engine.run(requests)]
    assert sorted(found) == sorted(request.key for request in requests)
    told = capsys.readouterr().err
    assert "the server's cache ran full; now 4 requests at a time" in told
    assert "now 2 requests" in told and "now 1 requests" not in told


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ('{"start": "die"}', r"^SGLang's server ended with exit code 3; the end of .*RuntimeError: no such thing$"),
        ('{"start": "never"}', r"was not ready after 1 s \(sglang.start_seconds\); the end of .*no such thing$"),
        ('{"facts": {"model_path": "/other"}}', "reports model_path /other, expected "),
        ('{"facts": {"max_total_num_tokens": 10}}', "holds 10 tokens, and request r0 can need 11"),
    ],
)
def test_a_server_that_does_not_come_up_as_itself_is_no_responses_fault(
    settings: SGLangSettings, misbehave: Callable[[str], None], how: str, said: str
) -> None:
    misbehave(how)
    with closing(make_engine(settings, start_seconds=1)) as engine:
        with pytest.raises(ValueError, match=said):
            list(engine.run(numbered(1)))
        assert engine.server is not None
        pid = engine.server.process.pid
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize("when", ["starting", "answering"])
def test_a_stop_ends_the_server_and_keeps_finished_responses(
    settings: SGLangSettings, misbehave: Callable[[str], None], when: str
) -> None:
    if when == "starting":
        misbehave('{"start": "never"}')

    def stop(running: int, drawn: int) -> None:
        if when == "starting" or drawn:
            raise KeyboardInterrupt

    found: list[Completion] = []
    with closing(make_engine(settings)) as engine:
        engine.watch = stop
        with pytest.raises(KeyboardInterrupt):
            found.extend(engine.run(numbered(100)))
        time.sleep(0.5)
        found += engine.ended()
        assert engine.server is not None
        pid = engine.server.process.pid
    assert len(found) == 0 if when == "starting" else 8 < len(found) < 100
    assert not psutil.pid_exists(pid)


def work(settings: SGLangSettings, told: int) -> None:
    """A job that says what its server is, and how many responses are under way."""
    engine = make_engine(settings)
    engine.watch = lambda running, drawn: os.write(told, f"{engine.server.process.pid} {running}\n".encode())
    for _ in engine.run(numbered(100_000)):
        pass


@pytest.mark.parametrize("when", ["starting", "suspended"])
def test_the_server_ends_with_a_job_that_is_killed(
    settings: SGLangSettings, misbehave: Callable[[str], None], when: str
) -> None:
    if when == "starting":
        misbehave('{"start": "never"}')
    reading, writing = os.pipe()
    job = multiprocessing.get_context("fork").Process(target=work, args=(settings, writing))
    job.start()
    os.close(writing)
    with open(reading, encoding="utf-8") as lines:
        for line in lines:
            pid, running = line.split()
            if when == "starting" or running != "0":
                break
        server = psutil.Process(int(pid))
        if when == "suspended":
            server.suspend()
        job.kill()
    job.join()
    assert not psutil.wait_procs([server], timeout=15)[1]


def test_all_processes_of_a_server_end_with_its_engine(
    settings: SGLangSettings, misbehave: Callable[[str], None]
) -> None:
    """Also one that is suspended, and one that does not tie itself to its parent."""
    misbehave('{"family": true}')
    with closing(make_engine(settings)) as engine:
        assert len([*engine.run(numbered(2))]) == 2
        assert engine.server is not None
        server = psutil.Process(engine.server.process.pid)
        family = [server, *server.children()]
        assert len(family) == 2
        for each in family:
            each.suspend()
    assert not psutil.wait_procs(family, timeout=15)[1]
