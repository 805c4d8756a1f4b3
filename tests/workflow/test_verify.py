"""A finished run is sound. Each damage and each change is one line with its reason, and nothing is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stair.config.paths import RunPaths, project_root
from stair.config.resolve import RESOLVED, dump, load_run, resolve
from stair.pipeline.job_list import list_jobs
from stair.pipeline.verify import Verification, check_finished, verify
from stair.records.files import write_json
from stair.records.keys import file_digest
from stair.records.manifest import MEASURED, manifest_files, read_manifest, with_checksum
from tests.privileges import give_up_capabilities
from tests.workflow.conftest import ROOT, SMOKE, contents, jobs_of, planned, run_in

pytestmark = pytest.mark.timeout(300)
MODEL, PLACE = "qwen3-4b-instruct", "qwen3-4b-instruct/math500"
REPRODUCE = "stair reproduce --run results/smoke"

Found = dict[str, tuple[str, str]]


def by_manifests(folder: Path) -> Verification:
    """What the manifests of a run show, without Snakemake."""
    results = folder / "results" / "smoke"
    verification = Verification(load_run(results), RunPaths(results))
    verification.follow()
    return verification


def unsound(verification: Verification) -> Found:
    """(state, reasons) of every output that is not sound."""
    return {
        output.name: (output.state, "; ".join(output.reasons))
        for output in verification.outputs
        if output.state != "ok"
    }


def checked(folder: Path, changes: dict | None = None) -> Verification:
    """What `stair verify` finds after a start with other settings that was stopped at once."""
    results = folder / "results/smoke"
    (results / RESOLVED).write_text(dump(resolve(ROOT, {"run": str(results), **(changes or {})})))
    return verify(load_run(results), RunPaths(results))


def lines_of(folder: Path) -> list[str]:
    """The lines of `stair verify` on a run that is not sound."""
    done = run_in(folder, "stair", "verify", "--run", "results/smoke", check=False)
    assert done.returncode == 1, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("note on ")]


def test_a_finished_run_is_sound(finished_run: Path) -> None:
    done = run_in(finished_run, "stair", "verify", "--run", "results/smoke")
    assert done.stdout.splitlines()[-1].endswith(" ok, 0 missing, 0 damaged, 0 stale")
    lines = run_in(finished_run, "stair", "verify", "--run", "results/smoke", "--json").stdout.splitlines()
    assert {json.loads(line)["state"] for line in lines} == {"ok"}


def test_every_job_has_a_manifest_with_its_files_and_inputs(finished_run: Path) -> None:
    """By Snakemake's own rules: the manifests are a second statement of the graph, made by the jobs."""
    folder = finished_run / "results" / "smoke"
    manifests = {(each.rule, *each.wildcards.values()): each for each in map(read_manifest, manifest_files(folder))}
    listed = list_jobs(project_root(), {"run": "smoke"}, fresh=True)
    jobs = {
        (job.rule, *(value for name, value in job.wildcards.items() if name != "suffix")): job
        for job in listed
        if not job.rule.endswith("_shard")
    }
    assert manifests.keys() == jobs.keys()
    for name, job in jobs.items():
        manifest = manifests[name]
        assert set(job.outputs) <= manifest.files.keys(), manifest.title
        assert {name for name in job.inputs if not name.startswith("work/")} == manifest.inputs.keys(), manifest.title


def test_a_damaged_file_is_one_line_with_the_command_that_mends_it(
    copied_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = copied_run / "results" / "smoke"
    keep_time(results / ROLLOUTS, truncate)
    damaged, counts = lines_of(copied_run)
    assert damaged.startswith(f"damaged: {ROLLOUTS} does not match its sealed checksum; made from it: ")
    assert " outputs (" in damaged and SESSIONS in damaged
    assert damaged.endswith(f", ...); to mend it: rm results/smoke/{ROLLOUTS} && {REPRODUCE}")
    assert " 0 missing, 1 damaged, " in counts
    monkeypatch.chdir(copied_run)
    assert check_finished(load_run(results), RunPaths(Path("results/smoke"))) == [damaged]


def test_every_file_that_a_result_is_made_from_is_in_a_manifest(finished_run: Path) -> None:
    """Work logs have a checksum in each record; everything else below work/ and logs/ can be lost."""
    folder = finished_run / "results/smoke"
    manifests = [*manifest_files(folder)]
    contents = [read_manifest(path).content for path in manifests]
    known = {name for content in contents for name in content["files"] | content.get(MEASURED, {})}
    below = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path not in manifests)
    others = {path.as_posix() for path in below if path.parts[0] not in ("work", "logs", ".snakemake")} - known
    assert others == {RESOLVED}


def test_one_command_mends_what_an_editor_did(copied_run: Path) -> None:
    """Snakemake sees no reason to run where a file's time is that of before."""
    tables = copied_run / "results/smoke/tables"
    keep_time(tables / "native_accuracy.md", text("?"))
    refused = run_in(copied_run, *REPRODUCE.split(), check=False)
    assert refused.returncode != 0
    (line, _) = lines_of(copied_run)
    assert line in refused.stderr
    assert line.endswith(f"; to mend it: rm results/smoke/tables/native_accuracy.md && {REPRODUCE}")

    keep_time(tables / "bank_prefix_accuracy.csv.manifest.json", truncate)
    keep_time(copied_run / f"results/smoke/shared_t1/{PLACE}/bank_free.parquet", truncate)
    (copied_run / "results/smoke/figures/method.png").unlink()
    (tables / "shared_t1.tex").unlink()
    *lines, command, counts = lines_of(copied_run)
    assert [line.partition(" ")[0] for line in lines] == ["damaged:"] * 3 + ["missing:"]
    assert lines[-1].startswith("missing: 2 outputs ("), "one of them is below the damaged rows"
    assert " 2 missing, 3 damaged, " in counts
    command = command.removeprefix("to mend all of this: ")
    run_in(copied_run, "bash", "-c", command, warm=True)  # ends with the comparison of all outputs
    assert planned(copied_run) == set()


def test_the_command_for_a_copy_mends_the_copy(copied_run: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    copy = shutil.copytree(copied_run / "results/smoke", tmp_path / "elsewhere/smoke")
    keep_time(copy / "tables/intervals.md", text("?"))
    done = run_in(copied_run, "stair", "verify", "--run", str(copy), check=False)
    command = f"rm {copy}/tables/intervals.md && stair reproduce --run {copy}"
    assert f"; to mend it: {command}\n" in done.stdout


def test_a_missing_file_is_one_line_and_what_was_made_from_it_is_stale(copied_run: Path) -> None:
    (copied_run / "results/smoke" / SCORED).unlink()
    (copied_run / "results/smoke" / f"{SCORED}.manifest.json").unlink()
    verification = checked(copied_run)
    (missing,) = verification.lines()
    assert missing.startswith(f"missing: {SCORED} does not exist; made from it: ")
    assert f"; to mend it: {REPRODUCE}" in missing
    found = unsound(verification)
    assert found[SCORED][0] == "missing"
    assert found["tables/intervals.csv"] == ("stale", f"its input {SCORED} is missing")


def test_a_change_that_snakemake_does_not_see_is_stale_too(copied_run: Path) -> None:
    """As in a copy without Snakemake's records."""
    path = copied_run / "results/smoke" / f"{SCORED}.manifest.json"
    manifest = json.loads(path.read_text())
    changed = {"settings": manifest["settings"] | {"benchmarks.math500.kind": "integer"}}
    write_json(path, with_checksum(manifest | changed))
    stale, _ = lines_of(copied_run)
    assert stale.startswith('stale: benchmarks.math500.kind was "integer", is "math"; affected: ')
    assert f" outputs ({SCORED}, " in stale
    assert stale.endswith(f"; to update: rm results/smoke/{SCORED} && {REPRODUCE}")


def keep_time(path: Path, change: Callable[[Path], object]) -> None:
    before = path.stat()
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def swap(one: str, other: str) -> Callable[[Path], None]:
    """Two outputs and their manifests change places."""

    def swapped(folder: Path) -> None:
        for ending in ("", ".manifest.json"):
            first, second = folder / f"{one}{ending}", folder / f"{other}{ending}"
            kept = first.read_bytes()
            first.write_bytes(second.read_bytes())
            second.write_bytes(kept)

    return swapped


def other_manifest(folder: Path) -> None:
    """The manifest of another output, made to agree with the file."""
    manifest = json.loads((folder / f"{STAIR}.manifest.json").read_text())
    manifest["files"][NATIVE] = file_digest(folder / NATIVE)
    write_json(folder / f"{NATIVE}.manifest.json", with_checksum(manifest))


def another_kind(path: Path) -> None:
    write_json(path, with_checksum(json.loads(path.read_text()) | {"versions": ["torch"]}))


def on(name: str, change: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: (change(folder / name), None)[1]


NATIVE, STAIR = f"responses/{PLACE}/native.parquet", f"responses/{PLACE}/stair.parquet"
SCORED, ROLLOUTS = f"evaluation/{PLACE}/native.parquet", f"rollouts/{MODEL}.parquet"
SESSIONS, POOL = f"sessions/training/{MODEL}.parquet", f"data/training/{MODEL}.parquet"
CONTROLLER, WEIGHTS = f"controllers/{MODEL}/stair", f"backbones/{MODEL}/model.safetensors"
MANIFEST, CELLS = f"{ROLLOUTS}.manifest.json", f"replay/{MODEL}/cells.parquet"


def flip(path: Path) -> None:
    """Another bit in the last digit or byte of a number."""
    content = bytearray(path.read_bytes())
    content[max(content.rfind(b"0"), content.rfind(b"1"))] ^= 1
    path.write_bytes(content)


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


DAMAGES: list[tuple[Callable[[Path], None], str, str, str]] = [
    (on(STAIR, truncate), STAIR, "damaged", "checksum"),
    (on(STAIR, Path.unlink), STAIR, "missing", "does not exist"),
    (on(SCORED, truncate), SCORED, "damaged", "checksum"),
    (on(SCORED, text("")), SCORED, "damaged", "checksum"),
    (swap(NATIVE, STAIR), NATIVE, "damaged", f"is that of seal_evaluation {MODEL} math500 stair"),
    (on(ROLLOUTS, truncate), ROLLOUTS, "damaged", "checksum"),
    (on(MANIFEST, Path.unlink), ROLLOUTS, "damaged", "its origin is unknown"),
    (on(MANIFEST, text("{")), ROLLOUTS, "damaged", "is damaged"),
    (on(MANIFEST, text("[]")), ROLLOUTS, "damaged", "is damaged"),
    (on(MANIFEST, another_kind), ROLLOUTS, "damaged", "is damaged"),
    (on(MANIFEST, flip), ROLLOUTS, "damaged", "is damaged"),
    (on(f"replay/{MODEL}/states/group-1/empty/0.safetensors", flip), CELLS, "stale", "0.safetensors has changed"),
    (other_manifest, NATIVE, "damaged", f"is that of seal_evaluation {MODEL} math500 stair"),
    (on(SESSIONS, truncate), SESSIONS, "damaged", "checksum"),
    (
        on("sessions/evaluation/math500.parquet", Path.unlink),
        "sessions/evaluation/math500.parquet",
        "missing",
        "not exist",
    ),
    (on(POOL, truncate), POOL, "damaged", "checksum"),
    (on("data/benchmarks/math500.parquet", truncate), "data/benchmarks/math500.parquet", "damaged", "checksum"),
    (on("raw/math500.jsonl", text("{}\n")), "raw/math500.jsonl", "damaged", "checksum"),
    (on(f"{CONTROLLER}/controller.safetensors", truncate), CONTROLLER, "damaged", "checksum"),
    (on(f"{CONTROLLER}/manifest.json", text("{")), CONTROLLER, "damaged", "is damaged"),
    (
        on(WEIGHTS, truncate),
        f"backbones/{MODEL}",
        "damaged",
        f"{WEIGHTS} does not match its sealed checksum",
    ),
    (on("checks.csv", text("name\n")), "checks.csv", "damaged", "checksum"),
    (on("tables/intervals.md", text("?")), "tables/intervals.csv", "damaged", "tables/intervals.md does not match"),
    (on("figures/overview.png", Path.unlink), "figures/overview.pdf", "missing", "figures/overview.png does not exist"),
]


@pytest.mark.parametrize(("damage", "file", "state", "reason"), DAMAGES)
def test_a_damage_is_one_line_and_nothing_is_touched(
    copied_run: Path, damage: Callable[[Path], None], file: str, state: str, reason: str
) -> None:
    results = copied_run / "results" / "smoke"
    damage(results)
    before = contents(results, "**/*.*")
    verification = by_manifests(copied_run)
    assert unsound(verification)[file][0] == state
    lines = list(verification.lines())
    assert len([line for line in lines if f"{state}: " in line and reason in line]) == 1
    assert any(REPRODUCE in line for line in lines), "in the line, or in the last one after several faults"
    assert contents(results, "**/*.*") == before


def empty(path: Path) -> None:
    path.write_bytes(b"")


BY_HAND: list[tuple[str, str, Callable[[Path], object]]] = [
    ("table --table continuous_summary", SCORED, truncate),
    ("table --table continuous_summary", f"{SCORED}.manifest.json", empty),
    ("figure --figure method", f"{CONTROLLER}/controller.safetensors", truncate),
    ("report", "comparison.csv", empty),
    ("report", "provenance.json", text("{}")),
    ("comparison", "tables/continuous_summary.csv", text("artifact\n")),
    ("check", SESSIONS, truncate),
]


@pytest.mark.parametrize(("command", "file", "damage"), BY_HAND)
def test_a_command_by_hand_names_the_damaged_file(
    copied_run: Path, command: str, file: str, damage: Callable[[Path], object]
) -> None:
    damage(copied_run / "results/smoke" / file)
    done = run_in(copied_run, "stair", *command.split(), "--run", "results/smoke", check=False)
    (line,) = done.stderr.splitlines()
    assert done.returncode == 2
    assert line.startswith("stair: error: ")
    assert f"results/smoke has a damaged file: {file.removesuffix('.manifest.json')} " in line
    assert line.endswith("stair reproduce --run smoke")


def test_what_may_not_be_read_is_told(copied_run: Path) -> None:
    results = copied_run / "results/smoke"
    for place, mode in ((ROLLOUTS, 0), (f"{SCORED}.manifest.json", 0), (f"controllers/{MODEL}/lora", 0)):
        (results / place).chmod(mode)
    try:
        found = without_privilege(lambda: unsound(by_manifests(copied_run)))
    finally:
        (results / f"controllers/{MODEL}/lora").chmod(0o755)
    assert found[ROLLOUTS][1] == f"{ROLLOUTS} cannot be read; check its permissions"
    assert found[SCORED][1] == f"{SCORED}.manifest.json cannot be read; check its permissions"
    lora = f"controllers/{MODEL}/lora"
    assert found[lora] == ["damaged", f"{lora} cannot be read; check its permissions"]
    assert POOL not in found


def without_privilege(look: Callable[[], dict[str, tuple[str, str]]]) -> dict[str, list[str]]:
    """What a forked child finds that gave up root's capabilities: it owns the files, and what their modes deny it is denied."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        try:
            give_up_capabilities()
            told = json.dumps(look())
        except BaseException as error:
            told = json.dumps({"error": ("failed", repr(error))})
        with open(writer, "w", encoding="utf-8") as tell:
            tell.write(told)
        os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as told_by_child:
        found: dict[str, list[str]] = json.load(told_by_child)
    os.waitpid(child, 0)
    return found


def test_a_run_that_may_not_be_written_is_read(copied_run: Path, tmp_path: Path) -> None:
    """A colleague's folder, or a mount without writing. `export` checks the run as `stair verify` and `snakemake -n` do."""
    reader = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.getuid() == 0 else ()
    archive = tmp_path / "smoke.tar.gz"
    subprocess.run(["chmod", "-R", "a-w", str(copied_run)], check=True)
    try:
        done = run_in(copied_run, *reader, "stair", "export", "--run", "results/smoke", "--out", str(archive))
        assert done.stderr == "" and archive.is_file(), "every output is sound"
        told = run_in(copied_run, *reader, "stair", "claims", "--run", "results/smoke").stdout
        assert told.startswith("results/smoke (not written: ") and " not run" in told
        words = ("--dry-run", "--config", f"run={SMOKE}", "evaluation={seed: again}")
        done = run_in(copied_run, *reader, "snakemake", "--snakefile", str(ROOT / "Snakefile"), *words)
        assert jobs_of(done)["evaluation_shard"] > 0
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(copied_run)], check=True)


def test_a_change_of_mind_is_told_down_to_the_value(copied_run: Path) -> None:
    changes = {
        "evaluation": {"seed": "other"},
        "models": {MODEL: {"evaluation_changes": {"math500": {"temperature": 0.9}}}},
        "training": {"kl": 0.5},
        "conditions": {"native": {"label": "Plain"}},
    }
    verification = checked(copied_run, changes)
    found = unsound(verification)
    assert ROLLOUTS not in found
    for file, reason in (
        (f"responses/{PLACE}/vanilla.parquet", 'evaluation.seed was "evaluation", is "other"'),
        (STAIR, f"models.{MODEL}.evaluation_sampling.temperature was 0.7, is 0.9"),
        (f"controllers/{MODEL}/stair", "training.kl was 1.0, is 0.5"),
        ("tables/intervals.csv", "the configuration has changed"),
    ):
        assert found[file][0] == "stale"
        assert reason in found[file][1]
        (line,) = [line for line in verification.lines() if line.startswith(f"stale: {reason}")]
        assert "; affected: " in line
        assert f"; to update: stair reproduce --run {copied_run}/results/smoke" in line


def test_other_code_of_a_stage_that_generates_is_a_note_and_other_code_of_the_scorer_is_stale(
    finished_run: Path, project_copy: Path
) -> None:
    for file in ("stair/engines/sampling.py", "answer_grader/verdict.py"):
        path = project_copy / file
        path.write_text(path.read_text() + "\nADDED = 1\n")
    more = {"PYTHONPATH": str(project_copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = run_in(finished_run, "stair", "verify", "--run", "results/smoke", check=False, more=more)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    (stale,) = [line for line in lines if line.startswith("stale: ")]
    assert stale.startswith("stale: the code that makes it has changed; affected: ")
    assert stale.endswith(f"; to update: {REPRODUCE}")
    assert any("the code of this generating stage has changed" in line for line in lines if line.startswith("note on "))


def test_why_goes_back_from_a_table_to_the_data(finished_run: Path) -> None:
    table = f"results/smoke/tables/history_{MODEL}.md"
    text = run_in(finished_run, "stair", "why", table).stdout
    for name in (
        f"evaluation/{PLACE}/stair.parquet", f"responses/{PLACE}/stair.parquet", f"controllers/{MODEL}/stair",
        f"rollouts/{MODEL}.parquet", f"backbones/{MODEL}", "raw/training_pool.parquet", "transformers",
        "controllers.stair.smoothing", "It becomes stale", "when any file of the code changes",
    ):  # fmt: skip
        assert name in text, name


def test_why_of_a_controllers_folder_and_of_what_has_a_damaged_manifest_behind_it(copied_run: Path) -> None:
    (copied_run / "results/smoke" / MANIFEST).write_text("[]")
    told = run_in(copied_run, "stair", "why", f"results/smoke/controllers/{MODEL}/stair").stdout
    assert told.startswith(f"{CONTROLLER}  [stale]")
    assert f"{MANIFEST} is damaged" in told


def test_why_of_a_file_that_is_no_output(finished_run: Path) -> None:
    done = run_in(finished_run, "stair", "why", f"results/smoke/{RESOLVED}", check=False)
    assert done.returncode == 2
    assert "is not an output of the run" in done.stderr
    outside = run_in(finished_run, "stair", "why", str(SMOKE), check=False)
    assert "name the run with --run" in outside.stderr
