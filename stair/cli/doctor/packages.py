"""The installed packages against the lock file of the environment."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.markers import Marker

from stair.cli.doctor.devices import torch_cuda
from stair.cli.doctor.finding import Finding

KERNELS = {"flash-attn", "causal-conv1d", "flash-linear-attention", "fla-core", "ninja", "einops"}
"""The attention path depends on them, and its findings report them."""

_SHOWN = 4


def locked_versions(lock: Path) -> dict[str, str]:
    """The versions of the packages that a lock file has for this platform and Python."""
    entries = re.findall(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)(?: ; ([^\\\n]+))?", lock.read_text("utf-8"), flags=re.M)
    return {name: version for name, version, marker in entries if not marker or Marker(marker.strip()).evaluate()}


def package_findings(root: Path) -> Iterator[Finding]:
    """Missing packages, and packages of other versions than locked.

    Args:
        root: the project's folder, with envs/.
    """
    marked = root / ".venv" / ".device"
    device = marked.read_text().strip() if marked.is_file() and Path(sys.prefix) == root / ".venv" else ""
    lock = root / "envs" / f"{device or ('cuda' if _has_kernels() else 'cpu')}.lock"
    if not lock.is_file():
        yield Finding("packages", "warning", f"there is no {lock} to compare the packages with", "git checkout envs")
        return
    wanted = {name: version for name, version in locked_versions(lock).items() if name not in KERNELS}
    installed: dict[str, str | None] = {name: _version(name) for name in wanted}
    missing = [name for name, version in installed.items() if version is None]
    other = [
        f"{name} {installed[name]} ({wanted[name]})" for name in wanted if installed[name] not in (None, wanted[name])
    ]
    where = f"in {sys.prefix}" if Path(sys.prefix) != root / ".venv" else "in .venv"
    remedy = "make env DEVICE=cuda" if lock.stem == "cuda" else "make env"
    if missing:
        text = f"{len(missing)} of {len(wanted)} packages of {lock.name} are missing {where}: {_some(missing)}"
        yield Finding("packages", "error" if "torch" in missing else "warning", text, remedy)
    if other:
        text = f"{len(other)} packages {where} have other versions than {lock.name}: {_some(other)}"
        yield Finding("packages", "warning", text, remedy)
    if not missing and not other:
        built = torch_cuda()
        text = f"{len(wanted)} packages {where} have the versions of {lock.name}; torch {_version('torch')}"
        yield Finding("packages", "ok", f"{text}{f' for CUDA {built}' if built else ', CPU build'}")


def _has_kernels() -> bool:
    return _version("flash-linear-attention") is not None


def _version(name: str) -> str | None:
    """An installed version, without a build suffix such as torch's +cpu."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
