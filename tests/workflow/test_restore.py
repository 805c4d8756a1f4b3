"""An archive's outputs in place of computing them: whole, equal, recorded, and left alone by the graph."""

from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.workflow.conftest import ROOT, SMOKE, contents, jobs_of, run_in

pytestmark = [pytest.mark.xdist_group("workflow"), pytest.mark.timeout(300)]
MODEL = "qwen3-4b-instruct"
CONTROLLER = f"controllers/{MODEL}/stair/controller.safetensors"
PLACE = f"responses/{MODEL}/math500"
GENERATING = {
    *("backbone", "rollout_shard", "seal_rollouts", "evaluation_shard", "training_pool", "training_sessions"),
    *("data_card", "data_report", "preflight_model", "replay_shard", "seal_replay"),
}


def published(finished_run: Path, folder: Path, *parts: str) -> Path:
    """An archive of some folders of the finished run."""
    archive = folder / "archive"
    for part in parts:
        shutil.copytree(finished_run / "results/smoke" / part, archive / part)
    return archive


def fresh(folder: Path, *changes: str) -> Path:
    """The folder of the same run where nothing was made."""
    words = [word for change in changes for word in ("--set", change)]
    run_in(folder, "stair", "config", "--run", str(SMOKE), "--write", *words)
    return folder / "results/smoke"


def would_run(folder: Path, *changes: str) -> dict[str, int]:
    """The jobs of a dry run."""
    words = ["snakemake", "--snakefile", str(ROOT / "Snakefile"), "-n", "--config", f"run={SMOKE}", *changes]
    return jobs_of(run_in(folder, *words))


def test_controllers_and_responses_are_restored_and_nothing_is_generated(finished_run: Path, tmp_path: Path) -> None:
    archive = published(finished_run, tmp_path, "controllers", "responses", "replay", "runtime")
    shutil.rmtree(archive / f"replay/{MODEL}/states")
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as packed:
        packed.add(archive, "stair-smoke")
    results = fresh(tmp_path)
    done = run_in(tmp_path, "stair", "restore", "archive.tar.gz", "--run", "results/smoke")
    lines = done.stdout.splitlines()
    assert lines[-1].startswith("18 restored, 0 not restored")
    (line,) = [line for line in lines if CONTROLLER in line]
    assert f"the contents of the model {MODEL} were not compared" in line
    assert (
        f"rollouts/{MODEL}.parquet" in line
        and "inputs not compared, as they exist neither here nor in the archive" in line
    )

    assert not GENERATING & would_run(tmp_path).keys()
    run_in(tmp_path, "stair", "reproduce", "--run", str(SMOKE))
    original = finished_run / "results/smoke"
    patterns = ("responses/**/*.parquet", f"{Path(CONTROLLER).parent}/*.*s*", "tables/*.csv", "evaluation/**/*.parquet")
    same = contents(original, *patterns)
    found = contents(results, *patterns)
    # The text's numbers of training data are gaps, because the data was not in the archive.
    compared = [name for name in same if "manifest" not in name and name != "tables/in_text.csv"]
    assert {name: found[name] for name in compared} == {name: same[name] for name in compared}
    for name in (f"{Path(CONTROLLER).parent}/manifest.json", f"{PLACE}/stair.parquet.manifest.json"):
        assert json.loads((results / name).read_text())["restored_from"] == "archive.tar.gz"
    for name in ("rollouts", "backbones", "work/evaluation", "work/rollouts", "sessions/training", "data/training"):
        assert not (results / name).exists(), name
    assert would_run(tmp_path) == {}
    told = run_in(tmp_path, "stair", "verify", "--run", "results/smoke").stdout
    assert "0 missing, 0 damaged, 0 stale" in told
    assert "restored from an archive, without all of its inputs" in told

    # A change of mind makes the graph what it is without an archive, as far as it reaches.
    jobs = would_run(tmp_path, "training={kl: 0.5}")
    assert {"backbone", "rollout_shard", "seal_rollouts", "training_sessions", "train_controller"} <= jobs.keys()
    changed = f"models={{{MODEL}: {{evaluation_changes: {{math500: {{temperature: 0.9}}}}}}}}"
    jobs = would_run(tmp_path, changed)
    assert (jobs["evaluation_shard"], jobs["seal_evaluation"], jobs["backbone"]) == (3, 3, 1)
    assert "rollout_shard" not in jobs, "restored controllers are copied, once the model is there to be compared"


def test_a_controller_alone_lets_responses_be_generated_with_it(finished_run: Path, tmp_path: Path) -> None:
    archive = published(finished_run, tmp_path, "controllers", "backbones")
    fresh(tmp_path)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as packed:
        for path in archive.rglob("*.*"):
            packed.write(path, path.relative_to(archive))
    run_in(tmp_path, "stair", "restore", "archive.zip", "--run", "results/smoke")
    jobs = would_run(tmp_path)
    assert jobs["evaluation_shard"] == 3
    assert (jobs["train_controller"], jobs["backbone"]) == (2, 1), "both put in place what was restored"
    assert jobs["preflight_model"] == 1
    assert not {"rollout_shard", "training_pool", "training_sessions", "data_card"} & jobs.keys()


def test_what_is_here_and_sound_stays(copied_run: Path, finished_run: Path, tmp_path: Path) -> None:
    done = run_in(copied_run, "stair", "restore", str(finished_run / "results/smoke"), "--run", "results/smoke")
    assert "0 restored, 0 not restored" in done.stdout
    assert not (copied_run / "results/smoke/restored").exists()
    assert would_run(copied_run) == {}


def change_json(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_does_not_fit_is_not_taken_and_told_why(finished_run: Path, tmp_path: Path) -> None:
    archive = published(finished_run, tmp_path, "controllers", "responses", "data", "sessions", "rollouts")
    weights = archive / CONTROLLER
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    (archive / f"{PLACE}/vanilla.parquet.manifest.json").write_text("{")
    shutil.copy(archive / f"{PLACE}/native.parquet", archive / f"{PLACE}/stair.parquet")
    rollouts = archive / f"rollouts/{MODEL}.parquet.manifest.json"
    origin = json.loads(rollouts.read_text())["origin"]
    change_json(rollouts, origin=origin | {"inputs": dict.fromkeys(origin["inputs"], "0" * 64)})
    fresh(tmp_path)
    done = run_in(tmp_path, "stair", "restore", "archive", "--run", "results/smoke", check=False)
    assert done.returncode == 1
    reasons = dict(
        line.removeprefix("not restored: ").split(": ", 1)
        for line in done.stdout.splitlines()
        if "not restored: " in line
    )
    assert "controller.safetensors does not match its sealed checksum" in reasons[CONTROLLER]
    assert "its manifest cannot be read" in reasons[f"{PLACE}/vanilla.parquet"]
    assert f"{PLACE}/vanilla.parquet exists neither here nor in the archive" in reasons[f"{PLACE}/native.parquet"]
    assert "stair.parquet does not match its sealed checksum" in reasons[f"{PLACE}/stair.parquet"]
    assert f"made from another data/training/{MODEL}.parquet than the archive's" in reasons[f"rollouts/{MODEL}.parquet"]
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        ("training={kl: 0.5}", CONTROLLER, "made under other settings: training.kl was 1.0, is 0.5"),
        ("evaluation={seed: other}", f"{PLACE}/vanilla.parquet", "made under other settings: evaluation.seed was"),
    ],
)
def test_other_settings_are_refused(finished_run: Path, tmp_path: Path, change: str, name: str, reason: str) -> None:
    published(finished_run, tmp_path, "controllers", "responses")
    fresh(tmp_path, change)
    done = run_in(tmp_path, "stair", "restore", "archive", "--run", "results/smoke", check=False)
    assert done.returncode == 1
    assert f"not restored: {name}: {reason}" in done.stdout


def test_an_archive_that_is_none_is_one_line(finished_run: Path, tmp_path: Path) -> None:
    fresh(tmp_path)
    (tmp_path / "text.tar.gz").write_text("no archive")
    (tmp_path / "empty").mkdir()
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as packed:
        packed.writestr("../../outside.txt", "?")
    for archive, member in (
        ("evil.tar", tarfile.TarInfo("../../outside.txt")),
        ("link.tar", tarfile.TarInfo("weights")),
    ):
        if archive == "link.tar":
            member.type, member.linkname = tarfile.SYMTYPE, "/etc/passwd"
        with tarfile.open(tmp_path / archive, "w") as bundled:
            bundled.addfile(member)
    for name, message in (
        ("absent.zip", "absent.zip does not exist"),
        ("text.tar.gz", "text.tar.gz cannot be unpacked"),
        ("empty", "empty is not laid out as a run's folder"),
        ("evil.zip", "evil.zip cannot be unpacked (it contains a path outside of itself"),
        ("evil.tar", "evil.tar cannot be unpacked (it contains a path outside of itself"),
        ("link.tar", "link.tar cannot be unpacked (it contains weights, which is no plain file)"),
    ):
        done = run_in(tmp_path, "stair", "restore", name, "--run", "results/smoke", check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr and len(done.stderr.splitlines()) == 1
    run = tmp_path / "results/smoke"
    left = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    assert left == ["config.resolved.yaml", "work/start.json"]


def test_a_restored_output_that_fits_no_more_is_said_so_by_its_job(finished_run: Path, tmp_path: Path) -> None:
    published(finished_run, tmp_path, "responses", "controllers")
    results = fresh(tmp_path)
    run_in(tmp_path, "stair", "restore", "archive", "--run", "results/smoke")
    weights = results / "restored" / CONTROLLER
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    done = run_in(
        tmp_path, "stair", "train", "--run", "results/smoke", "--model", MODEL, "--controller", "stair", check=False
    )
    assert done.returncode == 2
    assert (
        "was restored and cannot be used: controller.safetensors does not match its sealed checksum; delete"
        in done.stderr
    )
