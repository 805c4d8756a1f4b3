"""The parts' commands for a GPU, as far as a machine without one can try them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.parts import PARTS
from benchmarks.training import Settings
from stair.config.training import ControllerSettings
from tests.gpu.absent import ROOT


def test_the_arguments_for_a_gpu_are_understood() -> None:
    """Without a GPU each measurement ends at the missing device, and not at its arguments.

    All run in one process, because importing torch takes seconds. The device tests have no arguments.
    """
    commands = [(part.module, part.arguments("cuda")) for part in PARTS if part.cuda]
    code = f"""
import contextlib, io, json, runpy, sys
for module, words in {commands!r}:
    sys.argv = [module, *words]
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            runpy.run_module(module, run_name="__main__")
        except BaseException as error:
            errors.write(str(error))
    print(json.dumps(errors.getvalue()), file=sys.stderr)
"""
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment, check=False
    )
    errors = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('"')]
    assert len(errors) == len(PARTS) - 1, done.stderr
    for part, error in zip((part for part in PARTS if part.cuda), errors, strict=True):
        assert "CUDA" in error, (part.name, error)
        assert not any(words in error for words in ("unrecognized", "invalid", "expected", "required")), error


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
