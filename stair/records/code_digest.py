"""Digests of source code: a module and all modules of this project that it imports. Nothing is imported to find them."""

from __future__ import annotations

import ast
import hashlib
import json
from contextlib import suppress
from functools import cache
from importlib.util import cache_from_source, find_spec
from pathlib import Path
from typing import NamedTuple

from stair.records.files import write_text

PACKAGES = ("stair", "answer_grader")
"""The project's packages."""

_ITERATES = "pkgutil.iter_modules"
"""A package that imports it imports its own files by it."""


class Module(NamedTuple):
    imports: tuple[str, ...]
    """The names that it imports."""
    code: str
    """SHA-256 of its syntax tree without docstrings."""


@cache
def modules_digest(*modules: str, leave_out: tuple[str, ...] = ()) -> str:
    """SHA-256 over the syntax trees of modules and of what they import from the project, without comments and docstrings.

    `leave_out` names packages that lend types alone, or whose part in the result is among a rule's settings.
    """
    reached = modules_reached(*modules, leave_out=leave_out)
    digest = hashlib.sha256()
    for name in sorted(reached):
        digest.update(f"{name}\0{reached[name].code}\0".encode())
    for package in {name.split(".")[0] for name in reached}:
        _parser(package_folder(package)).keep()
    return digest.hexdigest()


def modules_reached(*modules: str, leave_out: tuple[str, ...] = ()) -> dict[str, Module]:
    """Modules, what they import from the project, and the packages that those lie in."""
    reached: dict[str, Module] = {}
    queue = list(modules)
    while queue:
        name = queue.pop()
        path = _file_of(name)
        if path is None or name in reached or any(f"{name}.".startswith(f"{package}.") for package in leave_out):
            continue
        reached[name] = _parser(package_folder(name.split(".")[0])).module(path)
        queue += reached[name].imports
        if _ITERATES in reached[name].imports:
            queue += [f"{name}.{file.stem}" for file in path.parent.glob("*.py") if file != path]
        if "." in name:
            queue.append(name.rsplit(".", 1)[0])
    return reached


def _file_of(module: str) -> Path | None:
    package, *parts = module.split(".")
    if package not in PACKAGES:
        return None
    base = package_folder(package).joinpath(*parts)
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def package_folder(package: str) -> Path:
    """The folder of a package that is installed, or on the path."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        raise ValueError(f"the package {package} is not installed; run `make env`")
    return Path(spec.origin).parent


class _Parser:
    """Parses the modules of a package, and caches the results beside Python's compiled modules.

    Every start of Snakemake digests the whole package; parsing it would take a fourth of that start.
    """

    def __init__(self, package: Path) -> None:
        # The file's name has Python's version, because syntax trees differ by it, and this module's digest.
        own = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:8]
        self._file = Path(cache_from_source(str(package / f"syntax-{own}.py"))).with_suffix(".json")
        self._package, self._changed = package, False
        self._found: dict[str, tuple[str, Module]] = {}
        with suppress(OSError, ValueError):
            kept = json.loads(self._file.read_text(encoding="utf-8"))
            self._found = {name: (text, Module(tuple(imports), code)) for name, (text, imports, code) in kept.items()}

    def module(self, path: Path) -> Module:
        """The part of a module's file that enters a digest."""
        content, name = path.read_bytes(), str(path.relative_to(self._package))
        text = hashlib.sha256(content).hexdigest()
        if self._found.get(name, ("",))[0] != text:
            self._found[name] = text, _parse(content.decode())
            self._changed = True
        return self._found[name][1]

    def keep(self) -> None:
        """Writes new results. A package that cannot be written is parsed at each start."""
        if self._changed:
            with suppress(OSError):
                write_text(
                    self._file, json.dumps({name: (text, *module) for name, (text, module) in self._found.items()})
                )
            self._changed = False


@cache
def _parser(package: Path) -> _Parser:
    return _Parser(package)


def _parse(text: str) -> Module:
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
    return Module(tuple(imports), hashlib.sha256(ast.dump(tree).encode()).hexdigest())
