"""`stair chat`: the real command over a pipe."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stair.config.resolve import dump, resolve
from stair.method import Reflector
from stair.models.model_folder import read_architecture

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "backbones" / "tiny-qwen3-4b"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run's folder with its configuration and one controller, which is random."""
    (tmp_path / "config.resolved.yaml").write_text(dump(resolve(ROOT, {"run": "tiny"})))
    architecture = read_architecture(MODEL)
    reflector = Reflector.draw([3, 7, 11], architecture.query_heads, architecture.head_dim, seed=1)
    reflector.save(
        tmp_path / "controllers" / "qwen3-4b-instruct" / "stair" / "controller.safetensors", architecture=architecture
    )
    return tmp_path


def start(run: Path, *words: str) -> subprocess.Popen[str]:
    command = [str(Path(sys.executable).with_name("stair")), "chat", "--run", str(run), *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe)


def test_lines_are_messages_and_commands(run: Path) -> None:
    lines = ("What is 3 + 4?", "/native", "What is 5 + 4?", "7 + " * 5000, "/compare What is 2 * 3?", "/bank", "/what")
    process = start(run, "--model", "qwen3-4b-instruct")
    output, errors = process.communicate("\n".join(lines) + "\n", timeout=300)
    assert process.returncode == 0, errors
    help_, *answers, native, stair, bank, again = output.splitlines()
    assert len(answers) >= 2
    assert help_ == again
    assert native.startswith("native: ")
    assert stair.startswith("stair: ")
    assert bank.startswith("3 turns, ")
    assert [line for line in errors.splitlines() if line.startswith("stair: error: the conversation has ")]


def test_an_interrupt_at_the_prompt_ends_it(run: Path) -> None:
    process = start(run)
    assert process.stdout is not None
    assert process.stdout.readline().startswith("/native")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=300) == 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--model", "gpt"), "has no model 'gpt'; it has qwen3-4b-instruct"),
        (("--controller", "none"), "has no controller 'none'; it has stair"),
        (("--controller", "lora"), "controllers/qwen3-4b-instruct/lora does not exist"),
    ],
)
def test_an_unknown_name_is_one_line(run: Path, words: tuple[str, ...], message: str) -> None:
    process = start(run, *words)
    errors = process.communicate("", timeout=300)[1]
    assert process.returncode == 2
    assert message in errors.splitlines()[-1]
