"""Qwen3.5 on a CPU in an environment with the GPU kernels of Gated DeltaNet."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

KERNELS = """
def chunk_gated_delta_rule(query, *args, **kwargs):
    raise ValueError(f"a GPU kernel got a tensor of the device {query.device}")

fused_recurrent_gated_delta_rule = chunk_gated_delta_rule
"""

COMPUTE = """
import torch
from stair.models.load import load_model

model = load_model("backbones/tiny-qwen3.5-4b", dtype=torch.float32, device="cpu")
with torch.inference_mode():
    print(model(torch.arange(20)[None]).logits.isfinite().all().item())
"""


def test_a_cpu_computes_without_them(tmp_path: Path) -> None:
    """They take GPU tensors alone, and Transformers calls them for all."""
    for place in ("fla", "fla/ops", "fla/ops/gated_delta_rule"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "__init__.py").write_text(KERNELS)
    paths = os.pathsep.join((str(tmp_path), str(ROOT)))
    done = subprocess.run(
        [sys.executable, "-c", COMPUTE],
        cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout == "True\n", done.stderr[-500:]
