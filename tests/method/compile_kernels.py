"""Compile the kernels for sm_90 with the launches of a head dim, on any machine, and print what each needs.

Run as `python compile_kernels.py HEAD_DIM`; one line a kernel: name, shared memory in bytes, spilled bytes, matrix instructions.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from benchmarks import one_pass_kernel
from stair.method.reads import fused, gradient_kernels, kernels, vector_kernels

TYPES = dict.fromkeys(("Q", "G", "K", "V"), "*bf16") | {"Lengths": "*i32", "Order": "*i64"}
FLOATS = ("scale", "factor", "smoothing", "log_share")
H200_SHARED_MEMORY = 232_448


def compile_kernel(function: triton.JITFunction, constants: dict, launch: fused.Launch) -> tuple[int, int, int]:
    """Return (shared memory, spilled bytes, wgmma instructions) of one kernel in bfloat16."""
    signature: dict[str, str] = {}
    values: dict[tuple[int], object] = {}
    hints: dict[tuple[int], list] = {}
    for index, name in enumerate(function.arg_names):
        if name in constants:
            signature[name], values[(index,)] = "constexpr", constants[name]
            continue
        signature[name] = TYPES.get(name, "*fp32") if name[0].isupper() else "fp32" if name in FLOATS else "i32"
        if name[0].isupper() or name.startswith(("stride", "chunk")):
            hints[(index,)] = [["tt.divisibility", 16]]
    source = ASTSource(function, signature, values, hints)
    options = {"num_warps": launch.warps, "num_stages": launch.stages}
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    ptx = compiled.asm["ptx"]
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "kernel.ptx").write_text(ptx)
        ptxas = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
        command = [str(ptxas), "-v", "--gpu-name", "sm_90a", f"{folder}/kernel.ptx", "-o", "/dev/null"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    spilled = sum(map(int, re.findall(r"(\d+) bytes spill stores", report)))
    return compiled.metadata.shared, spilled, ptx.count("wgmma.mma_async")


def main(head_dim: int) -> None:
    launches = fused.choose_launches(head_dim, 2, H200_SHARED_MEMORY)
    differential = {"ORDERED": False, "DIFFERENTIAL": True}
    # Permuted values and the reflected read alone.
    controls = {"ORDERED": True, "DIFFERENTIAL": False}
    for function, launch, more in (
        (kernels.normalisers, launches.normalisers, {}),
        (kernels.read, launches.read, {**differential, "EXACT": False}),
        (gradient_kernels.means, launches.backward, {"ORDERED": False}),
        (gradient_kernels.gradients, launches.backward, differential),
        (one_pass_kernel.three_reads, fused.Launch(64, 32, 8, 2), {}),
        (kernels.read, launches.read, {**controls, "EXACT": False}),
        (gradient_kernels.means, launches.backward, {"ORDERED": True}),
        (gradient_kernels.gradients, launches.backward, controls),
    ):
        constants = {
            "HEAD_DIM": head_dim,
            "BLOCK_M": launch.tokens,
            "BLOCK_N": launch.entries,
            "PRECISION": "tf32",
            **more,
        }
        print(function.__name__, *compile_kernel(function, constants, launch), flush=True)
    tile, flat = {"HEAD_DIM": head_dim}, fused.Launch(fused.FLAT, fused.FLAT, 4, 1)
    for function, constants in (
        (vector_kernels.turns, tile | {"BLOCK_M": fused.FLAT}),
        (vector_kernels.along, tile | {"BLOCK_N": fused.FLAT, "GROUPS": 4}),
        (vector_kernels.spread, tile | {"BLOCK_N": fused.FLAT}),
        (vector_kernels.combine, {"BLOCK": 256}),
    ):
        print(function.__name__, *compile_kernel(function, constants, flat), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
