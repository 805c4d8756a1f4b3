"""How SGLang's server is started: arguments, what it then says of itself, and ports that are held."""

from __future__ import annotations

import asyncio
import socket
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stair.config.sglang_arguments import NEUTRAL_OPTIONS, OWN_OPTIONS, decisive_arguments
from stair.engines.sglang.launch import HeldPort, Launch
from stair.engines.sglang.service import Patience, Service
from tests.engines.sglang_cases import ASKER, request


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
