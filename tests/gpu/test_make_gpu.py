"""`make gpu` by the project's Makefile, with a Python that has no package of the pipeline."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.gpu.parts import PARTS
from tests.gpu.absent import ROOT

NO_TIME = "MINUTES=0.1"
"""Too little for any part: the command ends with a page in which none ran."""


def environment(**variables: str) -> dict[str, str]:
    # A make that runs these tests would hand its variables and its level on.
    own = ("OUT", "DEVICE", "MINUTES", "PARTS", "PYTHON", "MAKEFLAGS", "MAKELEVEL", "MFLAGS", "MAKEOVERRIDES")
    inherited = {key: value for key, value in os.environ.items() if key not in own}
    return {**inherited, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables}


def make_gpu(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the target with `arguments` of make and `variables` of the environment."""
    return subprocess.run(
        ["make", "gpu", *arguments], capture_output=True, text=True, cwd=ROOT, env=environment(**variables), check=False
    )


def lines(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the command says on stderr, without make's own line about the exit status."""
    return [line for line in done.stderr.splitlines() if not line.startswith("make")]


def test_the_device_tests_run_on_a_cpu_and_the_page_is_written(bare_python: Path, tmp_path: Path) -> None:
    """The measurements run in test_parts.py."""
    out = tmp_path / "page.md"
    # Triton's interpreter may need minutes on a slow processor, whose shares are those of a GPU.
    done = make_gpu("DEVICE=cpu", "MINUTES=30", "PARTS=tests loss", f"PYTHON={bare_python}", f"OUT={out}")
    text = out.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr + text
    assert done.stdout.splitlines()[-1].endswith(f"2 of 2 parts ran; the page is {out}")
    assert "MADE ON A CPU AT REDUCED SHAPES" in text
    assert "Unfinished" not in text
    for part in PARTS:
        assert (f"| {part.name} | {part.what} | ran | " in text) == (part.name in ("tests", "loss"))
    kernels = 4 if find_spec("triton") else 0
    log_sum_exp = 4
    assert f"| tests passed | {kernels + log_sum_exp} | tests |" in text
    assert "| tests failed | 0 | tests |" in text
    assert "\n| 500 x 32, float32: chunked over whole |" in text
    assert text.count("- Left out: ") == (0 if kernels else 1)


def test_a_gpu_is_what_it_takes_unless_told_otherwise_and_one_that_is_not_there_is_one_line(
    bare_python: Path, tmp_path: Path
) -> None:
    """A machine whose driver is broken, or not there, makes no page of a CPU's figures by itself."""
    done = make_gpu(NO_TIME, f"PYTHON={bare_python}", f"OUT={tmp_path / 'page.md'}")
    assert done.returncode == 2
    (line,) = lines(done)
    assert line.startswith("error: torch ") and "CUDA" in line
    assert line.endswith("name another interpreter with PYTHON=, or run at small shapes with DEVICE=cpu")
    assert not list(tmp_path.iterdir())


def test_one_gpu_of_several_is_not_a_device(bare_python: Path, tmp_path: Path) -> None:
    done = make_gpu("DEVICE=cuda:0", f"PYTHON={bare_python}", f"OUT={tmp_path / 'page.md'}")
    assert done.returncode == 2
    assert lines(done)[-1].endswith(
        "'cuda:0' is neither cuda nor cpu; DEVICE=cuda takes the first GPU that CUDA_VISIBLE_DEVICES shows"
    )


def test_parts_are_chosen_by_name_and_the_page_goes_into_a_folder_that_the_environment_names(
    bare_python: Path, tmp_path: Path
) -> None:
    done = make_gpu(NO_TIME, "DEVICE=cpu", "PARTS=read 'loss, 9B'", f"PYTHON={bare_python}", OUT=str(tmp_path))
    assert "Traceback" not in done.stderr
    page = tmp_path / "gpu.md"
    assert done.stdout.splitlines()[-1].endswith(f"0 of 2 parts ran, not whole: read, loss, 9B; the page is {page}")
    assert "of 0:06]" in done.stdout
    assert list(tmp_path.iterdir()) == [page]


def test_a_python_without_torch_is_one_line(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=True)
    python = tmp_path / "venv/bin/python"
    done = make_gpu("DEVICE=cpu", f"PYTHON={python}", f"OUT={tmp_path / 'page.md'}")
    assert done.returncode == 2
    assert lines(done) == [f"error: {python} has no torch; name another interpreter with PYTHON="]


def test_an_old_python_is_one_line(tmp_path: Path) -> None:
    """This Python, told to give itself out as an older one: the machine at hand may have no other."""
    venv.create(tmp_path / "venv", symlinks=True)
    python, packages = tmp_path / "venv/bin/python", next((tmp_path / "venv/lib").glob("*/site-packages"))
    (packages / "old.pth").write_text(
        "import sys; sys.version_info = (3, 10, 12, 'final', 0); sys.version = '3.10.12 (main)'"
    )
    done = make_gpu("DEVICE=cpu", f"PYTHON={python}", f"OUT={tmp_path / 'page.md'}")
    assert done.returncode == 2
    assert lines(done) == [
        f"error: {python} is Python 3.10.12, expected 3.11 or later; name another interpreter with PYTHON="
    ]


def test_a_page_made_on_a_cpu_does_not_take_the_place_of_a_gpus(bare_python: Path) -> None:
    done = make_gpu("DEVICE=cpu", f"PYTHON={bare_python}", "OUT=benchmarks/gpu.md")
    assert done.returncode == 2
    assert "a page made on a CPU goes elsewhere" in done.stderr


STANDING = """
from benchmarks.gpu import parts
from benchmarks.gpu.parts import Part
parts.PARTS = tuple(Part(name, "A stand-in.", "tests.gpu.part", 60, "", name) for name in ("measures", "hangs"))
from benchmarks.gpu.__main__ import main
raise SystemExit(main())
"""
"""The command with two stand-ins for the parts: one ends, the other hangs after its first figure."""


@contextmanager
def measuring(command: tuple[str, ...], *shown: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The command when it has shown these lines one after another, and the process of the part that it runs."""
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        for words in shown:
            next(line for line in process.stdout if words in line)
        (part,) = children(process.pid)
        yield process, part
    finally:
        process.kill()
        process.communicate()


def children(process: int) -> list[int]:
    listed = subprocess.run(["pgrep", "-P", str(process)], capture_output=True, text=True, check=False)
    return [int(number) for number in listed.stdout.split()]


def command_of(process: int) -> bytes:
    return Path(f"/proc/{process}/cmdline").read_bytes()


def gone(process: int) -> bool:
    """Whether a process ends within five seconds."""
    for _ in range(100):
        if not Path(f"/proc/{process}").exists():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_stopped_in_the_middle_it_leaves_all_figures_and_no_process(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "page.md"
    # Tests in the background inherit ignored signals.
    command = ("env", "--default-signal", sys.executable, "-c", STANDING, "--device", "cpu", "--out", str(out))
    with measuring(command, "part 2 of 2: hangs", "fast: 1.5") as (process, part):
        if number == signal.SIGHUP:  # the terminal is gone, so nothing can be printed either
            assert process.stdout is not None
            process.stdout.close()
        process.send_signal(number)
        assert process.wait(timeout=120) == 130
        assert process.stderr is not None
        assert process.stderr.read() == f"stopped; {out} has what was measured until then\n"
        assert gone(part)
    text = out.read_text(encoding="utf-8")
    assert "\n| measures | A stand-in. | ran | " in text
    assert re.search(r"\n\| hangs \| .* \| \*\*cut off\*\*: interrupted after \d+ s \| 0:\d\d \|\n", text)
    assert text.count("\n| fast | 1.5 |") == 2
    assert "Unfinished" not in text


def test_under_nohup_a_hangup_does_not_stop_it_and_killed_it_leaves_no_process(tmp_path: Path) -> None:
    command = ("nohup", sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--out", str(tmp_path / "page.md"))
    with measuring((*command, "--only", "training"), "part 1 of 1: training") as (process, part):
        while not (cases := children(part)):  # a case of the part is a process of its own
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGHUP)
        assert int(re.findall(r"SigIgn:\s+(\w+)", Path(f"/proc/{process.pid}/status").read_text())[0], 16) & 1
        assert process.poll() is None
        process.kill()
        assert gone(part)
        assert all(gone(case) for case in cases)


def test_stopped_while_it_looks_at_the_machine_it_says_so_and_leaves_the_page(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    out.write_text("an earlier page")
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gpu", "--device", "cpu", "--out", str(out)], cwd=ROOT, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    # A child that is not yet the program that it becomes may outlive its parent.
    while not (found := [child for child in children(process.pid) if command_of(child) != command_of(process.pid)]):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (130, "stopped before the first part; nothing is measured\n")
    assert all(gone(child) for child in found)
    assert out.read_text() == "an earlier page"
