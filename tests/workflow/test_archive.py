"""An archive of a run: what is refused, each in one line, and every table again without models or network."""

from __future__ import annotations

import io
import json
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stair.pipeline.archive import pack, unpacked
from tests.workflow.conftest import SMOKE, contents, planned, run_in

pytestmark = pytest.mark.timeout(300)
MODEL = "qwen3-4b-instruct"
ROWS = f"evaluation/{MODEL}/math500/stair.parquet"
CONTROLLER = f"controllers/{MODEL}/stair"


@pytest.fixture(scope="module")
def archive(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "smoke.tar.gz"
    done = run_in(finished_run, "stair", "export", "--run", "results/smoke", "--out", str(target))
    assert done.stderr == "", "every output is sound"
    return target


def changed(archive: Path, target: Path, change: Callable[[str, bytes], bytes | None]) -> Path:
    """A copy of an archive with other contents of its members; None leaves a member out."""
    with tarfile.open(archive) as source, tarfile.open(target, "w:gz") as sink:
        for member in source:
            opened = source.extractfile(member)
            assert opened is not None
            content = change(member.name.partition("/")[2], opened.read())
            if content is not None:
                member.size = len(content)
                sink.addfile(member, io.BytesIO(content))
    return target


def refused(folder: Path, archive: Path, *words: str) -> str:
    """The line that from-archive ends with, where it changes nothing."""
    done = run_in(folder, "stair", "from-archive", str(archive), *words, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert not (folder / "results").is_dir()
    return line


def test_every_table_and_figure_is_made_again_from_an_archive(
    finished_run: Path, archive: Path, tmp_path: Path
) -> None:
    done = run_in(tmp_path, "stair", "from-archive", str(archive), "--run", str(SMOKE))
    again, shown = tmp_path / "results/smoke", ("tables/*", "figures/*", "comparison.*", "claims.*")
    equal = len([name for name in contents(again, *shown) if not name.endswith(".manifest.json")])
    assert equal > 60 and "files of tables, figures and comparison are those of the archive" in done.stdout
    for pattern in shown:
        for file in (finished_run / "results/smoke").glob(pattern):
            if not file.name.endswith(".manifest.json"):
                assert (again / file.relative_to(finished_run / "results/smoke")).read_bytes() == file.read_bytes(), (
                    file
                )
    for name in ("responses", "rollouts", "raw", "backbones", "work/evaluation", f"replay/{MODEL}/states"):
        assert not (again / name).exists(), name
    assert (again / "report.html").is_file()
    assert "0 missing, 0 damaged, 0 stale" in run_in(tmp_path, "stair", "verify", "--run", "results/smoke").stdout
    *_, state = run_in(tmp_path, "stair", "status", "--run", "results/smoke").stdout.splitlines()
    assert state.startswith("an archive, without responses and data; to make these, too: stair reproduce")
    lineage = run_in(tmp_path, "stair", "why", "results/smoke/tables/continuous_summary.csv", "--full").stdout
    assert ROWS in lineage
    # And packed again it is the same, but for what was made now.
    run_in(tmp_path, "stair", "export", "--run", "results/smoke", "--out", str(tmp_path / "again"))
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[2] for name in packed.getnames()}
    files = (
        path.relative_to(tmp_path / "again").as_posix() for path in (tmp_path / "again").rglob("*") if path.is_file()
    )
    assert set(files) == names


def test_archives_that_cannot_be_used_are_one_line(archive: Path, tmp_path: Path) -> None:
    smoke = ("--run", str(SMOKE))
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:-5000])
    assert "cut.tar.gz cannot be unpacked (" in refused(tmp_path, cut, *smoke)
    assert "is an archive of the run 'smoke', not of 'tiny'" in refused(tmp_path, archive, "--run", "tiny")
    nameless = changed(
        archive, tmp_path / "nameless.tar.gz", lambda name, content: None if "resolved" in name else content
    )
    assert "it has no config.resolved.yaml; make it with" in refused(tmp_path, nameless, *smoke)
    assert "absent.tar.gz cannot be unpacked" in refused(tmp_path, tmp_path / "absent.tar.gz", *smoke)
    damaged = changed(
        archive, tmp_path / "damaged.tar.gz", lambda name, content: content[:-1] + b"?" if name == ROWS else content
    )
    line = refused(tmp_path, damaged, *smoke)
    assert f"{ROWS} is damaged: does not match its sealed checksum; copy the archive again" in line
    (overlay := tmp_path / "smoke.yaml").write_text(f"extends: {SMOKE}\nevaluation: {{seed: other}}\n")
    line = refused(tmp_path, archive, "--run", str(overlay))
    assert 'was made under other settings: evaluation.seed was "evaluation", is "other"' in line
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_an_archive_is_unpacked_below_the_configured_results(archive: Path, tmp_path: Path) -> None:
    """Nothing can be unpacked in `results` here. No folder stays behind."""
    (tmp_path / "results").touch()
    overlay = tmp_path / "other.yaml"
    overlay.write_text(f"extends: {SMOKE}\nresults: far/away\n")
    assert "is an archive of the run 'smoke', not of 'other'" in refused(tmp_path, archive, "--run", str(overlay))
    assert {path.name for path in tmp_path.iterdir()} == {"results", "other.yaml"}


def test_a_run_that_exists_is_not_overwritten(archive: Path, tmp_path: Path) -> None:
    run_in(tmp_path, "stair", "config", "--run", str(SMOKE), "--write")
    done = run_in(tmp_path, "stair", "from-archive", str(archive), "--run", str(SMOKE), check=False)
    assert done.returncode == 2
    assert "results/smoke is not empty; move it away" in done.stderr


@pytest.mark.parametrize(("name", "kind"), [("../outside.txt", tarfile.REGTYPE), ("weights", tarfile.SYMTYPE)])
def test_an_archive_writes_and_links_nothing_outside(tmp_path: Path, name: str, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo(f"smoke/../{name}" if kind == tarfile.REGTYPE else f"smoke/{name}")
        member.type, member.linkname = kind, "/etc/passwd" if kind == tarfile.SYMTYPE else ""
        packed.addfile(member)
    with (
        pytest.raises(ValueError, match=r"cannot be unpacked \(.*outside|cannot be unpacked \(.*link"),
        unpacked(tmp_path / "a.tar.gz", tmp_path / "here" / "beside"),
    ):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["a.tar.gz"]


def test_equal_folders_give_equal_archives(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run/config.resolved.yaml").write_text("run: smoke\n")
    for name in ("one.tar.gz", "two.tar.gz"):
        pack(tmp_path / "run", tmp_path / name, "smoke")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    with unpacked(tmp_path / "one.tar.gz", tmp_path / "here") as folder:
        assert (folder / "config.resolved.yaml").read_text() == "run: smoke\n"


def test_files_that_macos_writes_beside_others_change_nothing(copied_run: Path, tmp_path: Path) -> None:
    """`._name` beside every file, as on a disk without extended attributes."""
    for file in [path for path in (copied_run / "results").rglob("*") if path.is_file()]:
        file.with_name(f"._{file.name}").write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X\xff")
    assert planned(copied_run) == set()
    done = run_in(copied_run, "stair", "export", "--run", "results/smoke", "--out", str(tmp_path / "smoke.tar.gz"))
    assert done.stderr == "", "every output is sound"
    with tarfile.open(tmp_path / "smoke.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "/._" in name]


def test_an_output_that_is_damaged_or_has_no_manifest_is_not_packed(copied_run: Path) -> None:
    """An archive without the rows would look complete. What it does not contain may be damaged."""
    results, start = copied_run / "results/smoke", "stair reproduce --run results/smoke"
    (results / f"responses/{MODEL}/math500/native.parquet").write_text("?")
    sound = (manifest := results / f"{ROWS}.manifest.json").read_bytes()
    for file, fault, damage in (
        (ROWS, "has no manifest", manifest.unlink),
        ("checks.csv", "does not match", lambda: (results / "checks.csv").write_text("name\n")),
    ):
        damage()
        done = run_in(copied_run, "stair", "export", "--run", "results/smoke", "--out", "rows.tar.gz", check=False)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 2 and f"{file} is damaged: {fault}" in line
        assert line.endswith(f"; first run: rm -r results/smoke/{file} && {start}")
        manifest.write_bytes(sound)


def published(archive: Path, folder: Path) -> Path:
    """The folder of a controller in an unpacked archive, under a name of the user's."""
    with unpacked(archive, folder / "unpacked") as run:
        return shutil.copytree(run / CONTROLLER, folder / "published" / MODEL)


def test_a_published_controller_is_used_in_place_of_a_training(
    archive: Path, finished_run: Path, tmp_path: Path
) -> None:
    folder = published(archive, tmp_path)
    change = f"controllers={{stair: {{path: '{folder.parent}/{{model}}'}}}}"
    generated = f"responses/{MODEL}/math500/stair.parquet"
    words = ("stair", "reproduce", "--run", str(SMOKE), "--set", change, "--target", generated)
    run_in(tmp_path, *words)
    results, original = tmp_path / "results/smoke", finished_run / "results/smoke"
    assert contents(results, f"{CONTROLLER}/*.s*") == contents(original, f"{CONTROLLER}/*.s*")
    assert (results / generated).read_bytes() == (original / generated).read_bytes()
    manifest = json.loads((results / CONTROLLER / "folder.manifest.json").read_text())
    assert manifest["copied_from"] == str(folder) and manifest["parameters"] > 0
    for name in ("rollouts", "sessions/training", "work/rollouts", "work/training"):
        assert not (results / name).exists(), name
    # One that was trained under other settings, or is damaged, is refused.
    refused = run_in(tmp_path, *words, "--set", "training={kl: 0.5}", check=False)
    assert "was trained under other settings than the run has: training.kl was 1.0, is 0.5" in refused.stderr
    (folder / "controller.safetensors").write_bytes(b"?")
    assert "copy the folder again" in run_in(tmp_path, *words, check=False).stderr
    (folder / "controller.safetensors").unlink()
    refused = run_in(tmp_path, *words, check=False)
    assert refused.returncode == 2 and "lacks controller.safetensors; copy the whole folder" in refused.stderr
