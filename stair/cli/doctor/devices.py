"""GPUs: memory, driver, and the CUDA that torch is built for."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from importlib import metadata

from stair.cli.doctor.finding import Finding, last_line, output_of
from stair.config.model import Config
from stair.records.gpus import VISIBLE, visible_gpus

_QUERY = ["nvidia-smi", "--query-gpu=index,name,memory.total,driver_version", "--format=csv,noheader,nounits"]
_PROBE = "import torch; print(torch.cuda.is_available(), torch.cuda.device_count())"
_PROBE_SECONDS = 60.0
_SMALL_GIB = 23
"""A 4B model in bfloat16 with its cache, and the 9B model alone, need more."""


def torch_cuda() -> str | None:
    """The CUDA that the installed torch is built for; None for a CPU build. Does not import torch."""
    try:
        path = metadata.distribution("torch").locate_file("torch/version.py")
    except metadata.PackageNotFoundError:
        return None
    return runpy.run_path(str(path)).get("cuda")


def wants_gpu(config: Config | None) -> bool:
    """Whether a run's jobs may use a GPU and its models are not those that a CPU trains in minutes."""
    return config is not None and (
        config.transformers.device == "cuda"
        or (config.transformers.device == "auto" and any(model.tiny is None for model in config.models.values()))
    )


def device_findings(config: Config | None, *, scheduler: bool) -> Iterator[Finding]:
    """GPUs of this machine, jobs that need more memory, and torch's build.

    Args:
        config: the run; None for the machine alone.
        scheduler: whether Slurm gives GPUs to jobs elsewhere.
    """
    code, listed, fault = output_of(_QUERY)
    gpus = [line.split(", ") for line in listed.splitlines() if line.count(", ") == 3] if code == 0 else []
    built = torch_cuda()
    if code not in (0, 127):
        text = f"nvidia-smi fails: {last_line(listed + fault) or f'exit code {code}'}"
        yield Finding("devices", "error", text, "reboot, or reinstall the NVIDIA driver; then: nvidia-smi")
    for number, name, memory, driver in gpus:
        text = f"GPU {number}: {name}, {int(float(memory)) / 1024:.0f} GiB, driver {driver}"
        if wants_gpu(config) and float(memory) / 1024 < _SMALL_GIB:
            yield Finding(
                "devices", "warning", f"{text}; the paper's models need 24 GB or more", "stair reproduce --run tiny"
            )
        else:
            yield Finding("devices", "ok", text)
    if gpus:
        yield _torch_sees(built, len(gpus))
    elif code in (0, 127):
        yield _no_gpu(config, built, scheduler)


def _torch_sees(built: str | None, count: int) -> Finding:
    if built is None:
        text = f"torch {metadata.version('torch')} is a CPU build, and this machine has {count} GPUs"
        return Finding("devices", "error", text, "make env DEVICE=cuda")
    code, answer, fault = output_of([sys.executable, "-c", _PROBE], _PROBE_SECONDS)
    if code == 0 and answer.startswith("True"):
        return Finding("devices", "ok", f"torch is built for CUDA {built} and uses {answer.split()[1]} of {count} GPUs")
    if len(visible_gpus()) == 0:
        return Finding("devices", "warning", f"{VISIBLE} hides the GPUs from jobs", f"unset {VISIBLE}")
    text = f"torch is built for CUDA {built} and cannot use the GPUs: {last_line(fault) or 'the driver may be too old'}"
    return Finding("devices", "error", text, "make env DEVICE=cuda TORCH_INDEX=<index of builds for the driver's CUDA>")


def _no_gpu(config: Config | None, built: str | None, scheduler: bool) -> Finding:
    text = f"no GPU here; torch is {f'built for CUDA {built}' if built else 'a CPU build'}"
    if not wants_gpu(config):
        return Finding("devices", "ok", text)
    if scheduler:
        if built is None:
            return Finding("devices", "error", f"{text}, so jobs on GPU nodes compute on CPUs", "make env DEVICE=cuda")
        return Finding("devices", "ok", f"{text}; Slurm gives jobs their GPUs")
    assert config is not None
    if config.transformers.device == "cuda":
        return Finding("devices", "error", f"{text}, and transformers.device is cuda", "stair doctor on a GPU machine")
    text = f"{text}; this run's models would compute on the CPU, far too slowly"
    return Finding("devices", "warning", text, "stair reproduce --run tiny, or use a machine with a GPU")
