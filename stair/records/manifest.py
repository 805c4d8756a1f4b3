"""A manifest beside every expensive output: what made it, on what, and what it holds."""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from stair.records.files import read_mapping, write_json
from stair.records.keys import PROTOCOL_VERSION, file_digest

_PACKAGES = (
    "stair",
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "pyarrow",
    "peft",
    "math-verify",
    "sympy",
)


def package_versions() -> dict[str, str]:
    """Versions of the installed packages that can change a result, read without importing them."""
    versions = {"python": platform.python_version()}
    for name in _PACKAGES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@cache
def hardware() -> dict[str, Any]:
    """This machine: system, processor, cores, memory in GiB, GPUs as their driver names them."""
    import psutil  # of the pipeline; training and benchmarks import this file without it

    found: dict[str, Any] = {"system": platform.platform(), "processor": platform.machine()}
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        found["processor"] = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    found["cores"] = os.cpu_count()
    found["memory"] = round(psutil.virtual_memory().total / 2**30)
    found["gpus"] = []
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            told = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
            found["gpus"] = [line.strip() for line in told.splitlines() if line.strip()]
    return found


def source_fingerprint() -> str:
    """SHA-256 over the package's source files. Told in manifests; no rule and no response key depends on it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def manifest_path(output: Path) -> Path:
    """Where the manifest of an output lies: in a folder as manifest.json, beside a file as <name>.manifest.json."""
    return output / "manifest.json" if output.is_dir() else output.with_name(output.name + ".manifest.json")


def write_manifest(output: Path, *, stage: str, settings: Mapping[str, Any], **facts: Any) -> Path:
    """Writes the manifest of a sealed output (a file or a folder)."""
    if output.is_dir():
        files = sorted(path for path in output.rglob("*") if path.is_file() and path.name != "manifest.json")
    else:
        files = [output]
    path = manifest_path(output)
    names = {file: file.name if file is output else file.relative_to(output).as_posix() for file in files}
    write_json(
        path,
        {
            **manifest_facts(stage),
            "files": {name: file_digest(file) for file, name in names.items()},
            "settings": settings,
            **facts,
        },
    )
    return path


def missing_responses(output: Path) -> list[dict[str, Any]]:
    """The responses that an output's manifest names as missing, each with its reason; none where no manifest can be read."""
    try:
        missing: list[dict[str, Any]] = read_mapping(manifest_path(output)).get("missing", [])
    except ValueError:
        return []
    return missing


def manifest_facts(stage: str) -> dict[str, Any]:
    """What every manifest says: the stage, the code, the versions, the machine, the time."""
    return {
        "stage": stage,
        "protocol_version": PROTOCOL_VERSION,
        "source": source_fingerprint(),
        "versions": package_versions(),
        "machine": hardware(),
        "sealed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
