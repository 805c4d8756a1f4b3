"""`stair from-archive` reports equal, different and absent files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stair.cli.from_archive import compare, report
from stair.config.resolve import RESOLVED
from stair.records.archive_files import opened, pack


def test_files_that_the_archive_lacks_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path("results/smoke")
    made = {f"tables/{number}.csv": str(number) for number in range(9)}
    names = list(made)
    assert compare(made, made) == (names, [], [])
    report(compare(made, made), folder)
    assert capsys.readouterr().err == ""

    archived = {name: made[name] for name in names[5:]}
    report(compare(archived, made), folder)
    output = capsys.readouterr()
    assert "4 of 4 files" in output.out
    assert f"not in the archive, so not compared: {', '.join(names[:3])} and 2 more" in output.err

    with pytest.raises(SystemExit):
        report(compare(archived | {names[-1]: "other"}, made), folder)
    assert f"differs from the archive's: {folder / names[-1]}" in capsys.readouterr().err


def test_what_a_killed_command_unpacked_is_removed(tmp_path: Path) -> None:
    results, content = tmp_path / "results", tmp_path / "content"
    content.mkdir()
    (content / RESOLVED).write_text("run: smoke\n")
    pack(content, tmp_path / "run.tar.gz", "run")
    opening = (
        "import os, sys; from pathlib import Path; from stair.records.archive_files import opened\n"
        "with opened(Path(sys.argv[1]), Path(sys.argv[2])): os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", opening, tmp_path / "run.tar.gz", results], check=False)
    (killed,) = results.iterdir()
    with opened(tmp_path / "run.tar.gz", results) as folder:
        assert [path.name for path in results.iterdir()] == [folder.parent.name]
        assert folder.parent != killed
    assert not list(results.iterdir())
