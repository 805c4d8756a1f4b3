"""What a command says when it fails."""

from __future__ import annotations

import sys

import pytest

from stair.cli.main import main


def test_a_full_disk_is_one_line_and_a_fault_of_the_code_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> None:
        raise error

    monkeypatch.setattr("stair.cli.main.job.add_job_commands", fails)
    monkeypatch.setattr(sys, "argv", ["stair", "config"])
    error: Exception = OSError(28, "No space left on device", "file")
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err == "stair: error: [Errno 28] No space left on device: 'file'\n"
    error = KeyError("name")
    with pytest.raises(KeyError):
        main()
