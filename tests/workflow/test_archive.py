"""An exported run: what is refused, each in one line, and what a change of settings does to a restored one."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workflow.conftest import ROOT, SMOKE, jobs_of, run_in

pytestmark = [pytest.mark.xdist_group("workflow"), pytest.mark.timeout(300)]
MODEL = "qwen3-4b-instruct"
ROWS = f"evaluation/{MODEL}/math500/stair.parquet"


@pytest.fixture(scope="module")
def archive(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("archive") / "smoke.tar.gz"
    run_in(finished_run, "stair", "export", "--run", "results/smoke", "--out", str(target))
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


def with_member(archive: Path, target: Path, member: tarfile.TarInfo) -> Path:
    """A copy of an archive with one more member."""
    with tarfile.open(archive) as source, tarfile.open(target, "w:gz") as sink:
        for each in source:
            sink.addfile(each, source.extractfile(each))
        sink.addfile(member)
    return target


def refused(folder: Path, archive: Path, *words: str) -> str:
    """The line that from-archive ends with, where it changes nothing."""
    done = run_in(folder, "stair", "from-archive", str(archive), *words, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert not list(folder.glob("results/*/restored"))
    return line


def link(name: str) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return member


def test_archives_that_cannot_be_used_are_one_line(archive: Path, tmp_path: Path) -> None:
    smoke = ("--run", str(SMOKE))
    cut = tmp_path / "cut.tar.gz"
    cut.write_bytes(archive.read_bytes()[:-5000])
    assert "cut.tar.gz cannot be unpacked" in refused(tmp_path, cut, *smoke)
    damaged = tmp_path / "damaged.tar.gz"
    content = bytearray(archive.read_bytes())
    content[len(content) // 2] ^= 0xFF
    damaged.write_bytes(content)
    assert "damaged.tar.gz cannot be unpacked" in refused(tmp_path, damaged, *smoke)
    flipped = tmp_path / "flipped.tar.gz"
    content = bytearray(gzip.decompress(archive.read_bytes()))
    content[:512] = bytes(512)  # the first member's header
    flipped.write_bytes(gzip.compress(bytes(content[: len(content) // 2])))
    assert "flipped.tar.gz" in refused(tmp_path, flipped, *smoke)
    outside = with_member(archive, tmp_path / "outside.tar.gz", tarfile.TarInfo("stair-smoke/../../outside.txt"))
    assert "it contains a path outside of itself" in refused(tmp_path, outside, *smoke)
    absolute = with_member(archive, tmp_path / "absolute.tar.gz", tarfile.TarInfo("/outside.txt"))
    assert "it contains a path outside of itself" in refused(tmp_path, absolute, *smoke)
    linked = with_member(archive, tmp_path / "linked.tar.gz", link(f"stair-smoke/{ROWS}.link"))
    assert "which is no plain file" in refused(tmp_path, linked, *smoke)
    assert "is an archive of the run 'smoke', not of 'tiny'" in refused(tmp_path, archive, "--run", "tiny")
    nameless = changed(
        archive, tmp_path / "nameless.tar.gz", lambda name, content: None if "resolved" in name else content
    )
    assert "has no config.resolved.yaml that names its run" in refused(tmp_path, nameless, *smoke)
    assert "absent.tar.gz does not exist" in refused(tmp_path, tmp_path / "absent.tar.gz", *smoke)
    assert [path for path in tmp_path.rglob("*") if path.is_file() and not path.name.endswith(".gz")] == []
    assert not (tmp_path.parent / "outside.txt").exists()


def test_a_damaged_member_is_named_and_nothing_is_made(archive: Path, tmp_path: Path) -> None:
    damaged = changed(
        archive, tmp_path / "damaged.tar.gz", lambda name, content: content[:-1] + b"?" if name == ROWS else content
    )
    done = run_in(tmp_path, "stair", "from-archive", str(damaged), "--run", str(SMOKE), check=False)
    assert done.returncode == 1
    first, remedy = done.stderr.splitlines()
    assert first == f"not restored: {ROWS}: {ROWS} does not match its sealed checksum"
    assert f"stair restore {damaged} --run results/smoke, then stair reproduce" in remedy
    assert not (tmp_path / "results/smoke/tables").exists()


def test_an_archive_that_lacks_what_only_a_model_can_make_is_refused(archive: Path, tmp_path: Path) -> None:
    lacking = changed(archive, tmp_path / "x.tar.gz", lambda name, content: None if name.startswith(ROWS) else content)
    done = run_in(tmp_path, "stair", "from-archive", str(lacking), "--run", str(SMOKE), check=False)
    assert done.returncode == 2
    assert f"x.tar.gz lacks outputs of {MODEL} that only a model can make" in done.stderr


def test_rows_count_only_under_the_settings_of_all_behind_them(archive: Path, tmp_path: Path) -> None:
    """An archive has no responses and no sessions of training: their settings are in its records all the same."""
    words = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "-n", "--config", f"run={SMOKE}"]
    run_in(tmp_path, "stair", "config", "--run", str(SMOKE), "--write")
    run_in(tmp_path, "stair", "restore", str(archive), "--run", "results/smoke")
    jobs = jobs_of(run_in(tmp_path, *words))
    made = {"backbone", "raw", "benchmark", "rollout_shard", "evaluation_shard", "replay_shard", "seal_evaluation"}
    assert not made & jobs.keys()
    assert (jobs["score_condition"], jobs["check"], jobs["table"]) == (3, 1, 16)
    for change, again in (
        ("evaluation={seed: other}", {"evaluation_shard", "benchmark", "check", "score_condition", "replay_shard"}),
        ("rollouts={seed: other}", {"rollout_shard", "train_controller", "evaluation_shard"}),
    ):
        assert again | {"backbone"} <= jobs_of(run_in(tmp_path, *words, change)).keys()
    manifest = tmp_path / f"results/smoke/restored/{ROWS}.manifest.json"
    behind = {tuple(job) for job, _ in json.loads(manifest.read_text())["origin"]["behind"]}
    assert {
        ("responses", MODEL, "math500", "stair"),
        ("responses", MODEL, "math500", "vanilla"),
        ("controller", MODEL, "stair"),
        ("rollouts", MODEL),
        ("benchmark", "math500"),
    } <= behind

    other = tmp_path / "other"
    other.mkdir()
    run_in(other, "stair", "config", "--run", str(SMOKE), "--write", "--set", "evaluation={seed: other}")
    done = run_in(other, "stair", "restore", str(archive), "--run", "results/smoke", check=False)
    assert done.returncode == 1
    reason = f"responses {MODEL} math500 native, behind it, was made under other settings"
    assert f"not restored: evaluation/{MODEL}/math500/native.parquet: {reason}" in done.stdout


def test_a_stale_output_is_named_before_it_is_packed(copied_run: Path) -> None:
    words = ("stair", "export", "--run", "results/smoke", "--out")
    assert run_in(copied_run, *words, "sound").stderr == ""
    manifest = copied_run / f"results/smoke/{ROWS}.manifest.json"
    changed_origin = json.loads(manifest.read_text())
    changed_origin["origin"]["settings"]["code"] = "another"
    manifest.write_text(json.dumps(changed_origin))
    (line,) = run_in(copied_run, *words, "stale.tar.gz").stderr.splitlines()
    assert line.startswith(f"warning: {ROWS} is stale (")
    assert line.endswith("First run: stair reproduce --run smoke")
