"""A full disk is one line with the remedy, whichever library met it, and where not even the log could be written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stair.cli.main import main
from stair.records.files import MAKE_ROOM


@pytest.mark.parametrize(
    "error",
    [
        OSError(28, "No space left on device", "file"),
        OSError(f"file cannot be written ([Errno 28] No space left on device): {MAKE_ROOM}"),
        Exception("file: No space left on device (os error 28)"),  # the tokenizers library
    ],
)
def test_a_full_disk_is_one_line_with_one_remedy(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    def full() -> None:
        raise error

    monkeypatch.setattr("stair.cli.main.job.add_job_commands", full)
    monkeypatch.setattr(sys, "argv", ["stair", "config"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stair: error: ") and "file" in line
    assert line.count(MAKE_ROOM) == 1


def test_other_faults_of_the_code_stay_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise KeyError("name")

    monkeypatch.setattr("stair.cli.main.job.add_job_commands", broken)
    with pytest.raises(KeyError):
        main()


WRITE = """
import resource
import numpy as np
from pathlib import Path
from safetensors.numpy import save_file
from stair.records.files import naming
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
with naming(Path("controllers/stair")):
    save_file({"a": np.zeros(10000)}, "adapter.safetensors")
"""


def test_safetensors_on_a_full_disk_name_what_was_written(tmp_path: Path) -> None:
    """A limit of file sizes takes the place of a full disk: the library's error has its number in the text alone."""
    done = subprocess.run([sys.executable, "-c", WRITE], cwd=tmp_path, capture_output=True, text=True, check=False)
    line = done.stderr.splitlines()[-1]
    assert line.startswith("OSError: controllers/stair cannot be written (") and line.endswith(f": {MAKE_ROOM}")
