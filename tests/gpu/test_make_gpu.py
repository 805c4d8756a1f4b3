"""`make gpu` by the project's Makefile, with a Python that has no package of the pipeline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from benchmarks.gpu.parts import PARTS
from tests.gpu.absent import ROOT


def environment() -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}


def make_gpu(*variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "gpu", *variables], capture_output=True, text=True, cwd=ROOT, env=environment(), check=False
    )


def test_every_part_runs_on_a_cpu_and_writes_the_page(bare_python: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    done = make_gpu("DEVICE=cpu", f"PYTHON={bare_python}", f"OUT={out}")
    text = out.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr + text
    assert done.stdout.splitlines()[-1].endswith(f"{len(PARTS)} of {len(PARTS)} parts ran; the page is {out}")
    assert "MADE ON A CPU AT REDUCED SHAPES" in text
    assert "Unfinished" not in text
    for part in PARTS:
        assert f"| {part.name} | {part.what} | ran | " in text
    kernels = 4 if find_spec("triton") else 0
    backbones, objective = 4, 2  # of the objective's tests, as many more wait for a GPU
    assert f"| tests passed | {kernels + backbones + objective} | tests |" in text
    assert "| tests failed | 0 | tests |" in text
    for figure in (
        *("qwen3-4b, bank 256, 16 tokens, two passes, both |", "qwen3-4b, forward: memory in tokens x bank |"),
        "tiny-qwen3.5, prefill of 64 tokens, question of 20, bank 200: added by read and transfer |",
        *("tiny-qwen3.5, batch 2, stair and capture: decoding over Native's |", "tiny-qwen3, batch 2, native: all |"),
        *("500 x 32, float32: chunked over whole |", "700 x 32, float32, chunked, 32 tokens: above the inputs |"),
        "qwen3_5, stair, 4 responses of 48: memory, estimated over measured |",
    ):
        assert f"\n| {figure}" in text
    assert text.count("- Left out: ") == 2 + objective + (not kernels)
    assert "- Left out: qwen3, lora_stair: the package peft is not installed" in text


def test_a_gpu_that_is_not_there_is_one_line(bare_python: Path, tmp_path: Path) -> None:
    done = make_gpu("DEVICE=cuda", f"PYTHON={bare_python}", f"OUT={tmp_path / 'page.md'}")
    assert done.returncode == 2
    (line,) = [line for line in done.stderr.splitlines() if "CUDA" in line]
    assert line.startswith("error: torch ")
    assert line.endswith("name another interpreter with PYTHON=, or run at small shapes with DEVICE=cpu")
    assert not list(tmp_path.iterdir())


def test_a_page_made_on_a_cpu_does_not_take_the_place_of_a_gpus(bare_python: Path) -> None:
    done = make_gpu("DEVICE=cpu", f"PYTHON={bare_python}", "OUT=docs/gpu.md")
    assert done.returncode == 2
    assert "a page made on a CPU goes elsewhere" in done.stderr


def test_stopped_in_the_middle_it_leaves_a_page_and_no_process(tmp_path: Path) -> None:
    out = tmp_path / "page.md"
    command = [
        sys.executable,
        "-m",
        "benchmarks.gpu",
        "--device",
        "cpu",
        "--out",
        str(out),
        "--only",
        "loss",
        "training",
    ]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if "part 2 of 2: training" in line:
            break
    time.sleep(1.0)
    children = subprocess.run(
        ["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True
    ).stdout.split()
    assert len(children) == 1
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert f"stopped; {out} has the 1 parts that ended" in errors
    text = out.read_text(encoding="utf-8")
    assert "| loss | " in text
    assert "**Unfinished: training did not run yet.**" in text
    assert not Path(f"/proc/{children[0]}").exists()
