"""`stair from-archive` reports equal, different and absent files."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.cli.from_archive import _compare, compared_files
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.graph.run import Run

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
    _compare(run, archive)
    assert capsys.readouterr().err == ""

    for name in names[:5]:
        (archive.folder / name).unlink()
    _compare(run, archive)
    told = capsys.readouterr()
    assert f"{len(names) - 5} of {len(names) - 5} files" in told.out
    assert f"not in the archive, so not compared: {', '.join(map(str, sorted(names[:5])[:3]))} and 2 more" in told.err

    (archive.folder / names[-1]).write_text("other")
    with pytest.raises(SystemExit):
        _compare(run, archive)
    assert f"differs from the archive's: {run.paths.folder / names[-1]}" in capsys.readouterr().err
