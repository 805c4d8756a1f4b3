"""Digests of source code: a module and all modules of this package that it imports. Nothing is imported to find them."""

from __future__ import annotations

import ast
import hashlib
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

_ROOT = Path(__file__).parents[2]
_PACKAGE = Path(__file__).parents[1].name
_ITERATES = "pkgutil.iter_modules"
"""A package that imports it imports its own files by it."""


class Module(NamedTuple):
    """The part of a module that enters a digest: the names that it imports, and its syntax tree without docstrings."""

    imports: tuple[str, ...]
    code: str


@cache
def modules_digest(*modules: str, leave_out: tuple[str, ...] = ()) -> str:
    """SHA-256 over the syntax trees of modules and of what they import from this package.

    Comments, layout and docstrings do not count: only what can change a result. `leave_out` names packages that lend types
    alone, or whose part in the result is among a rule's settings.
    """
    reached = modules_reached(*modules, leave_out=leave_out)
    digest = hashlib.sha256()
    for name in sorted(reached):
        digest.update(f"{name}\0{reached[name].code}\0".encode())
    return digest.hexdigest()


def modules_reached(*modules: str, leave_out: tuple[str, ...] = ()) -> dict[str, Module]:
    """Modules, what they import from this package, and the packages that those lie in."""
    reached: dict[str, Module] = {}
    queue = list(modules)
    while queue:
        name = queue.pop()
        path = _file_of(name)
        if path is None or name in reached or any(f"{name}.".startswith(f"{package}.") for package in leave_out):
            continue
        reached[name] = _parse(path.read_text(encoding="utf-8"))
        queue += reached[name].imports
        if _ITERATES in reached[name].imports:
            queue += [f"{name}.{file.stem}" for file in path.parent.glob("*.py") if file != path]
        if "." in name:
            queue.append(name.rsplit(".", 1)[0])
    return reached


def parse_package() -> None:
    """Parses every module of this package, so that processes forked from this one need not."""
    for path in sorted((_ROOT / _PACKAGE).rglob("*.py")):
        # A file that nobody imports may be half written.
        with suppress(OSError, SyntaxError, UnicodeDecodeError):
            _parse(path.read_text(encoding="utf-8"))


def _file_of(module: str) -> Path | None:
    if module.split(".")[0] != _PACKAGE:
        return None
    base = _ROOT.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


@cache  # a graph asks for many digests, and most modules are in all of them
def _parse(text: str) -> Module:
    """The imports and syntax tree of a module's text."""
    tree, imports = ast.parse(text), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imports += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            # `from a import b` may import the module a.b.
            imports += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = node.body[1:]
    return Module(tuple(imports), ast.dump(tree))
