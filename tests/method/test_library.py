"""The library alone: the documented example, in an environment of its own dependencies and nothing else."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from stair.method import Reflector
from stair.models.model_folder import read_architecture

ROOT = Path(__file__).parents[2]
DEPENDENCIES = ("numpy", "torch", "safetensors", "transformers")


def closure(names: tuple[str, ...]) -> dict[str, Distribution]:
    """These distributions and all that they require, extras left out."""
    found: dict[str, Distribution] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:  # of another platform
            continue
        for line in found[name].requires or []:
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                waiting.append(requirement.name)
    return found


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of links to the method's dependencies and to this package."""
    folder = tmp_path_factory.mktemp("bare")
    packages = closure(DEPENDENCIES)
    assert "peft" not in packages
    assert "pandas" not in packages
    for package in packages.values():
        for top in {file.parts[0] for file in package.files or [] if file.parts[0] != ".."}:
            target = Path(str(package.locate_file(top)))
            if target.exists() and not (folder / top).exists():
                (folder / top).symlink_to(target)
    (folder / "stair").symlink_to(ROOT / "stair")
    return folder


def run_bare(folder: Path, code: str) -> str:
    """Run in a fresh interpreter whose only packages are those of the folder."""
    # Isolated and without site packages, the path is the standard library alone.
    start = f"import sys; sys.path.append({str(folder)!r})\n"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", start + code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_documented_example_runs_in_a_bare_environment(bare: Path) -> None:
    page = (ROOT / "docs" / "method.md").read_text()
    _, example = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    absent = (
        "import importlib.util as u; print([u.find_spec(n) is None for n in ('peft', 'pandas', 'triton', 'snakemake')])"
    )
    light = "import sys; print([name in sys.modules for name in ('stair.method.reads.fused', 'stair.config')])"
    receipt, missing, imported = run_bare(bare, "\n".join((example, absent, light))).splitlines()
    controlled, entries, norm = receipt.split()
    assert (controlled, entries) == ("3", "4")
    assert float(norm) > 0.0
    assert missing == "[True, True, True, True]"
    assert imported == "[False, False]"


def test_the_documented_conversation_runs_in_a_bare_environment(bare: Path, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "method.md").read_text()
    example, _ = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    model, controller = ROOT / "backbones" / "tiny-qwen3-4b", tmp_path / "controller"
    architecture = read_architecture(model)
    reflector = Reflector.draw([3, 7, 11], architecture.query_heads, architecture.head_dim, seed=1)
    reflector.save(controller / "controller.safetensors", architecture=architecture)
    for shown, real in (
        ("models/Qwen3-4B-Instruct-2507", model),
        ("results/paper/controllers/qwen3-4b-instruct/stair", controller),
        ("chat", tmp_path / "chat"),
    ):
        assert f'"{shown}"' in example
        example = example.replace(f'"{shown}"', repr(str(real)))
    light = (
        "import sys, stair; print([name in sys.modules for name in ('torch', 'transformers', 'stair.conversation')])"
    )
    after = "print(chat.bank.turns, [name in sys.modules for name in ('pyarrow', 'pydantic', 'typer', 'stair.config')])"
    first, *answers, bank, last = run_bare(bare, "\n".join((light, example, after))).splitlines()
    assert first == "[False, False, False]"
    assert len(answers) >= 3
    assert re.search(r"BankSize\(turns=4, entries=\d+, bytes=\d+\)$", bank)
    assert last == "4 [False, False, False, False]"
