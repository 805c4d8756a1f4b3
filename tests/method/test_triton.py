"""The fused read: in Triton's interpreter without a GPU, as compiled kernels with one; and compiled for sm_90 anywhere."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest
import torch
from packaging.version import Version

if importlib.util.find_spec("triton") is None:
    pytest.skip("the package triton is not installed: the fused read cannot be tried", allow_module_level=True)

HERE = Path(__file__).parent
VECTOR_KERNELS = ("turns", "along", "spread", "combine")


def run(*command: str, interpret: bool) -> str:
    """Triton reads TRITON_INTERPRET when it is first imported, which other tests may have done: so a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "TRITON_INTERPRET"}
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, env=environment, cwd=HERE)
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return done.stdout


def test_the_fused_read_equals_the_equations() -> None:
    interpret = not torch.cuda.is_available()
    if interpret and Version(version("triton")) < Version("3.7") and Version(np.__version__) >= Version("2.4"):
        pytest.skip("the interpreter of triton before 3.7 does not run with numpy from 2.4 on, and there is no GPU")
    out = run("-m", "pytest", "-q", "-p", "no:cacheprovider", "triton_cases.py", interpret=interpret)
    assert "17 passed" in out


@pytest.mark.skipif(sys.platform != "linux", reason="triton compiles on Linux only")
@pytest.mark.parametrize("head_dim", [128, 256])
def test_the_kernels_compile_for_sm_90(head_dim: int) -> None:
    """Within the shared memory of an H200, on matrix instructions, and the two-pass form without spilling a register."""
    lines = [line.split() for line in run("compile_kernels.py", str(head_dim), interpret=False).splitlines()]
    assert [name for name, *_ in lines] == [
        *("normalisers", "read", "means", "gradients", "three_reads"),
        *("read", "means", "gradients"),  # as the controls use them
        *VECTOR_KERNELS,
    ]
    for name, shared, spilled, products in lines:
        assert int(shared) <= 232_448
        assert (int(products) > 0) == (name not in VECTOR_KERNELS)
        assert int(spilled) == 0 or name == "three_reads"
