"""Installs packages as `pip install` would, by uv where it can: `python envs/install.py --no-deps --require-hashes -r FILE`.

uv does not compile modules; envs/precompile.py compiles those that a run imports. uv reads none of
pip's settings, so this gives it pip's indexes, certificates, proxy and time limit, and ignores uv's own. Where uv
is not here or fails, or where pip has a setting that uv does not know, pip installs.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

_PLACES = ("find-links", "no-index", "index-url", "extra-index-url", "trusted-host")
_FLAGS = {
    "find-links": "--find-links",
    "index-url": "--default-index",
    "extra-index-url": "--extra-index-url",
    "trusted-host": "--allow-insecure-host",
}
_VARIABLES = {
    "cert": ("SSL_CERT_FILE",),
    "client-cert": ("SSL_CLIENT_CERT",),
    "proxy": ("HTTP_PROXY", "HTTPS_PROXY"),
    "retries": ("UV_HTTP_RETRIES",),
    "timeout": ("UV_HTTP_TIMEOUT",),
}
_WITHOUT_EFFECT = {
    "break-system-packages", "cache-dir", "compile", "config-file", "disable-pip-version-check", "no-cache-dir", "no-color",
    "no-compile", "no-input", "no-python-version-warning", "no-warn-script-location", "progress-bar", "quiet",
    "require-virtualenv", "root-user-action", "use-feature", "verbose",
}  # fmt: skip
"""Settings of pip that change neither the files nor their source."""

_KEPT = ("UV_CACHE_DIR", "UV_LINK_MODE", "UV_OFFLINE", "UV_NO_PROGRESS")
"""uv's own settings that hold: none of them chooses a package."""


def uv_settings(listed: str) -> tuple[list[str], dict[str, str]]:
    """Options and environment variables for uv.

    Args:
        listed: what `pip config list` prints.

    Raises:
        ValueError: pip has a setting that uv does not know.
    """
    settings: dict[str, str] = {}
    for section in ("global.", "install.", ":env:."):  # the later one holds, as for pip
        for line in listed.splitlines():
            if line.startswith(section) and "=" in line:
                name, _, value = line.removeprefix(section).partition("=")
                settings[name.removeprefix("default-")] = ast.literal_eval(value)
    words: list[str] = []
    environment: dict[str, str] = {}
    for name in sorted(settings, key=lambda name: _PLACES.index(name) if name in _PLACES else len(_PLACES)):
        if name in _FLAGS:
            words += [word for value in settings[name].split() for word in (_FLAGS[name], value)]
        elif name == "no-index":
            words += ["--no-index"] if settings[name].lower() in ("1", "true", "yes", "on") else []
        elif name in _VARIABLES:
            environment |= dict.fromkeys(_VARIABLES[name], settings[name])
        elif name not in _WITHOUT_EFFECT:
            raise ValueError(f"pip's setting {name} is not for uv")
    return words, environment


def _by_uv(words: list[str]) -> str | None:
    """Installs by uv; gives the reason where it did not."""
    found = (Path(sys.executable).parent / "uv", Path(__file__).parents[1] / ".venv" / "bin" / "uv")
    uv = next((path for path in found if path.is_file()), None)
    if uv is None:
        return "uv is not here"
    listed = subprocess.run([*_PIP, "config", "list"], capture_output=True, text=True, check=True).stdout
    try:
        places, settings = uv_settings(listed)
    except ValueError as error:
        return str(error)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UV_") or name in _KEPT}
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # pip reads them, uv does not
        if name in os.environ:
            environment.setdefault("SSL_CERT_FILE", os.environ[name])
    # pip takes a file from any index; the lock's digests say which file it must be.
    command = [str(uv), "pip", "install", "--quiet", "--no-config", "--system-certs"]
    command += ["--python", sys.executable, "--index-strategy", "unsafe-best-match", *places, *words]
    if subprocess.run(command, env=environment | settings, check=False).returncode:
        return "uv failed"
    return None


_PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


def main(words: list[str]) -> int:
    """Installs; gives the exit code."""
    reason = _by_uv(words)
    if reason is None:
        return 0
    print(f"{reason}: pip installs", file=sys.stderr)
    return subprocess.run([*_PIP, "install", "--quiet", "--no-compile", *words], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
