"""Manifests: each expensive output has one, with its settings, versions, machine and file digests."""

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
    import psutil  # only the pipeline has it; training and benchmarks import this module without it

    facts: dict[str, Any] = {"system": platform.platform(), "processor": platform.machine()}
    with contextlib.suppress(OSError, StopIteration):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        facts["processor"] = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    facts["cores"] = os.cpu_count()
    facts["memory"] = round(psutil.virtual_memory().total / 2**30)
    facts["gpus"] = []
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            listing = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout
            facts["gpus"] = [line.strip() for line in listing.splitlines() if line.strip()]
    return facts


def source_fingerprint() -> str:
    """SHA-256 over the package's source files, for manifests; no rule and no response key depends on it."""
    root = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def manifest_path(output: Path) -> Path:
    """The manifest of an output: manifest.json in a folder, <name>.manifest.json beside a file."""
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


def recorded_fact(manifest: Path, key: str) -> Any:
    """A fact of a manifest. Raises ValueError where the manifest cannot be read or lacks it."""
    facts = read_mapping(manifest)
    if key not in facts:
        raise ValueError(f"{manifest} lacks '{key}'; delete the output that it belongs to, and make it again")
    return facts[key]


def missing_responses(output: Path) -> list[dict[str, Any]]:
    """The missing responses in an output's manifest, each with its reason; none if the manifest cannot be read."""
    try:
        missing: list[dict[str, Any]] = read_mapping(manifest_path(output)).get("missing", [])
    except ValueError:
        return []
    return missing


def manifest_facts(stage: str) -> dict[str, Any]:
    """The facts in every manifest: stage, code, versions, machine, time."""
    return {
        "stage": stage,
        "protocol_version": PROTOCOL_VERSION,
        "source": source_fingerprint(),
        "versions": package_versions(),
        "machine": hardware(),
        "sealed": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
