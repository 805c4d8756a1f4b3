"""Wheels that a test writes."""

from __future__ import annotations

import zipfile
from pathlib import Path


def write_wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A wheel of a package with these files; pip and uv install it."""
    folder.mkdir(parents=True, exist_ok=True)
    path, metadata = folder / f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.dist-info"
    files = files | {
        f"{metadata}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{metadata}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{metadata}/RECORD"] = "".join(f"{file},,\n" for file in (*files, f"{metadata}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(file, text)
    return path
