"""The SGLang engine's parts that need no server: limits, payloads, answers, ports, the guard over processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from stair.config.sglang_arguments import NEUTRAL_OPTIONS, OWN_OPTIONS, decisive_arguments
from stair.engines.base import Capture, Request, SamplingSettings
from stair.engines.sglang import guard
from stair.engines.sglang.client import Asker, Retracted, Transient
from stair.engines.sglang.invariance import NOT_COMPARED, TOGETHER, Comparison, Scored, compare, variants
from stair.engines.sglang.launch import HeldPort, Launch
from stair.engines.sglang.server import PortTaken, Server, ServerFailed
from stair.engines.sglang.service import Patience, Service
from stair.engines.sglang.supported import check_architecture, check_request, check_sampling

LAW = SamplingSettings(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=1.5, truncation="joint")
ASKER = Asker(context=100, vocabulary=320, tokens=300)


def request(prompt: int = 10, limit: int = 20, **changes: Any) -> Request:
    base = Request("key", tuple(range(100, 100 + prompt)), LAW, seed=5, max_new_tokens=limit, stop_ids=(0, 1))
    return replace(base, **changes)


def answer(ids: list[int], kind: str, *, prompt: int = 10, **told: Any) -> dict[str, Any]:
    """An answer of the server, as seen."""
    reason = {"stop": {"type": "stop", "matched": ids[-1] if ids else None}, "length": {"type": "length"}}.get(kind)
    meta = {"finish_reason": reason or told.pop("reason"), "prompt_tokens": prompt, "num_retractions": 0, **told}
    return {"output_ids": ids, "meta_info": meta}


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min_p": 0.1}, "min_p is 0.1"),
        ({"repetition_penalty": 1.1}, "repetition_penalty is 1.1"),
        ({"presence_penalty": 2.5}, "presence_penalty is 2.5"),
        ({"truncation": "sequential"}, "jointly"),
    ],
)
def test_settings_that_sglang_cannot_draw_are_refused(change: dict[str, Any], said: str) -> None:
    check_sampling(LAW)
    with pytest.raises(ValueError, match=said):
        check_sampling(replace(LAW, **change))


def test_the_order_of_truncations_matters_only_where_there_are_two() -> None:
    for change in ({"top_k": 0}, {"top_p": 1.0}, {"temperature": 0.0}):
        check_sampling(replace(LAW, truncation="sequential", **change))


def test_the_hybrid_needs_a_gpu() -> None:
    check_architecture("qwen3_5", "cuda")
    check_architecture("qwen3", "cpu")
    with pytest.raises(ValueError, match=r"not qwen3_5 .*rollout_engine: transformers"):
        check_architecture("qwen3_5", "cpu")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"prompt_ids": (5, 300)}, "token 300 is outside"),
        ({"prompt_ids": (-1,)}, "token -1 is outside"),
        ({"stop_ids": (0, 1, 310)}, "token 310 is outside"),
        ({"stop_ids": ()}, "no stop ids"),
        ({"stop_ids": (0,)}, r"ends at \[1\]"),
        ({"capture": Capture((1,), None)}, "reads, captures"),
        ({"adapter": "some"}, "reads, captures"),
        ({"sampling": replace(LAW, min_p=0.5)}, "request key: min_p"),
    ],
)
def test_requests_that_would_kill_or_mislead_the_server_are_refused(change: dict[str, Any], said: str) -> None:
    check_request(request(), 300, ends=[1])
    with pytest.raises(ValueError, match=said):
        check_request(request(**change), 300, ends=[1])


def test_the_server_asks_itself_and_no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    launch = Launch(tmp_path, "0.5.23", tmp_path, 100, "float32", "cpu", "torch_native", running=4)
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "intern")
    monkeypatch.delenv("NO_PROXY", raising=False)
    there = launch.surroundings()
    assert there["http_proxy"] == "http://proxy:3128"
    assert (there["no_proxy"], there["NO_PROXY"]) == ("intern,127.0.0.1,localhost", "127.0.0.1,localhost")


# ---------------------------------------------------------------- a server that comes up


@contextmanager
def coming_up(tmp_path: Path, info: list[bytes | None], log: str = "") -> Iterator[Server]:
    """A server whose answers to /server_info are given, None for none at all, and whose log is."""
    left = list(info)

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"{}"
            if self.path == "/model_info":
                body = json.dumps({"weight_version": server.identity}).encode()
            elif self.path == "/server_info":
                told = left.pop(0) if len(left) > 1 else left[0]
                if told is None:
                    self.close_connection = True
                    return
                body = told
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Silence."""

    server = Server.__new__(Server)
    server.identity, server._begin, server._log = "stair-test", 0, tmp_path / "server.log"
    server._log.write_text(log)
    server._guard = subprocess.Popen(["sleep", "60"])
    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        server.address = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield server
        finally:
            server._guard.kill()
            server._guard.wait()
            listening.shutdown()
            thread.join()


def test_a_server_that_says_nothing_sensible_of_itself_at_first_is_asked_again(tmp_path: Path) -> None:
    with coming_up(tmp_path, [None, b"<html>", b"[1]", b'{"version": "0.5.23"}']) as server:
        asyncio.run(server._ready(30.0))
        assert server.facts == {"version": "0.5.23"}


def test_a_server_that_never_does_is_not_ready_and_the_error_is_a_line_of_bounded_length(tmp_path: Path) -> None:
    log = (
        "usage: launch_server\n [--a A]\n" + "x" * 2_000_000 + "\n[2026-01-01] RuntimeError: no such thing\n   ^^^^^\n"
    )
    with coming_up(tmp_path, [b"<html>"], log) as server, pytest.raises(ServerFailed, match="was not ready") as caught:
        asyncio.run(server._ready(1.0))
    told = str(caught.value)
    assert "RuntimeError: no such thing" in told and "usage" not in told and "^" not in told
    assert len(told) < 1000 and "\n" not in told


def test_a_port_that_was_taken_while_the_server_loaded_is_noticed(tmp_path: Path) -> None:
    log = "[Errno 98] error while attempting to bind on address: Address already in use\n"
    with coming_up(tmp_path, [b"{}"], log) as server, pytest.raises(PortTaken, match="somebody took"):
        asyncio.run(server._ready(30.0))


# ---------------------------------------------------------------- payloads and answers


def test_a_payload_says_every_parameter() -> None:
    sent = ASKER.payload(request())
    assert sent["input_ids"] == list(range(100, 110))
    sampling = sent["sampling_params"]
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"]) == (1.0, 0.95, 20)
    assert (sampling["presence_penalty"], sampling["repetition_penalty"], sampling["min_p"]) == (1.5, 1.0, 0.0)
    assert (sampling["sampling_seed"], sampling["n"], sampling["stop_token_ids"]) == (5, 1, [0, 1])
    # Ids beyond the tokenizer cannot be drawn; no truncation is as many as there are.
    assert sampling["logit_bias"] == {str(token): -1e9 for token in range(300, 320)}
    assert ASKER.payload(request(sampling=SamplingSettings()))["sampling_params"]["top_k"] == 320
    assert replace(ASKER, tokens=320).payload(request())["sampling_params"]["logit_bias"] is None


def test_lengths_are_clamped_to_the_context() -> None:
    assert ASKER.payload(request(prompt=70, limit=30))["sampling_params"]["max_new_tokens"] == 30
    assert ASKER.payload(request(prompt=71, limit=30))["sampling_params"]["max_new_tokens"] == 29


def test_completions_end_as_the_law_says() -> None:
    stopped = ASKER.completion(request(), answer([7, 8, 1], "stop"))
    assert (stopped.response_ids, stopped.finish_reason, stopped.usage.response_tokens) == ((7, 8, 1), "stop", 3)
    assert ASKER.completion(request(), answer([7] * 20, "length")).finish_reason == "length"
    cut = ASKER.completion(request(prompt=90), answer([7] * 10, "length", prompt=90))
    assert cut.finish_reason == "context"


@pytest.mark.parametrize(
    "wrong",
    [
        answer([7] * 19, "length"),  # cut off by a cache that is too small
        answer([7, 8], "stop"),  # stopped at what is no stop id
        answer([7, 1, 8, 0], "stop"),  # went on behind a stop id
        answer([7, 300, 1], "stop"),  # an id beyond the tokenizer
        answer([7, 1], "stop", prompt=9),  # another prompt
    ],
)
def test_an_answer_that_cannot_be_right_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not what was asked for"):
        ASKER.completion(request(), wrong)


def test_aborts_are_asked_again_and_refusals_are_not() -> None:
    with pytest.raises(Transient):
        ASKER.completion(request(), answer([], "abort", reason={"type": "abort", "message": "shutting down"}))
    reason = {"type": "abort", "message": "too long", "status_code": 400}
    with pytest.raises(ValueError, match="refuses it: too long"):
        ASKER.completion(request(), answer([], "abort", reason=reason))


def test_a_retracted_response_counts_only_without_a_penalty() -> None:
    retracted = answer([7, 1], "stop", num_retractions=1)
    with pytest.raises(Retracted):
        ASKER.completion(request(), retracted)
    plain = request(sampling=replace(LAW, presence_penalty=0.0))
    assert ASKER.completion(plain, retracted).response_ids == (7, 1)


def test_the_probe_asks_for_one_prompt_among_forty_with_seeds_of_their_own() -> None:
    first, *others = variants(request(prompt=30))
    assert len(others) + 1 == TOGETHER == 40
    assert len({each.seed for each in (first, *others)}) == 40
    assert first.prompt_ids == request(prompt=30).prompt_ids
    assert len({len(each.prompt_ids) for each in others}) > 10
    assert len({each.max_new_tokens for each in others}) > 10


def test_what_was_seen_counts_the_last_bit() -> None:
    answers = {
        "same": ((5, 6), (-0.5, -0.25)),
        "bits": ((5, 6), (-0.5, -0.25000003)),
        "others": ((5, 7), (-0.5, -0.25)),
    }

    def seen(among: str) -> Comparison:
        asked = 0

        async def ask(request: Request) -> Scored:
            nonlocal asked
            asked += 1
            return answers["same" if asked == 1 else among]

        return asyncio.run(compare(ask, request()))

    assert seen("same") == Comparison(True, True) and seen("same").batch_invariant is True
    assert seen("bits") == Comparison(True, False) and seen("bits").batch_invariant is False
    assert seen("others").batch_invariant is False
    assert NOT_COMPARED.batch_invariant is None
    assert "tokens are the same, their log-probabilities OTHERS" in str(seen("bits"))


def test_products_on_a_cpu_give_a_row_the_same_bits_in_every_batch() -> None:
    """In a process of its own: PyTorch's kernels are replaced, which round otherwise for one row than for three."""
    program = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from sglang_plain_cpu_products import make_products_rowwise
torch.set_num_threads(1)
linear, made = torch.nn.functional.linear, torch.Generator().manual_seed(0)
cases = [tuple(torch.randn(size, generator=made) for size in ((100, k), (n, k), (n,))) for k, n in
         ((32, 96), (64, 64), (64, 192), (96, 300), (192, 64), (48, 37))]
before = [linear(x, w) for x, w, _ in cases]
make_products_rowwise()
make_products_rowwise()
with torch.inference_mode():
    for (x, w, b), plain in zip(cases, before, strict=True):
        whole, biased = linear(x, w), linear(x, w, b)
        torch.testing.assert_close(whole, plain)
        torch.testing.assert_close(biased, plain + b)
        for n in (*range(1, 20), 31, 32, 33, 49):
            for start in (0, 5, 50):
                assert torch.equal(linear(x[start : start + n], w), whole[start : start + n]), (x.shape, n)
                assert torch.equal(linear(x[start : start + n], w, b), biased[start : start + n]), (x.shape, n)
        assert torch.equal((x[:6].view(2, 3, -1) @ w.T).view(6, -1), whole[:6])
"""
    folder = Path(__file__).parents[2] / "envs" / "sglang_plain_cpu"
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------- what a server is started with


def launch(place: Path, **changes: Any) -> Launch:
    base = Launch(place, "0.5.23", place, 512, "float32", "cpu", "torch_native", 4, 1, 0.5, 1000)
    return replace(base, **changes)


def test_what_the_run_sets_is_known_by_name(tmp_path: Path) -> None:
    command = launch(tmp_path).command(1, 2, "me")
    assert {word for word in command if word.startswith("--")} == set(OWN_OPTIONS)
    assert not set(OWN_OPTIONS) & set(NEUTRAL_OPTIONS)


def test_arguments_that_change_responses_are_told_from_those_that_do_not() -> None:
    assert (
        decisive_arguments(()) == decisive_arguments(("--chunked-prefill-size", "2048", "--disable-radix-cache")) == ""
    )
    some = ("--quantization", "fp8", "--log-requests", "--kv-cache-dtype=fp8_e5m2")
    assert decisive_arguments(some) == "--kv-cache-dtype=fp8_e5m2 --quantization fp8"
    assert decisive_arguments((), 2) == "--tensor-parallel-size 2"
    for own in (
        ("--dtype", "bfloat16"),
        ("--dtype=bfloat16",),
        ("--dty", "half"),
        ("--tp", "2"),
        ("--log-requests", "--port", "9"),
    ):
        with pytest.raises(ValueError, match=r"sglang\.arguments: --\w+ is set by the run"):
            decisive_arguments(own)
    with pytest.raises(ValueError, match="'2048' is no option"):
        decisive_arguments(("2048",))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"version": "0.5.22"}, r"is SGLang 0\.5\.22, but sglang\.version is 0\.5\.23"),
        ({"dtype": "bfloat16"}, "its dtype is bfloat16, but it was started with float32"),
        ({"enable_deterministic_inference": False}, "its enable_deterministic_inference is False"),
        ({"sampling_backend": None}, "its sampling_backend is None, but it was started with pytorch"),
        ({"max_total_num_tokens": 80}, "holds 80 tokens, and one response of this run can need 90"),
    ],
)
def test_a_server_that_is_another_than_was_started_is_refused(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    service = Service(launch(tmp_path), ASKER, Patience(), 4, tmp_path / "log", needed=90)
    sound = launch(tmp_path).promised | {"version": "0.5.23", "max_total_num_tokens": 1000}
    server = SimpleNamespace(facts=sound | facts)
    with pytest.raises(ValueError, match=said):
        asyncio.run(service._look_at(server, request()))  # type: ignore[arg-type]


def test_a_job_that_stood_still_itself_does_not_take_its_server_for_stalled(tmp_path: Path) -> None:
    """A suspended job wakes with a health request that has timed out, though the server is well."""
    answers = iter([True, None, True, False, False, False, False, False])
    given: list[bool | None] = []

    async def healthy(client: object, seconds: float) -> bool:
        given.append(next(answers))
        if given[-1] is None:
            time.sleep(2.6)  # the whole process, not this task
        return bool(given[-1])

    async def watched() -> str:
        service = Service(launch(tmp_path), ASKER, Patience(stall_seconds=0.5), 4, tmp_path / "log")
        service._look, service._client = asyncio.Event(), None  # type: ignore[assignment]
        return await service._watch(SimpleNamespace(alive=lambda: True, healthy=healthy))  # type: ignore[arg-type]

    assert "gave no sign of life" in asyncio.run(watched())
    assert given[:3] == [True, None, True]
    assert len(given) > 4


# ---------------------------------------------------------------- ports


def test_a_held_port_is_given_to_nobody_else_and_can_be_listened_at() -> None:
    held = HeldPort()
    assert HeldPort(held.number).number == held.number  # only bound: a server may bind it too
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", held.number))
    listener.listen()
    other = HeldPort(held.number)
    assert other.number != held.number
    listener.close()
    for port in (held, other):
        port.release()


# ---------------------------------------------------------------- the guard

FAMILY = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for session in (False, True):  # one slips into a session of its own, and its parent dies at once
    subprocess.Popen([sys.executable, "-c", "import subprocess, sys; subprocess.Popen([sys.executable, '-c', "
        "'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)'])"],
        start_new_session=session).wait()
print("ready", flush=True)
time.sleep(600)
"""
"""A process with two orphans below it; none of them ends when asked to."""


def guarded(*command: str) -> tuple[subprocess.Popen[str], int]:
    """A guarded command, and the lifeline."""
    lifeline, end = os.pipe()
    words = [sys.executable, "-I", str(Path(guard.__file__)), str(lifeline), *command]
    child = subprocess.Popen(words, pass_fds=[lifeline], stdout=subprocess.PIPE, text=True, start_new_session=True)
    os.close(lifeline)
    return child, end


def family_of(child: subprocess.Popen[str]) -> list[psutil.Process]:
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    family = psutil.Process(child.pid).children(recursive=True)
    assert len(family) == 3
    return family


def assert_gone(family: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(family, timeout=15)
    assert not [each for each in alive if each.status() != psutil.STATUS_ZOMBIE]


def stop_all(family: list[psutil.Process], child: subprocess.Popen[str]) -> None:
    for each in family:
        each.suspend()


def stop_guard_too(family: list[psutil.Process], child: subprocess.Popen[str]) -> None:
    stop_all(family, child)
    os.kill(child.pid, signal.SIGSTOP)


@pytest.mark.parametrize("before", [lambda *_: None, stop_all], ids=["running", "stopped"])
def test_a_family_ends_when_the_lifeline_closes(before: Callable[..., None]) -> None:
    child, end = guarded(sys.executable, "-c", FAMILY)
    family = family_of(child)
    before(family, child)
    os.close(end)
    assert child.wait(timeout=15) == 0
    assert_gone(family)


@pytest.mark.parametrize("before", [lambda *_: None, stop_guard_too], ids=["running", "stopped with its guard"])
def test_a_family_ends_when_its_owner_is_killed(before: Callable[..., None]) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(Path(guard.__file__)), FAMILY], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    (leader,) = psutil.Process(owner.pid).children()
    family = leader.children(recursive=True)
    assert len(family) == 3
    for each in family if before is stop_guard_too else ():
        each.suspend()
    if before is stop_guard_too:
        leader.suspend()
    owner.kill()
    owner.wait()
    assert_gone([leader, *family])


OWNER = """
import os, subprocess, sys, time
lifeline, end = os.pipe()
subprocess.Popen([sys.executable, "-I", sys.argv[1], str(lifeline), sys.executable, "-c", sys.argv[2]],
    pass_fds=[lifeline], start_new_session=True)
os.close(lifeline)
time.sleep(600)
"""


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(7)", 7), ("import os; os.kill(os.getpid(), 9)", 137)])
def test_the_guard_ends_as_its_command_does(code: str, status: int) -> None:
    child, end = guarded(sys.executable, "-c", code)
    assert child.wait(timeout=15) == status
    os.close(end)


def test_what_a_dead_command_leaves_behind_ends_too() -> None:
    child, end = guarded(sys.executable, "-c", FAMILY)
    family = family_of(child)
    time.sleep(0.2)
    family[0].kill()
    assert child.wait(timeout=15) == 137
    assert_gone(family)
    os.close(end)
