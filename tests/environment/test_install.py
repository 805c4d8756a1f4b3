"""Locked packages are installed by uv with pip's own settings and the lock's hashes, and by pip where uv cannot."""

from __future__ import annotations

import hashlib
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pip
import pytest

from tests.environment.wheels import write_wheel

ROOT = Path(__file__).parents[2]
INSTALL = ROOT / "envs" / "install.py"
arguments_of = runpy.run_path(str(INSTALL))["uv_settings"]


def wheel(folder: Path, content: str) -> str:
    """Writes a wheel of the package `somewhere`; gives its digest."""
    return hashlib.sha256(write_wheel(folder, "somewhere", "1.0", {"somewhere.py": content}).read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """A package index of files with one wheel, and a lock file that names it by its digest."""
    page = tmp_path / "simple" / "somewhere"
    digest = wheel(page, "here = 'index'\n")
    (page / "index.html").write_text('<a href="somewhere-1.0-py3-none-any.whl">somewhere-1.0-py3-none-any.whl</a>')
    (tmp_path / "lock.txt").write_text(f"somewhere==1.0 --hash=sha256:{digest}\n")
    return tmp_path


def install(index: Path, python: str = sys.executable, **settings: str) -> subprocess.CompletedProcess[str]:
    """Installs the lock file into a folder, with these settings of pip and no others."""
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    shell |= {"PIP_CONFIG_FILE": os.devnull, "UV_CACHE_DIR": str(index / "cache"), **settings}
    words = [python, str(INSTALL), "--no-deps", "--require-hashes", "--target", str(index / "made")]
    words += ["-r", str(index / "lock.txt")]
    return subprocess.run(words, env=shell, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("place", ["environment", "file", "find-links"])
def test_uv_takes_the_index_that_pip_is_told(index: Path, place: str) -> None:
    url = f"file://{index}/simple"
    settings = {"PIP_INDEX_URL": url}
    if place == "file":
        (index / "pip.conf").write_text(f"[global]\nindex-url = {url}\n")
        settings = {"PIP_CONFIG_FILE": str(index / "pip.conf")}
    if place == "find-links":
        settings = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(index / "simple" / "somewhere")}
    done = install(index, **settings)
    assert done.returncode == 0, done.stderr
    assert "pip installs" not in done.stdout + done.stderr
    assert (index / "made" / "somewhere.py").read_text() == "here = 'index'\n"
    assert (next((index / "made").glob("*.dist-info")) / "INSTALLER").read_text().strip() == "uv"


def test_uvs_own_settings_do_not_count(index: Path) -> None:
    """As pip would, it looks where pip is told and nowhere else."""
    wheel(index / "other", "here = 'other'\n")
    done = install(index, PIP_INDEX_URL=f"file://{index}/simple", UV_FIND_LINKS=str(index / "other"), UV_NO_INDEX="1")
    assert done.returncode == 0, done.stderr
    assert (index / "made" / "somewhere.py").read_text() == "here = 'index'\n"


def test_a_file_of_another_digest_is_refused(index: Path) -> None:
    wheel(index / "simple" / "somewhere", "here = 'changed'\n")
    done = install(index, PIP_INDEX_URL=f"file://{index}/simple")
    assert done.returncode != 0
    assert "hash" in done.stderr.lower()
    assert not (index / "made" / "somewhere.py").exists()


def test_pip_installs_where_there_is_no_uv(index: Path) -> None:
    """In an environment without uv, and a copy of the project without one."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(index / "plain")], check=True)
    (site,) = (index / "plain").glob("lib/*/site-packages")
    (site / "pip").symlink_to(Path(pip.__file__).parent)  # installing it takes seconds
    (index / "project" / "envs").mkdir(parents=True)
    shutil.copy(INSTALL, index / "project" / "envs")
    words = ("--no-deps", "--require-hashes", "-r", str(index / "lock.txt"))
    shell = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    done = subprocess.run(
        [index / "plain" / "bin" / "python", index / "project" / "envs" / "install.py", *words],
        env=shell | {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"file://{index}/simple"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "uv is not here: pip installs" in done.stderr
    (made,) = (index / "plain").glob("lib/*/site-packages/somewhere-*.dist-info")
    assert (made / "INSTALLER").read_text().strip() == "pip"
    assert not list((index / "plain").glob("lib/*/site-packages/__pycache__/somewhere*")), (
        "compiled when first imported"
    )


def test_settings_of_pip_for_uv() -> None:
    listed = """:env:.find-links='/opt/a /opt/b'
:env:.disable-pip-version-check='1'
:env:.default-timeout='180'
global.index-url='https://user:secret@host/simple'
global.extra-index-url='file:///one\\nfile:///two'
install.index-url='https://install/simple'
global.cert='/etc/ca.crt'
download.index-url='https://elsewhere'
"""
    words, environment = arguments_of(listed)
    assert words == [
        *("--find-links", "/opt/a", "--find-links", "/opt/b"),
        *("--default-index", "https://install/simple"),
        *("--extra-index-url", "file:///one", "--extra-index-url", "file:///two"),
    ]
    assert environment == {"UV_HTTP_TIMEOUT": "180", "SSL_CERT_FILE": "/etc/ca.crt"}
    assert arguments_of("") == ([], {})


@pytest.mark.parametrize("line", ["global.no-binary=':all:'", ":env:.constraint='pins.txt'", "install.user='yes'"])
def test_a_setting_that_uv_does_not_have_is_for_pip(line: str) -> None:
    with pytest.raises(ValueError, match=re.escape(line.partition("=")[0].rpartition(".")[2])):
        arguments_of(line + "\n")
