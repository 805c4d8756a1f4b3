"""The environment variables of commands, and so of the processes that they start.

A run is the same in a notebook, in a container and behind `module load`. Every `stair` command imports this module, so
its head imports little.
"""

from __future__ import annotations

import os
import sys
from io import TextIOWrapper
from typing import NamedTuple


class Disturbance(NamedTuple):
    """A variable of the shell that would disturb a run."""

    text: str
    remedy: str
    """The command that removes it. `stair` does without; plain `snakemake` needs it."""


met: list[Disturbance] = []
"""The disturbances that `prepare_environment` found, for `stair doctor`."""


def prepare_environment() -> None:
    """Replaces the variables of this process that would disturb a run."""
    os.environ["MPLBACKEND"] = "Agg"  # a notebook's names a module that is not installed here
    _leave_out_foreign_packages()
    for name in sorted(name for name in os.environ if name.startswith("SNAKEMAKE_")):
        met.append(Disturbance(f"{name}={os.environ.pop(name)} changes Snakemake's settings", f"unset {name}"))
    _use_own_home()


def print_every_sign() -> None:
    """Has stdout and stderr replace signs that the encoding of a terminal or a log lacks."""
    for stream in (sys.stdout, sys.stderr):
        # A fork of the warm process has its streams, whose files are others by now: only a new stream can be changed.
        if isinstance(stream, TextIOWrapper) and stream.errors != "replace":
            stream.reconfigure(errors="replace")


def _leave_out_foreign_packages() -> None:
    """Leaves out folders of PYTHONPATH with packages of this environment: those have other versions, or are broken here."""
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if not folders:
        return
    import sysconfig

    installed = _modules(sysconfig.get_path("purelib"))
    for folder in list(folders):
        if hidden := sorted(installed & _modules(folder)):
            folders.remove(folder)
            sys.path[:] = [place for place in sys.path if place != os.path.abspath(folder)]  # Python keeps whole paths
            met.append(Disturbance(f"PYTHONPATH: {folder} hides {hidden[0]} of {sys.prefix}", "unset PYTHONPATH"))
    os.environ["PYTHONPATH"] = os.pathsep.join(folders)  # an empty one counts as none


def _modules(folder: str) -> set[str]:
    """The names of a folder's modules and packages."""
    try:
        names = {name.partition(".")[0] for name in os.listdir(folder)}
    except OSError:
        return set()
    return {name for name in names if name.isidentifier() and name != "__pycache__"}


def _use_own_home() -> None:
    """Gives caches a folder where the user has none: in a container, under a user id that the system does not know."""
    user = os.getuid()
    try:
        import pwd

        pwd.getpwuid(user)
    except KeyError:
        os.environ.setdefault("USER", str(user))
    home = os.environ.get("HOME", "")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")
    if os.path.isdir(home) and _writable(home) and _writable(cache):
        return
    import atexit
    from tempfile import TemporaryDirectory

    folder = TemporaryDirectory(prefix="stair-")
    atexit.register(folder.cleanup)
    if "HF_HOME" not in os.environ:
        os.environ.setdefault("HF_TOKEN_PATH", os.path.join(cache, "huggingface", "token"))
    os.environ.pop("XDG_CACHE_HOME", None)
    os.environ["HOME"] = folder.name
    where = cache if home and os.path.isdir(home) else f"HOME ({home or 'not set'})"
    met.append(Disturbance(f"{where} cannot be written", "export HOME=<a folder of yours>; unset XDG_CACHE_HOME"))


def _writable(folder: str) -> bool:
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
