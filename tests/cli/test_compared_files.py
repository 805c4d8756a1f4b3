"""`stair from-archive` reports equal, different and absent files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from stair.cli.from_archive import compare, compared_files, report
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.graph.run import Run
from stair.records.packing import pack
from stair.records.unpacking import opened

ROOT = Path(__file__).parents[2]


def test_files_that_the_archive_lacks_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = resolve(ROOT, {"run": "smoke", "results": str(tmp_path)})
    run, archive = Run(config, RunPaths.of(config)), RunPaths(tmp_path / "archive")
    names = compared_files(run)
    assert len(names) > 50
    for folder in (run.paths.folder, archive.folder):
        for name in names:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(str(name))
    assert compare(run, archive) == (names, [], [])
    report(compare(run, archive), run.paths.folder)
    assert capsys.readouterr().err == ""

    for name in names[:5]:
        (archive.folder / name).unlink()
    report(compare(run, archive), run.paths.folder)
    told = capsys.readouterr()
    assert f"{len(names) - 5} of {len(names) - 5} files" in told.out
    assert f"not in the archive, so not compared: {', '.join(map(str, sorted(names[:5])[:3]))} and 2 more" in told.err

    (archive.folder / names[-1]).write_text("other")
    with pytest.raises(SystemExit):
        report(compare(run, archive), run.paths.folder)
    assert f"differs from the archive's: {run.paths.folder / names[-1]}" in capsys.readouterr().err


def test_what_a_killed_command_unpacked_is_removed(tmp_path: Path) -> None:
    results, content = tmp_path / "results", tmp_path / "content"
    (content / "tables").mkdir(parents=True)
    (content / "tables" / "table.csv").write_text("a\n")
    pack(content, tmp_path / "run.tar.gz", "run")
    opening = (
        "import os, sys; from pathlib import Path; from stair.records.unpacking import opened\n"
        "with opened(Path(sys.argv[1]), Path(sys.argv[2]), ('tables',)): os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", opening, tmp_path / "run.tar.gz", results], check=False)
    (killed,) = results.iterdir()
    with opened(tmp_path / "run.tar.gz", results, ("tables",)) as folder:
        assert [path.name for path in results.iterdir()] == [folder.parent.name]
        assert folder.parent != killed
    assert not list(results.iterdir())
