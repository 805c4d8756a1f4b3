"""An archive's outputs in place of computing them: whole, equal, recorded, and left alone by Snakemake."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from stair.pipeline.archive import MADE_AGAIN
from stair.records.files import write_json
from stair.records.manifest import with_checksum
from tests.workflow.conftest import SMOKE, contents, jobs_of, run_in, snakemake

pytestmark = pytest.mark.timeout(300)
MODEL = "qwen3-4b-instruct"
CONTROLLER = f"controllers/{MODEL}/stair"
WEIGHTS = f"{CONTROLLER}/controller.safetensors"
PLACE = f"responses/{MODEL}/math500"


def whole(finished_run: Path, folder: Path) -> Path:
    """The finished run without its work: an archive with responses and training data."""
    shutil.copytree(finished_run / "results/smoke", folder, ignore=shutil.ignore_patterns("work", "logs", "states"))
    return folder


@pytest.fixture(scope="module")
def exported(finished_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `stair export` writes: controllers and scored rows, without what they were made from. Not to be changed."""
    folder = tmp_path_factory.mktemp("archive") / "exported"
    run_in(finished_run, "stair", "export", "--run", "results/smoke", "--out", str(folder))
    return folder


def fresh(folder: Path, *changes: str) -> Path:
    """The folder of the same run where nothing was made."""
    words = [word for change in changes for word in ("--set", change)]
    run_in(folder, "stair", "config", "--run", str(SMOKE), "--write", *words)
    return folder / "results/smoke"


def would_run(folder: Path, *changes: str) -> dict[str, int]:
    """The jobs of a dry run."""
    return jobs_of(snakemake(folder, "-n", config=changes))


def reasons(folder: Path, archive: Path) -> dict[str, str]:
    """The reasons against restoring an archive's outputs, by their names."""
    done = run_in(folder, "stair", "restore", str(archive), "--run", "results/smoke", check=False)
    assert (done.returncode, done.stderr) == (1, "")
    rejected = (line for line in done.stdout.splitlines() if line.startswith("not restored: "))
    return dict(line.removeprefix("not restored: ").split(": ", 1) for line in rejected)


def test_a_whole_run_is_restored_and_nothing_is_generated(finished_run: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "archive.tar.gz", "w:gz") as packed:
        packed.add(whole(finished_run, tmp_path / "archive"), "stair-smoke")
    results = fresh(tmp_path)
    done = run_in(tmp_path, "stair", "restore", "archive.tar.gz", "--run", "results/smoke")
    assert f"restored: {CONTROLLER}\n" in done.stdout
    assert done.stdout.endswith(", 0 not restored\n")
    assert would_run(tmp_path).keys() <= {*MADE_AGAIN, "all"}
    run_in(tmp_path, "stair", "reproduce", "--run", str(SMOKE))
    original = finished_run / "results/smoke"
    patterns = ("responses/**/*.parquet", f"{CONTROLLER}/*.*s*", "tables/*.csv", "evaluation/**/*.parquet")
    same = contents(original, *patterns)
    same.pop(f"{CONTROLLER}/manifest.json")  # it names the archive
    assert contents(results, *patterns) | same == contents(results, *patterns)
    for name in (f"{CONTROLLER}/manifest.json", f"{PLACE}/stair.parquet.manifest.json"):
        assert json.loads((results / name).read_text())["copied_from"] == "archive.tar.gz"
    assert not (results / "work/evaluation").exists() and not (results / "work/rollouts").exists()
    assert would_run(tmp_path) == {}
    assert "outputs were copied from an archive or another run" in (results / "report.html").read_text()

    # A changed setting runs its dependents, as without an archive.
    jobs = would_run(tmp_path, "training={kl: 0.5}")
    assert {"train_controller", "evaluation_shard"} <= jobs.keys() and "rollout_shard" not in jobs
    jobs = would_run(tmp_path, f"models={{{MODEL}: {{evaluation_changes: {{math500: {{temperature: 0.9}}}}}}}}")
    assert (jobs["evaluation_shard"], jobs["seal_evaluation"]) == (3, 3) and "train_controller" not in jobs


def test_responses_are_generated_with_restored_controllers(exported: Path, finished_run: Path, tmp_path: Path) -> None:
    change = "evaluation={seed: other}"
    results = fresh(tmp_path, change)
    done = run_in(tmp_path, "stair", "restore", str(exported), "--run", "results/smoke", check=False)
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"restored: {CONTROLLER};")]
    absent = (f"rollouts/{MODEL}.parquet", f"preflight/{MODEL}.json")
    assert "inputs not compared, as they exist neither here nor in the archive" in line
    assert all(name in line for name in absent)

    generated = f"{PLACE}/stair.parquet"
    run_in(tmp_path, "stair", "reproduce", "--run", str(SMOKE), "--set", change, "--target", generated)
    assert (results / generated).is_file()
    assert contents(results, f"{CONTROLLER}/*.s*") == contents(finished_run / "results/smoke", f"{CONTROLLER}/*.s*")
    assert json.loads((results / CONTROLLER / "manifest.json").read_text())["copied_from"] == str(exported)
    for name in ("rollouts", "sessions/training", "work/rollouts", "work/training", f"data/training/{MODEL}.json"):
        assert not (results / name).exists(), name


def test_another_model_trains_restored_controllers_again(exported: Path, tmp_path: Path) -> None:
    """The model is not here when a controller is restored. Its check shows later whether it is the same."""
    results = fresh(tmp_path)
    run_in(tmp_path, "stair", "restore", str(exported), "--run", "results/smoke")
    assert would_run(tmp_path).keys() <= {*MADE_AGAIN, "all"}
    other = results / f"preflight/{MODEL}.json"
    other.parent.mkdir()
    other.write_text("{}")
    assert {"train_controller", "rollout_shard", "evaluation_shard"} <= would_run(tmp_path).keys()


def test_valid_outputs_are_kept(copied_run: Path, finished_run: Path) -> None:
    done = run_in(copied_run, "stair", "restore", str(finished_run / "results/smoke"), "--run", "results/smoke")
    assert done.stdout.endswith("\n0 restored, 0 not restored\n")
    assert would_run(copied_run) == {}


def test_a_damaged_output_is_restored(copied_run: Path, exported: Path) -> None:
    weights = copied_run / "results/smoke" / WEIGHTS
    sound = weights.read_bytes()
    weights.write_bytes(sound[:-1] + b"?")
    done = run_in(copied_run, "stair", "restore", str(exported), "--run", "results/smoke")
    assert f"restored: {CONTROLLER}\n" in done.stdout and ", 0 not restored\n" in done.stdout
    assert weights.read_bytes() == sound
    assert would_run(copied_run) == {}, "Snakemake compares its content with the recorded checksum"


def change_json(path: Path, **changes: object) -> None:
    write_json(path, with_checksum(json.loads(path.read_text()) | changes))


def test_faulty_outputs_are_rejected_with_the_reason(finished_run: Path, tmp_path: Path) -> None:
    archive = whole(finished_run, tmp_path / "archive")
    weights = archive / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-1] + b"?")
    (archive / f"{PLACE}/vanilla.parquet.manifest.json").write_text("{")
    shutil.copy(archive / f"{PLACE}/native.parquet", archive / f"{PLACE}/stair.parquet")
    rollouts = archive / f"rollouts/{MODEL}.parquet.manifest.json"
    inputs = json.loads(rollouts.read_text())["inputs"]
    change_json(rollouts, inputs=dict.fromkeys(inputs, "0" * 64))
    fresh(tmp_path)
    found = reasons(tmp_path, archive)
    assert found[CONTROLLER] == f"{WEIGHTS} does not match its sealed checksum"
    assert found[f"{PLACE}/vanilla.parquet"] == "its manifest cannot be read (ValueError)"
    assert f"{PLACE}/vanilla.parquet exists neither here nor in the archive" in found[f"{PLACE}/native.parquet"]
    assert found[f"{PLACE}/stair.parquet"] == f"{PLACE}/stair.parquet does not match its sealed checksum"
    assert f"made from another data/training/{MODEL}.parquet than the archive's" in found[f"rollouts/{MODEL}.parquet"]


@pytest.mark.parametrize(
    ("change", "name", "reason"),
    [
        ("training={kl: 0.5}", CONTROLLER, "made under other settings: training.kl was 1.0, is 0.5"),
        ("rollouts={seed: other}", CONTROLLER, f"rollouts/{MODEL}.parquet, behind it: made under other settings"),
        ("evaluation={seed: other}", f"evaluation/{MODEL}/math500/vanilla.parquet", "evaluation.seed was"),
    ],
)
def test_other_settings_are_refused(exported: Path, tmp_path: Path, change: str, name: str, reason: str) -> None:
    fresh(tmp_path, change)
    assert reason in reasons(tmp_path, exported)[name]


def test_an_archive_that_is_none_is_one_line(tmp_path: Path) -> None:
    fresh(tmp_path)
    (tmp_path / "text.tar.gz").write_text("no archive")
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("absent.tar.gz", "absent.tar.gz does not exist"),
        ("text.tar.gz", "text.tar.gz cannot be unpacked: it is no .tar.gz, or damaged"),
        ("empty", "empty is not laid out as a run's folder"),
    ):
        done = run_in(tmp_path, "stair", "restore", name, "--run", "results/smoke", check=False)
        assert (done.returncode, done.stdout) == (2, "")
        assert message in done.stderr and len(done.stderr.splitlines()) == 1
    run = tmp_path / "results/smoke"
    left = sorted(str(path.relative_to(run)) for path in run.rglob("*") if path.is_file())
    assert left == ["config.resolved.yaml"]
