"""A Python with torch and Transformers and without the pipeline's packages."""

from __future__ import annotations

import re
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]

ABSENT = (
    *("stair", "pydantic", "snakemake", "orjson", "answer_grader", "pandas", "pyarrow", "matplotlib"),
    *("psutil", "accelerate", "peft", "scipy", "typer", "hypothesis", "xdist", "pytest_timeout"),
)
_FILES = re.compile(rf"_*(editable__\.)?({'|'.join((*ABSENT, 'pytest_xdist'))})(?![a-z])", re.IGNORECASE)


def python_without_extras(folder: Path) -> Path:
    """Make an environment in `folder` with this one's packages except `ABSENT`; return its Python.

    Packages are links. Metadata of the absent ones is absent too: libraries look at both.
    """
    venv.create(folder, symlinks=True)
    paths = sysconfig.get_paths("venv", vars={"base": str(folder), "platbase": str(folder)})
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if not _FILES.match(entry.name):
            (Path(paths["purelib"]) / entry.name).symlink_to(entry)
    return Path(paths["scripts"]) / "python"
