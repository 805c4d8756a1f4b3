"""How SGLang's server is started: arguments, variables, and the report that it must give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stair.config.engines import SGLangSettings
from stair.config.sglang_arguments import OWN_OPTIONS, decisive_arguments
from stair.engines.sglang.launch import ServerLaunch


def launch(place: Path) -> ServerLaunch:
    settings = SGLangSettings(device="cpu", attention="torch_native", memory_fraction=0.5, cache_tokens=1000)
    return ServerLaunch(settings, place, "float32", 512)


def test_what_the_run_sets_is_known_by_name(tmp_path: Path) -> None:
    command = launch(tmp_path).command(1, 2)
    assert {word for word in command if word.startswith("--")} <= set(OWN_OPTIONS)


def test_memory_is_an_option_only_if_it_is_set(tmp_path: Path) -> None:
    command = launch(tmp_path).command(1, 2)
    assert command[command.index("--mem-fraction-static") + 1] == "0.5"
    assert command[command.index("--max-total-tokens") + 1] == "1000"
    without = ServerLaunch(SGLangSettings(device="cpu", attention="torch_native"), tmp_path, "float32", 512).command(
        1, 2
    )
    assert not {"--mem-fraction-static", "--max-total-tokens"} & set(without)


def test_further_arguments_enter_the_key_and_the_runs_own_are_refused() -> None:
    assert decisive_arguments(()) == ""
    some = ("--quantization", "fp8", "--log-requests", "--kv-cache-dtype=fp8_e5m2")
    assert decisive_arguments(some) == "--kv-cache-dtype=fp8_e5m2 --log-requests --quantization fp8"
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
        SGLangSettings(arguments=("2048",))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"version": "0.5.22"}, r"reports version 0\.5\.22, expected 0\.5\.23; check sglang\.arguments"),
        ({"dtype": "bfloat16"}, "reports dtype bfloat16, expected float32"),
        ({"enable_deterministic_inference": False}, "reports enable_deterministic_inference False"),
        ({"sampling_backend": None}, "reports sampling_backend None, expected pytorch"),
        ({"model_path": "/other"}, "reports model_path /other"),
    ],
)
def test_a_server_that_is_another_than_was_started_is_refused(tmp_path: Path, facts: dict[str, Any], said: str) -> None:
    sound = launch(tmp_path).promised
    launch(tmp_path).check_report(sound)
    with pytest.raises(ValueError, match=said):
        launch(tmp_path).check_report(sound | facts)


def test_the_server_asks_itself_and_no_proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "intern")
    monkeypatch.delenv("NO_PROXY", raising=False)
    there = launch(tmp_path).surroundings(tmp_path)
    assert there["http_proxy"] == "http://proxy:3128"
    assert (there["no_proxy"], there["NO_PROXY"]) == ("intern,127.0.0.1,localhost", "127.0.0.1,localhost")
