"""An exported run: what is refused, each in one line, and what a change of settings does to an unpacked one."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from stair.pipeline.archive import MADE_AGAIN
from stair.records.files import write_json
from stair.records.manifest import with_checksum
from tests.workflow.conftest import SMOKE, jobs_of, planned, run_in, snakemake

pytestmark = pytest.mark.timeout(300)
MODEL = "qwen3-4b-instruct"
ROWS = f"evaluation/{MODEL}/math500/stair.parquet"


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


def test_archives_that_cannot_be_used_are_one_line(archive: Path, tmp_path: Path) -> None:
    """tests/records/test_archive_files.py has the other archives that cannot be unpacked."""
    smoke = ("--run", str(SMOKE))
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:-5000])
    assert "cut.tar.gz is damaged (" in refused(tmp_path, cut, *smoke)
    assert "is an archive of the run 'smoke', not of 'tiny'" in refused(tmp_path, archive, "--run", "tiny")
    nameless = changed(
        archive, tmp_path / "nameless.tar.gz", lambda name, content: None if "resolved" in name else content
    )
    assert "it has no config.resolved.yaml; make it with" in refused(tmp_path, nameless, *smoke)
    assert "absent.tar.gz does not exist" in refused(tmp_path, tmp_path / "absent.tar.gz", *smoke)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith(".gz")] == []


def test_an_archive_is_unpacked_below_the_configured_results(archive: Path, tmp_path: Path) -> None:
    """Nothing can be unpacked in `results` here. No folder stays behind."""
    (tmp_path / "results").touch()
    overlay = tmp_path / "other.yaml"
    overlay.write_text(f"extends: {SMOKE}\nresults: far/away\n")
    assert "is an archive of the run 'smoke', not of 'other'" in refused(tmp_path, archive, "--run", str(overlay))
    assert {path.name for path in tmp_path.iterdir()} == {"results", "other.yaml"}


def test_a_damaged_member_is_named_and_nothing_is_made(archive: Path, tmp_path: Path) -> None:
    damaged = changed(
        archive, tmp_path / "damaged.tar.gz", lambda name, content: content[:-1] + b"?" if name == ROWS else content
    )
    done = run_in(tmp_path, "stair", "from-archive", str(damaged), "--run", str(SMOKE), check=False)
    assert done.returncode == 1
    first, remedy = done.stderr.splitlines()
    assert first == f"not restored: {ROWS}: {ROWS} does not match its sealed checksum"
    assert f"stair restore {damaged} --run results/smoke, then stair reproduce" in remedy
    assert not (tmp_path / "results/smoke").exists()


def test_a_run_that_exists_is_not_overwritten(archive: Path, tmp_path: Path) -> None:
    run_in(tmp_path, "stair", "config", "--run", str(SMOKE), "--write")
    done = run_in(tmp_path, "stair", "from-archive", str(archive), "--run", str(SMOKE), check=False)
    assert done.returncode == 2
    assert f"results/smoke is not empty; move it away, or copy single outputs: stair restore {archive}" in done.stderr


def test_files_named_outside_of_an_archive_are_refused(archive: Path, tmp_path: Path) -> None:
    def elsewhere(name: str, content: bytes) -> bytes:
        if not name.endswith("manifest.json"):
            return content
        changed = content.decode().replace(f'"{ROWS}":', '"../../outside.parquet":')
        return json.dumps(with_checksum(json.loads(changed))).encode()

    outside = changed(archive, tmp_path / "outside.tar.gz", elsewhere)
    assert "the archive names a file outside of itself" in refused(tmp_path, outside, "--run", str(SMOKE))


def test_an_archive_that_lacks_what_only_a_model_can_make_is_refused(archive: Path, tmp_path: Path) -> None:
    lacking = changed(archive, tmp_path / "x.tar.gz", lambda name, content: None if name.startswith(ROWS) else content)
    done = run_in(tmp_path, "stair", "from-archive", str(lacking), "--run", str(SMOKE), check=False)
    assert done.returncode == 2
    assert f"x.tar.gz lacks {ROWS}; to generate it: make reproduce RUN={SMOKE}" in done.stderr


def test_other_code_shows_an_archive_again_and_generates_nothing(
    archive: Path, tmp_path: Path, project_copy: Path
) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "results", filter="data")
    (tmp_path / "results/stair-smoke").rename(tmp_path / "results/smoke")
    path = project_copy / "stair/engines/sampling.py"
    path.write_text(path.read_text() + "\n# Another version.\n")
    more = {"PYTHONPATH": str(project_copy)}
    found = jobs_of(snakemake(tmp_path, "-n", more=more, root=project_copy))
    assert {"table", "report"} <= found.keys() <= {*MADE_AGAIN, "all"}


def test_rows_count_only_under_the_settings_of_all_behind_them(archive: Path, tmp_path: Path) -> None:
    """An archive has no responses and no sessions of training: their settings are in its records all the same."""

    def jobs(*settings: str) -> dict[str, int]:
        return jobs_of(snakemake(tmp_path, "-n", config=settings))

    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path / "results", filter="data")
    (tmp_path / "results/stair-smoke").rename(tmp_path / "results/smoke")
    assert jobs() == {}
    assert "0 missing, 0 damaged, 0 stale" in run_in(tmp_path, "stair", "verify", "--run", "results/smoke").stdout
    label = jobs("conditions={native: {label: Another}}")
    assert {"table", "report"} <= label.keys() <= {*MADE_AGAIN, "all"}
    for change, again in (
        ("evaluation={seed: other}", {"evaluation_shard", "benchmark", "check", "score_condition", "replay_shard"}),
        ("rollouts={seed: other}", {"rollout_shard", "train_controller", "evaluation_shard"}),
    ):
        assert again | {"backbone", "preflight_model"} <= jobs(change).keys()

    other = tmp_path / "other"
    other.mkdir()
    run_in(other, "stair", "config", "--run", str(SMOKE), "--write", "--set", "evaluation={seed: other}")
    done = run_in(other, "stair", "restore", str(archive), "--run", "results/smoke", check=False)
    assert done.returncode == 1
    reason = f"responses/{MODEL}/math500/native.parquet, behind it: made under other settings: evaluation.seed was"
    assert f"not restored: evaluation/{MODEL}/math500/native.parquet: {reason}" in done.stdout


def test_files_that_macos_writes_beside_others_change_nothing(copied_run: Path, tmp_path: Path) -> None:
    """`._name` beside every file, as on a disk without extended attributes. `from-archive` leaves them out when it unpacks."""
    for file in [path for path in (copied_run / "results").rglob("*") if path.is_file()]:
        file.with_name(f"._{file.name}").write_bytes(b"\x00\x05\x16\x07\x00\x02\x00\x00Mac OS X\xff")
    assert planned(copied_run) == set()
    done = run_in(copied_run, "stair", "export", "--run", "results/smoke", "--out", str(tmp_path / "smoke.tar.gz"))
    assert done.stderr == "", "every output is sound"
    with tarfile.open(tmp_path / "smoke.tar.gz") as archive:
        assert not [name for name in archive.getnames() if "/._" in name]
    run_in(copied_run, "stair", "tables", "--responses", "results/smoke", "--out", str(tmp_path / "tables"))


def test_a_stale_output_is_named_before_it_is_packed(copied_run: Path) -> None:
    manifest = copied_run / f"results/smoke/{ROWS}.manifest.json"
    content = json.loads(manifest.read_text())
    content["settings"]["code"] = "another"
    write_json(manifest, with_checksum(content))
    (line,) = run_in(
        copied_run, "stair", "export", "--run", "results/smoke", "--out", "stale.tar.gz"
    ).stderr.splitlines()
    assert line.startswith(f"warning: {ROWS} is stale (")
    assert line.endswith(f"First run: stair reproduce --run {SMOKE.stem}")
