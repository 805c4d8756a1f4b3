"""The parts' commands for a GPU, as far as a machine without one can try them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from benchmarks.figures import Report
from benchmarks.gpu.parts import BY_MODULE, PARTS
from benchmarks.training import Settings
from stair.config.training import ControllerSettings
from tests.gpu.absent import ROOT

ALL = """
import contextlib, io, json, runpy, sys
from benchmarks.gpu.parts import BY_MODULE, PARTS

folder, errors = sys.argv[1], {}
for device, parts in ("cpu", BY_MODULE.values()), ("cuda", PARTS):
    for part in parts:
        # The tests have no arguments. tests/method/test_output_path.py runs the addition.
        if part.name == "tests" or (device, part.name) == ("cpu", "addition"):
            continue
        sys.argv = [part.module, *part.arguments(device)] + ["--json", f"{folder}/{part.name}"] * (device == "cpu")
        told = io.StringIO()
        try:
            with contextlib.redirect_stderr(told):
                runpy.run_module(part.module, run_name="__main__")
        except (Exception, SystemExit) as error:  # a missed bar ends a measurement with 1
            if device == "cpu" and not isinstance(error, SystemExit):
                raise
            errors[part.name] = told.getvalue() + str(error)
json.dump(errors, open(f"{folder}/errors", "w"))
"""
"""All parts in one process, because importing torch takes seconds: at small shapes, then as for a GPU."""


def test_every_measurement_runs_on_a_cpu_and_ends_at_a_missing_gpu(bare_python: Path, tmp_path: Path) -> None:
    """Without a GPU each ends at the missing device, and not at its arguments."""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    command = [str(bare_python), "-c", ALL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    errors = json.loads((tmp_path / "errors").read_text())
    for part in PARTS:
        if part.cuda:
            assert "CUDA" in errors[part.name], errors
            wrong = [word for word in ("unrecognized", "invalid", "expected", "required") if word in errors[part.name]]
            assert wrong == [], errors[part.name]
    reports = {path.name: Report.read(path) for path in tmp_path.iterdir() if path.name != "errors"}
    assert set(reports) == {part.name for part in BY_MODULE.values()} - {"tests", "addition"}
    assert all(report.finished and not report.failures for report in reports.values()), reports
    names = [f"{part}: {figure.name}" for part, report in reports.items() for figure in report.figures]
    for figure in (
        "read: qwen3-4b, bank 256, 16 tokens, two passes, both",
        "read: qwen3-4b, forward: memory in tokens x bank",
        "read: tiny-qwen3.5, prefill of 64 tokens, question of 20, bank 200: added by read and transfer",
        "decode, Qwen3.5: tiny-qwen3.5, batch 2, stair and capture: decoding over Native's",
        "decode, Qwen3.5: tiny-qwen3.5, batch 2, native: all",
        "loss, 9B: 700 x 32, float32: chunked over whole",
        "loss, 9B: 700 x 32, float32, chunked, 32 tokens: above the inputs",
        "training: qwen3_5, stair, 4 responses of 48, all layers again: memory above the weights",
        "passes: tiny-qwen3, 24 tokens, 2 rows: student",
        "passes: tiny-qwen3, 24 tokens, one row, compiled layers: student",
    ):
        assert figure in names, names
    assert any(name.startswith("replay: qwen3, ") and name.endswith(": batch with probes") for name in names), names
    assert ("qwen3, lora_stair", "the package peft is not installed") in reports["training"].left_out


@pytest.mark.parametrize("kind", ["stair", "bank_free", "lora", "lora_stair"])
def test_the_settings_of_the_measurement_are_those_of_the_configuration(kind: str) -> None:
    parts: dict[str, Any] = {"kind": kind, "seed": "benchmark"}
    if kind != "lora":
        parts |= {"layers": (3, 11, 19), "optimizer": {"learning_rate": 0.003}}
    if "lora" in kind:
        parts["adapter"] = {"warmup_updates": 0, "optimizer": {"learning_rate": 0.0002}}
    expected, found = ControllerSettings.model_validate(parts), Settings(kind, parts.get("layers", ()))
    for name in ("kind", "seed", "smoothing", "controls", "reads", "controlled_layers"):
        assert getattr(found, name) == getattr(expected, name), name
    assert (found.adapter is None) == (expected.adapter is None)
    for name in ("rank", "alpha", "projections"):
        assert getattr(found.adapter, name, None) == getattr(expected.adapter, name, None), name


def test_the_pages_table_has_every_part_by_the_name_that_only_takes() -> None:
    section = (
        (ROOT / "docs/method.md").read_text(encoding="utf-8").partition("\n## On a GPU\n")[2].partition("\n## ")[0]
    )
    rows = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")]
    assert [name for name in rows[1:] if name] == [part.name for part in PARTS]


def test_triton_by_another_distributions_name_is_usable(bare_python: Path) -> None:
    """As PyTorch's own builds bring it: the module, without metadata of the name triton."""
    pytest.importorskip("triton")
    asked = "from benchmarks.gpu.device_tests import without_kernels as w; print(w(True), w(False))"
    (metadata,) = bare_python.parents[1].glob("lib/*/site-packages/triton-*.dist-info")
    package = metadata.readlink()
    metadata.unlink()
    try:
        done = subprocess.run([str(bare_python), "-c", asked], capture_output=True, text=True, cwd=ROOT, check=False)
    finally:
        metadata.symlink_to(package)
    assert done.stdout == "None None\n", done.stderr
