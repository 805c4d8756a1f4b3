"""The installed packages against the lock file of the environment."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

from stair.cli.doctor.devices import torch_cuda
from stair.cli.doctor.finding import Finding

KERNELS = {"flash-attn", "causal-conv1d", "flash-linear-attention", "fla-core", "ninja", "einops"}
"""The attention path depends on them, and its findings report them."""

_SHOWN = 4


def package_findings(root: Path) -> Iterator[Finding]:
    marked = root / ".venv" / ".device"
    here = Path(sys.prefix) == root / ".venv"
    device = marked.read_text().strip() if marked.is_file() and here else ""
    lock = root / "envs" / f"{device or ('cuda' if _version('flash-linear-attention') else 'cpu')}.lock"
    if not lock.is_file():
        yield Finding("packages", "warning", f"there is no {lock} to compare the packages with", "git checkout envs")
        return
    wanted = _locked(lock)
    missing, other = [], []
    for package in wanted:
        version = _version(package.name)
        if version is None:
            missing.append(package.name)
        elif not package.specifier.contains(version, prereleases=True):
            other.append(f"{package.name} {version} ({str(package.specifier).removeprefix('==')})")
    where = "in .venv" if here else f"in {sys.prefix}"
    remedy = "make env DEVICE=cuda" if lock.stem == "cuda" else "make env"
    if missing:
        text = f"{len(missing)} of {len(wanted)} packages of {lock.name} are missing {where}: {_some(missing)}"
        yield Finding("packages", "error" if "torch" in missing else "warning", text, remedy)
    if other:
        text = f"{len(other)} packages {where} have other versions than {lock.name}: {_some(other)}"
        yield Finding("packages", "warning", text, remedy)
    if not missing and not other:
        built = f" for CUDA {torch_cuda()}" if torch_cuda() else ", CPU build"
        text = f"{len(wanted)} packages {where} have the versions of {lock.name}; torch {_version('torch')}{built}"
        yield Finding("packages", "ok", text)


def _locked(lock: Path) -> list[Requirement]:
    """The packages that a lock file has for this platform and Python."""
    lines = [line.rstrip(" \\") for line in lock.read_text("utf-8").splitlines() if line[:1].isalnum()]
    packages = [package for package in map(Requirement, lines) if package.name not in KERNELS]
    return [package for package in packages if package.marker is None or package.marker.evaluate()]


def _version(name: str) -> str | None:
    """An installed version, without a build suffix such as torch's +cpu."""
    try:
        return metadata.version(name).partition("+")[0]
    except metadata.PackageNotFoundError:
        return None


def _some(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
