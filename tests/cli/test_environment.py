"""What a notebook, a container, `module load` or a terminal sets changes no command: the real ones, in such a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STAIR = Path(sys.executable).parent / "stair"
NOTEBOOK = "module://matplotlib_inline.backend_inline"

SHOWN = """
import os, sys
from stair.cli.environment import met, prepare_environment
prepare_environment()
print(__import__("json").dumps({"variables": dict(os.environ), "path": sys.path, "met": met, "home": os.path.expanduser("~")}))
"""


def shell(**changes: str | None) -> dict[str, str]:
    """The variables of this process with these changes; None removes one."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH" and not name.startswith("STAIR_")}
    return {name: value for name, value in (kept | changes).items() if value is not None}


def prepared(*before: str, **changes: str | None) -> dict:
    """What a command makes of a shell; `before`: words before the command."""
    words = [*before, sys.executable, "-c", SHOWN]
    done = subprocess.run(words, env=shell(**changes), cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    content: dict = json.loads(done.stdout)
    return content


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """A folder as of `module load`, with packages of its own: its numpy cannot be imported here."""
    for name in ("numpy", "yaml"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('built for another Python')\n")
    return tmp_path


def test_an_ordinary_shell_is_left_alone(tmp_path: Path) -> None:
    home = prepared(HOME=str(tmp_path), SNAKEMAKE_PROFILE=None)
    assert home["met"] == [] and home["home"] == str(tmp_path)


def test_figures_are_drawn_whatever_backend_the_shell_names() -> None:
    code = "import sys; sys.argv = ['stair', '--help']\ntry:\n    from stair.cli import main; main()\n"
    code += "finally:\n    import matplotlib.pyplot"
    done = subprocess.run(
        [sys.executable, "-c", code], env=shell(MPLBACKEND=NOTEBOOK), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_packages_of_another_folder_are_left_out_and_other_folders_of_pythonpath_stay(
    foreign: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    own = tmp_path_factory.mktemp("own")
    (own / "sitecustomize.py").touch()
    (own / "numpy-1.0.dist-info").mkdir()
    found = prepared(PYTHONPATH=f"{foreign}/{os.pathsep}{own}")
    assert found["variables"]["PYTHONPATH"] == str(own)
    assert str(foreign) not in found["path"] and str(own) in found["path"]
    ((text, remedy),) = found["met"]
    assert str(foreign) in text and "numpy" in text and remedy == "unset PYTHONPATH"
    done = subprocess.run(
        [STAIR, "config"], env=shell(PYTHONPATH=str(foreign)), cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_snakemakes_own_variables_are_left_out(tmp_path: Path) -> None:
    found = prepared(SNAKEMAKE_PROFILE=str(tmp_path), SNAKEMAKE_OUTPUT_CACHE="/nowhere")
    assert not [name for name in found["variables"] if name.startswith("SNAKEMAKE_")]
    assert [remedy for _, remedy in found["met"]] == ["unset SNAKEMAKE_OUTPUT_CACHE", "unset SNAKEMAKE_PROFILE"]


@pytest.mark.parametrize("home", [None, "/nowhere", "/proc"])
def test_caches_have_a_folder_where_the_user_has_none(home: str | None) -> None:
    found = prepared(HOME=home, XDG_CACHE_HOME=None)
    place = found["home"]
    assert place == found["variables"]["HOME"] != home
    assert not Path(place).exists(), "it ends with the command"
    assert [remedy for _, remedy in found["met"]] == ["export HOME=<a folder of yours>; unset XDG_CACHE_HOME"]


def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / ".cache").touch()  # a folder of another user is as unusable
    found = prepared(HOME=str(tmp_path), XDG_CACHE_HOME=None)
    assert found["home"] != str(tmp_path)
    assert found["variables"]["HF_TOKEN_PATH"] == f"{tmp_path}/.cache/huggingface/token", "it can still be read"
    assert prepared(HOME=str(tmp_path), XDG_CACHE_HOME=f"{tmp_path}/new")["met"] == []


@pytest.mark.skipif(os.getuid() != 0, reason="only root can take another user id")
def test_a_user_id_that_the_system_does_not_know() -> None:
    """As of `docker -u 12345`. The process keeps root's permission to read, since the interpreter may be in its folder."""
    kept = [
        "setpriv",
        "--reuid=12345",
        "--clear-groups",
        "--inh-caps=+dac_read_search",
        "--ambient-caps=+dac_read_search",
    ]
    found = prepared(*kept, HOME="/", USER=None, LOGNAME=None, LNAME=None, USERNAME=None)
    assert found["variables"]["USER"] == "12345"
    assert os.access(found["home"], os.F_OK) is False and found["home"] != "/"


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_sign_that_the_output_cannot_show_is_replaced(encoding: str) -> None:
    text = "import sys; sys.argv = ['stair', 'config', '--set', 'note=1 – 2 ± 3 ×']; from stair.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", text], env=shell(PYTHONIOENCODING=encoding), cwd=ROOT, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode(encoding)
    assert "1 ? 2" in done.stdout.decode(encoding)


def findings(**changes: str | None) -> list[Mapping[str, str]]:
    done = subprocess.run([STAIR, "doctor", "--json"], env=shell(**changes), cwd=ROOT, capture_output=True, check=False)
    return [each for each in json.loads(done.stdout)["findings"] if each["topic"] == "shell"]


def test_doctor_names_what_would_disturb_plain_snakemake(foreign: Path) -> None:
    told = findings(PYTHONPATH=str(foreign), SNAKEMAKE_PROFILE="x", HOME="/nowhere", PYTHONIOENCODING="latin-1")
    for words in ("PYTHONPATH", "SNAKEMAKE_PROFILE", "HOME", "iso8859-1"):
        (one,) = [each for each in told if words in each["text"]]
        assert one["level"] == "warning" and one["remedy"]
