"""A finished run is sound. Each damage and each change is named with its reason, and nothing is touched."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from stair.config.paths import RunPaths, project_root
from stair.config.resolve import RESOLVED, load_run
from stair.pipeline.job_inputs import checked_digests
from stair.pipeline.job_list import list_jobs
from stair.pipeline.jobs import names_of
from stair.pipeline.provenance import provenance
from stair.pipeline.verify import Fault, Receipts, again, code_note, faults, remedy
from stair.records.files import write_json
from stair.records.keys import file_digest
from stair.records.manifest import MEASURED, manifest_files, manifest_path, read_manifest, with_checksum
from tests.workflow.conftest import RESULTS, ROOT, SMOKE, assert_ran, contents, jobs_of, planned, receipts, run_in

pytestmark = pytest.mark.timeout(300)
MODEL, PLACE = "qwen3-4b-instruct", "qwen3-4b-instruct/math500"
REPRODUCE = "stair reproduce --run results/smoke"
NATIVE, STAIR = f"responses/{PLACE}/native.parquet", f"responses/{PLACE}/stair.parquet"
SCORED, ROLLOUTS = f"evaluation/{PLACE}/native.parquet", f"rollouts/{MODEL}.parquet"
SESSIONS, POOL = f"sessions/training/{MODEL}.parquet", f"data/training/{MODEL}.parquet"
CONTROLLER = f"controllers/{MODEL}/stair"
MANIFEST, CHECKSUMS = f"{ROLLOUTS}.manifest.json", f"replay/{MODEL}/states.sha256"


def found_in(results: Path) -> list[Fault]:
    return list(faults(load_run(results), Receipts(results)))


def test_a_finished_run_is_sound(finished_run: Path) -> None:
    done = run_in(finished_run, "stair", "verify", "--run", "results/smoke")
    (line,) = done.stdout.splitlines()
    assert line.endswith(" files ok, 0 missing, 0 damaged, 0 stale")
    assert run_in(finished_run, "stair", "verify", "--run", "results/smoke", "--json").stdout == ""


def test_every_job_has_a_manifest_with_its_files_and_inputs(finished_run: Path) -> None:
    """By Snakemake's own rules: the manifests are a second statement of the graph, made by the jobs."""
    folder = finished_run / "results" / "smoke"
    manifests = {(each.rule, *each.wildcards.values()): each for each in map(read_manifest, manifest_files(folder))}
    listed = list_jobs(project_root(), {"run": "smoke"})
    jobs = {
        (job.rule, *names_of(job.rule, job.wildcards).values()): job
        for job in listed
        if not job.rule.endswith("_shard")
    }
    assert manifests.keys() == jobs.keys()
    for name, job in jobs.items():
        manifest = manifests[name]
        assert set(job.outputs) <= manifest.files.keys(), manifest.title
        assert {name for name in job.inputs if not name.startswith("work/")} == manifest.inputs.keys(), manifest.title


def test_every_file_that_a_result_is_made_from_is_in_a_manifest(finished_run: Path) -> None:
    """Work logs have a checksum in each record; everything else below work/ and logs/ can be lost."""
    folder = finished_run / "results/smoke"
    manifests = [*manifest_files(folder)]
    contents = [read_manifest(path).content for path in manifests]
    known = {name for content in contents for name in content["files"] | content.get(MEASURED, {})}
    below = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path not in manifests)
    others = {path.as_posix() for path in below if path.parts[0] not in ("work", "logs", ".snakemake")} - known
    assert others == {RESOLVED}


def keep_time(path: Path, change: Callable[[Path], object]) -> None:
    before = path.stat()
    change(path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Another bit in the last digit or byte of a number."""
    content = bytearray(path.read_bytes())
    content[max(content.rfind(b"0"), content.rfind(b"1"))] ^= 1
    path.write_bytes(content)


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


DAMAGES: list[tuple[str, Callable[[Path], object], str, str, str]] = [
    (STAIR, truncate, STAIR, "damaged", "checksum"),
    (STAIR, Path.unlink, STAIR, "missing", "does not exist"),
    (SCORED, text(""), SCORED, "damaged", "checksum"),
    (ROLLOUTS, truncate, ROLLOUTS, "damaged", "checksum"),
    (MANIFEST, text("{"), MANIFEST, "damaged", "cannot be read"),
    (MANIFEST, Path.unlink, ROLLOUTS, "damaged", "has no manifest"),
    (MANIFEST, text("[]"), MANIFEST, "damaged", "cannot be read"),
    (MANIFEST, flip, MANIFEST, "damaged", "cannot be read"),
    (f"replay/{MODEL}/states/group-1/empty.safetensors", flip, CHECKSUMS, "stale", "empty.safetensors has changed"),
    (SESSIONS, truncate, SESSIONS, "damaged", "checksum"),
    (POOL, truncate, POOL, "damaged", "checksum"),
    ("raw/math500.jsonl", text("{}\n"), "raw/math500.jsonl", "damaged", "checksum"),
    (f"{CONTROLLER}/controller.safetensors", truncate, f"{CONTROLLER}/controller.safetensors", "damaged", "checksum"),
    (f"{CONTROLLER}/folder.manifest.json", text("{"), f"{CONTROLLER}/folder.manifest.json", "damaged", "be read"),
    (
        f"{CONTROLLER}/folder.manifest.json",
        Path.unlink,
        f"{CONTROLLER}/controller.safetensors",
        "damaged",
        "no manifest",
    ),
    ("tables/intervals.csv.manifest.json", Path.unlink, "tables/intervals.csv", "damaged", "has no manifest"),
    ("tables/intervals.md", text("?"), "tables/intervals.md", "damaged", "checksum"),
    ("figures/overview.png", Path.unlink, "figures/overview.png", "missing", "does not exist"),
]


def test_each_damage_is_one_fault_and_nothing_is_touched(copied_run: Path) -> None:
    """All of them one after another in one folder: each is undone before the next."""
    results = copied_run / "results" / "smoke"
    for file, damage, named, state, reason in DAMAGES:
        sound = (results / file).read_bytes()
        damage(results / file)
        before = contents(results, "**/*.*")
        *measured, fault = found_in(results)
        assert (fault.file, fault.state) == (named, state) and reason in fault.reason
        # A damaged measurement is deleted with its checksums, else its shard would keep it.
        assert measured == ([Fault(file, "damaged", "does not match its sealed checksum", file)] * ("/states/" in file))
        assert contents(results, "**/*.*") == before
        (results / file).write_bytes(sound)
    assert found_in(results) == []


def test_exactly_the_damaged_files_are_named(copied_run: Path) -> None:
    """All outputs, then all measurements behind an output, then all manifests: in each a bit, as a disk changes it."""
    results = copied_run / "results/smoke"
    manifests = list(manifest_files(results))
    outputs, measured = (
        {name for each in map(read_manifest, manifests) for name in each.content.get(key, ())}
        for key in ("files", MEASURED)
    )
    names = {path.relative_to(results).as_posix() for path in manifests}
    for damaged in (outputs, measured, names):
        sound = {name: (results / name).read_bytes() for name in damaged}
        assert damaged
        for name, content in sound.items():
            middle = len(content) // 2
            (results / name).write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        found = found_in(results)
        if damaged is measured:
            assert {fault.file for fault in found if fault.state == "damaged"} == measured
            stale = {fault.reason for fault in found if fault.state == "stale"}
            assert stale == {f"its measurement {name} has changed" for name in measured}
        elif damaged is outputs:
            assert {(fault.file, fault.state) for fault in found} == {(name, "damaged") for name in outputs}
        else:
            assert {fault.file for fault in found} >= names
        for name, content in sound.items():
            (results / name).write_bytes(content)


@pytest.mark.parametrize("how", [Path.unlink, truncate])
def test_files_that_are_no_results_can_all_be_lost(
    finished_run: Path, copied_run: Path, how: Callable[[Path], object]
) -> None:
    """Every file below work/ and logs/, the resolved configuration, and, removed, Snakemake's records."""
    results = copied_run / "results/smoke"
    manifests = list(manifest_files(results))
    kept = {
        name
        for each in map(read_manifest, manifests)
        for key in ("files", MEASURED)
        for name in each.content.get(key, ())
    }
    for path in [path for path in results.rglob("*") if path.is_file() and path not in manifests]:
        name = path.relative_to(results)
        if name.as_posix() not in kept and (how == Path.unlink or name.parts[0] != ".snakemake"):
            how(path)
    run_in(copied_run, "stair", "reproduce", "--run", str(SMOKE))
    assert contents(results, *RESULTS) == contents(finished_run / "results/smoke", *RESULTS)


def test_the_end_of_a_run_names_a_damaged_file_with_the_command_that_mends_it(copied_run: Path) -> None:
    """Snakemake sees no reason to run where a file's time is that of before."""
    results = copied_run / "results" / "smoke"
    keep_time(results / "tables/native_accuracy.md", text("?"))
    keep_time(results / ROLLOUTS, truncate)
    keep_time(results / f"{CONTROLLER}/folder.manifest.json", text("{"))
    refused = run_in(copied_run, *REPRODUCE.split(), check=False)
    assert refused.returncode == 2
    *_, line = refused.stderr.splitlines()
    for name in ("tables/native_accuracy.md is damaged", f"{ROLLOUTS} is damaged", "folder.manifest.json is damaged"):
        assert name in line
    told = run_in(copied_run, "stair", "verify", "--run", "results/smoke", check=False)
    assert told.returncode == 1 and " 0 missing, 3 damaged, 0 stale" in told.stdout
    (command,) = [each for each in told.stdout.splitlines() if each.startswith("to make them again: ")]
    command = command.removeprefix("to make them again: ")
    assert command in line and command.endswith(f"&& {REPRODUCE} --target {ROLLOUTS} && {REPRODUCE}")
    run_in(copied_run, "bash", "-c", command, warm=True)  # ends with the comparison of all outputs
    assert planned(copied_run) == set()


def test_a_damaged_data_set_is_made_again_alone(copied_run: Path) -> None:
    """Snakemake would plan the trainings before it knows that the file is the same again."""
    results, raw = copied_run / "results" / "smoke", "raw/math500.jsonl"
    (results / raw).write_text("{}\n")
    before = receipts(results)
    command = remedy(load_run(results), RunPaths(Path("results/smoke")), found_in(results))
    run_in(copied_run, "bash", "-c", command, warm=True)
    assert_ran(results, before, {"raw"})
    assert found_in(results) == []


def test_an_input_that_was_made_again_makes_its_users_stale(copied_run: Path) -> None:
    results = copied_run / "results" / "smoke"
    content = json.loads((results / f"{SCORED}.manifest.json").read_text())
    content["inputs"][NATIVE] = "0" * 64
    content["settings"]["benchmarks.math500.kind"] = "integer"
    write_json(results / f"{SCORED}.manifest.json", with_checksum(content))
    assert [(fault.file, fault.state, fault.reason) for fault in found_in(results)] == [
        (SCORED, "stale", f"its input {NATIVE} has changed"),
        (SCORED, "stale", 'benchmarks.math500.kind was "integer", is "math"'),
    ]


def test_an_output_of_a_rule_of_an_earlier_version_has_a_remedy(copied_run: Path) -> None:
    results, file = copied_run / "results" / "smoke", f"responses/{PLACE}/shared_t1/t1.parquet"
    config, manifest = load_run(results), results / f"{file}.manifest.json"
    write_json(manifest, with_checksum(json.loads(manifest.read_text()) | {"rule": "seal_controls"}))
    assert found_in(results) == [Fault(file, "stale", "this version has no rule seal_controls, which made it", file)]
    assert code_note(config, RunPaths(results), Receipts(results)) == ""
    assert provenance(config, RunPaths(results))["outputs"][file]["made_by"].startswith("seal_controls ")
    told = run_in(copied_run, "stair", "why", f"results/smoke/{file}").stdout
    assert "no rule seal_controls" in " ".join(told.split())
    done = run_in(copied_run, *REPRODUCE.split(), check=False)
    assert "no rule seal_controls" in done.stderr and "jobs to do" not in done.stderr


def empty(path: Path) -> None:
    path.write_bytes(b"")


BY_HAND: list[tuple[str, str, Callable[[Path], object]]] = [
    ("table --table continuous_summary", SCORED, truncate),
    ("table --table continuous_summary", f"{SCORED}.manifest.json", empty),
    ("figure --figure method", f"{CONTROLLER}/controller.safetensors", truncate),
    ("report", "provenance.json", text("{}")),
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
    assert line.endswith(REPRODUCE)


def test_a_run_that_may_not_be_written_is_read(copied_run: Path, tmp_path: Path) -> None:
    """A colleague's folder, or a mount without writing."""
    reader = ("setpriv", "--inh-caps=-all", "--bounding-set=-all") if os.getuid() == 0 else ()
    archive = tmp_path / "smoke.tar.gz"
    subprocess.run(["chmod", "-R", "a-w", str(copied_run)], check=True)
    try:
        for words in (("verify",), ("status",), ("show",), ("export", "--out", str(archive))):
            done = run_in(copied_run, *reader, "stair", *words, "--run", "results/smoke")
            assert done.stderr == "", words
        assert run_in(copied_run, *reader, "stair", "why", f"results/smoke/{SCORED}").stdout.startswith(SCORED)
        told = run_in(copied_run, *reader, "stair", "claims", "--run", "results/smoke").stdout
        assert "The paper's claims on this run." in " ".join(told.split()) and " not run" in told
        words = ("--dry-run", "--config", f"run={SMOKE}", "evaluation={seed: again}")
        done = run_in(copied_run, *reader, "snakemake", "--snakefile", str(ROOT / "Snakefile"), *words)
        assert jobs_of(done)["evaluation_shard"] > 0
    finally:
        subprocess.run(["chmod", "-R", "u+w", str(copied_run)], check=True)


def test_other_code_is_one_line_with_the_command_and_no_error(copied_run: Path, project_copy: Path) -> None:
    """Of training alone, no response is named. Tables have the whole code, and Snakemake makes them again by itself."""
    path = project_copy / "stair/stages/training/objective.py"
    path.write_text(path.read_text() + "\nADDED = 1\n")
    more = {"PYTHONPATH": str(project_copy), "PYTHONDONTWRITEBYTECODE": "1"}
    told = run_in(copied_run, "stair", "verify", "--run", "results/smoke", more=more).stdout
    command = f" of them again; to make them all again: rm -r results/smoke/controllers && {REPRODUCE}\n"
    assert " outputs were made by other code than the present (" in told and command in told

    for path in (copied_run / "results/smoke/controllers").rglob("folder.manifest.json"):
        write_json(path, with_checksum(json.loads(path.read_text()) | {"source": "0" * 64}))
    told = run_in(copied_run, "stair", "reproduce", "--run", str(SMOKE)).stdout
    assert f"note: 4 outputs were made by other code than the present (controllers/{MODEL}/" in told
    assert "; to make them again: rm -r results/smoke/controllers && stair reproduce --run " in told


def test_other_code_of_a_shared_room_and_of_what_shows_results(finished_run: Path, tmp_path: Path) -> None:
    """The folders to delete contain nothing else, and what Snakemake makes again is not deleted."""
    results = shutil.copytree(finished_run / "results/smoke", tmp_path / "smoke")
    for path in manifest_files(results):
        content = json.loads(path.read_text())
        if content["rule"] == "seal_evaluation":  # sealed again by the present code
            write_json(path, with_checksum(content | {"generated_by": ["0" * 64, content["source"]]}))
        if content["rule"] == "table":
            write_json(path, with_checksum(content | {"source": "0" * 64}))
    another = {**content, "rule": "went", "files": {"own.txt": "0" * 64}}  # another version of the project had the rule
    write_json(manifest_path(results / "own.txt"), with_checksum(another))
    receipts = Receipts(results)
    note = code_note(load_run(results), RunPaths(results), receipts)
    work = [str(results / name) for name in ("responses", "work/evaluation")]
    assert f"rm -r {' '.join(work)} && stair reproduce" in note
    assert note.startswith(f"{sum(each.rule in ('seal_evaluation', 'table') for each in receipts.manifests)} ")

    for each in receipts.manifests:
        each.content["source"] = "0" * 64
    short = code_note(load_run(results), RunPaths(results), receipts, long=False)
    assert short.endswith(f"; the command that makes them again: stair verify --run {results}")
    shutil.rmtree(results / "data/benchmarks")  # as in an archive
    assert code_note(load_run(results), RunPaths(results), receipts).endswith(" of them again")
    fault = Fault("tables/intervals.csv", "missing", "does not exist")
    assert remedy(load_run(results), RunPaths(results), [fault]).endswith(" --target tables/intervals.csv")
    fault = Fault(SCORED, "damaged", "does not match its sealed checksum")
    assert remedy(load_run(results), RunPaths(results), [fault]) == "unpack the archive again"


def test_a_copy_of_a_folder_inside_the_run_is_not_of_the_run(copied_run: Path) -> None:
    results = copied_run / "results/smoke"
    for name in ("tables", f"controllers/{MODEL}/stair"):
        shutil.copytree(results / name, results / f"{name}_before")
    path = results / "tables/intervals.csv"
    path.write_text(path.read_text() + "\n")
    manifest = manifest_path(path)
    now = json.loads(manifest.read_text())
    write_json(manifest, with_checksum(now | {"files": now["files"] | {"tables/intervals.csv": file_digest(path)}}))
    assert "0 missing, 0 damaged" in run_in(copied_run, "stair", "verify", "--run", "results/smoke", check=False).stdout
    config, paths = load_run(results), RunPaths(results)
    assert checked_digests(config, paths, [path]) == {"tables/intervals.csv": file_digest(path)}


def test_what_is_trained_on_is_made_alone_first_and_an_expensive_run_with_its_word(copied_run: Path) -> None:
    results = copied_run / "results/smoke"
    paths, receipts = RunPaths(results), Receipts(results)
    pool = paths.training_pool(MODEL).relative_to(results).as_posix()
    start = f"stair reproduce --run {results}"
    command = again(load_run(results), paths, receipts, receipts.made[pool])
    first = min(receipts.made[pool].files)
    assert command.endswith(f" && {start} --target {first} && {start}")
    text = paths.resolved.read_text()
    paths.resolved.write_text(text.replace("\nexpensive: false\n", "\nexpensive: true\n"))
    assert paths.start_command() == f"stair reproduce --go --run {results}"


def test_why_goes_back_from_a_table_to_the_data(finished_run: Path) -> None:
    table = f"results/smoke/tables/history_{MODEL}.md"
    text = run_in(finished_run, "stair", "why", table, "--full").stdout
    for name in (
        SCORED, STAIR, CONTROLLER, ROLLOUTS, "backbones/tiny-qwen3-4b", "raw/training_pool.parquet", "transformers",
        "controllers.stair.smoothing", "It becomes stale if any of these changes: its inputs, its code",
    ):  # fmt: skip
        assert name in text, name


def test_why_names_a_damaged_file_behind_a_controller(copied_run: Path) -> None:
    (copied_run / "results/smoke" / ROLLOUTS).write_text("?")
    controller, fault = (
        f"results/smoke/controllers/{MODEL}/stair",
        f"{ROLLOUTS} is damaged: does not match its sealed checksum",
    )
    told = run_in(copied_run, "stair", "why", controller, "--full").stdout
    assert told.startswith(f"{CONTROLLER}\n") and f"! {fault}" in told
    told = run_in(copied_run, "stair", "why", controller).stdout
    assert (
        f" stale yes: {fault}" in " ".join(told.split())
        and f"rm -r results/smoke/{ROLLOUTS} && {REPRODUCE} --target {ROLLOUTS} && {REPRODUCE}\n" in told
    )


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize(
    "file",
    [
        "tables/intervals.md",
        "figures/overview.pdf",
        f"controllers/{MODEL}/stair",
        "raw/math500.jsonl",
        "report.html",
        SCORED,
    ],
)
def test_why_begins_with_a_summary(finished_run: Path, file: str, width: int) -> None:
    done = run_in(finished_run, "stair", "why", f"results/smoke/{file}", more={"COLUMNS": str(width)})
    *lines, command = done.stdout.splitlines()
    assert len(lines) < 20 and max(map(len, lines)) <= width
    topics = {line[:13].strip() for line in lines[1:]} - {""}
    assert {"made by", "code", "versions", "hardware", "stale"} <= topics
    assert ("responses" in topics) == (not file.startswith("raw"))
    assert "made by the present code" in done.stdout and "no; it becomes stale if" in done.stdout
    if file == "report.html":  # a T1 that is another condition's counts there
        (counted,) = re.findall(r"^responses +evaluation ([\d,]+); rollouts ([\d,]+)$", done.stdout, re.MULTILINE)
        generated = json.loads((finished_run / "results/smoke/provenance.json").read_text())["costs"]["generated"][
            "all"
        ]["responses"]
        assert sum(int(each.replace(",", "")) for each in counted) == generated
    assert command.startswith("make again   rm -r results/smoke/") and command.endswith(f"&& {REPRODUCE}")


def test_the_command_of_why_makes_responses_again(copied_run: Path) -> None:
    told = run_in(copied_run, "stair", "why", f"results/smoke/responses/{MODEL}/math500/native.parquet").stdout
    removed = [
        f"results/smoke/{name}/{MODEL}/math500/native{end}"
        for name, end in (("responses", ".parquet"), ("work/evaluation", ""))
    ]
    assert f"rm -r {' '.join(removed)} && {REPRODUCE}\n" in told


def test_why_of_a_file_that_is_no_output(finished_run: Path) -> None:
    done = run_in(finished_run, "stair", "why", f"results/smoke/{RESOLVED}", check=False)
    assert done.returncode == 2
    assert "is not an output of the run" in done.stderr
    named = run_in(finished_run, "stair", "why", f"results/smoke/{RESOLVED}", "--run", str(SMOKE), check=False)
    assert named.stderr == done.stderr
    outside = run_in(finished_run, "stair", "why", str(SMOKE), check=False)
    assert "name the run with --run" in outside.stderr


def test_what_another_version_made_in_a_place_of_its_own_is_no_fault(copied_run: Path) -> None:
    """A rule that went, and a file that its rule makes no more: nothing reads them, and no command would make them again."""
    results = copied_run / "results" / "smoke"
    scored = manifest_path(results / SCORED)
    content = json.loads(scored.read_text())
    for number, change in enumerate(({"rule": "went"}, {})):
        own = results / f"own-{number}.txt"
        own.write_text("changed since")
        files = {own.name: "0" * 64}
        write_json(manifest_path(own), with_checksum({**content, **change, "files": files}))
    assert found_in(results) == []
    write_json(scored, with_checksum({**content, "source": "0" * 64}))
    config, paths, receipts = load_run(results), RunPaths(results), Receipts(results)
    assert code_note(config, paths, receipts).startswith("1 outputs were made by other code")
    assert again(config, paths, receipts, receipts.made[SCORED]).startswith(f"rm -r {results / SCORED} && ")
