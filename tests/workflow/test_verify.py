"""A finished run is sound; every damage and every change of mind is told, with its reason, and nothing is touched."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import yaml

from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, load_run, merge
from stair.graph.artifacts import Artifacts
from stair.graph.outputs import OUTPUTS
from stair.graph.recorded_origin import name_in_run
from stair.graph.verify import Verification
from stair.records.keys import file_digest
from tests.privileges import give_up_capabilities
from tests.sealed import reseal
from tests.workflow.conftest import ROOT, SMOKE, contents, environment, run_in, snakemake

pytestmark = [pytest.mark.xdist_group("workflow"), pytest.mark.timeout(300)]
MODEL, PLACE = "qwen3-4b-instruct", "qwen3-4b-instruct/math500"


def verified(folder: Path) -> dict[str, tuple[str, str]]:
    """(state, reasons) of every output that is not sound."""
    results = folder / "results" / "smoke"
    verification = Verification(load_run(results), RunPaths(results))
    return {
        name_in_run(finding.artifact.files[0], verification.paths): (finding.state, "; ".join(finding.reasons))
        for finding in verification.findings()
        if finding.state != "ok"
    }


def changed_settings(folder: Path, changes: dict) -> None:
    """The run's resolved configuration with changes, as the workflow would write it."""
    path = folder / "results/smoke" / RESOLVED
    path.write_text(yaml.safe_dump(merge(yaml.safe_load(path.read_text()), changes)))


def test_a_finished_run_is_sound(finished_run: Path) -> None:
    assert verified(finished_run) == {}
    done = run_in(finished_run, "stair", "verify", "--run", "results/smoke")
    assert done.stdout.splitlines()[-1].endswith(" ok, 0 missing, 0 damaged, 0 stale")


def test_what_is_not_sound_is_told_and_ends_with_1(copied_run: Path) -> None:
    (copied_run / "results/smoke" / SCORED).unlink()
    done = run_in(copied_run, "stair", "verify", "--run", "results/smoke", check=False)
    assert done.returncode == 1
    assert (
        f"missing: {SCORED}: {SCORED} does not exist; to make it: stair reproduce --run smoke"
        in done.stdout.splitlines()
    )
    lines = run_in(copied_run, "stair", "verify", "--run", "results/smoke", "--json", check=False).stdout.splitlines()
    assert {json.loads(line)["state"] for line in lines} == {"ok", "missing", "stale"}


def test_the_graph_here_is_snakemakes(finished_run: Path) -> None:
    """Every output, with its rule and the inputs that Snakemake's own rules give it."""
    done = snakemake(finished_run, "--detailed-summary")
    lines = [line.split("\t") for line in done.stdout.splitlines() if "\t" in line]
    header = lines[0]
    inputs_of = {
        row[header.index("output_file")]: set(filter(None, row[header.index("input-file(s)")].split(",")))
        for row in lines[1:]
    }
    rule_of = {row[header.index("output_file")]: row[header.index("rule")] for row in lines[1:]}
    folder = finished_run / "results" / "smoke"
    artifacts = Artifacts(load_run(folder), RunPaths(Path("results/smoke")))
    ours = {str(file): artifact for artifact in artifacts.all for file in artifact.files}
    shards = {name for name in inputs_of if "/work/" in name}
    assert inputs_of.keys() - shards == ours.keys()
    assert {rule_of[name] for name in shards} == {
        output.shards.rule for output in OUTPUTS.values() if output.shards is not None
    }
    for name, artifact in ours.items():
        assert rule_of[name] in artifact.output.rules, name
        theirs = {source for source in inputs_of[name] if "/work/" not in source and "/backbones/" not in source}
        # A seal reads its shards' logs; what the shards read, it was made from.
        expected = {str(source) for source in artifact.inputs}
        # Preflight comes first where a model is used, and is no part of the lineage.
        before = {source for source in theirs - expected if "/preflight/" in source}
        assert theirs - before == expected and (artifact.models or not before), name
        # A seal needs no weights; its shards do.
        if artifact.models and artifact.output.name == "controller":
            assert any("/backbones/" in source for source in inputs_of[name]), name


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


def other_columns(folder: Path) -> None:
    name = f"evaluation/{PLACE}/native.parquet"
    pq.write_table(pq.read_table(folder / name).drop(["verdict"]), folder / name)
    reseal(folder / name)


def other_model(folder: Path) -> None:
    name = f"responses/{PLACE}/native.parquet"
    table = pq.read_table(folder / name)
    index = table.schema.get_field_index("model")
    pq.write_table(table.set_column(index, table.schema.field(index), [["another"] * len(table)]), folder / name)
    reseal(folder / name)


def other_manifest(folder: Path) -> None:
    """The manifest of another output, made to agree with the file."""
    manifest = json.loads((folder / f"{STAIR}.manifest.json").read_text())
    manifest["origin"]["files"][NATIVE] = file_digest(folder / NATIVE)
    (folder / f"{NATIVE}.manifest.json").write_text(json.dumps(manifest))


def another_kind(path: Path) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | {"versions": ["torch"]}))


def on(name: str, change: Callable[[Path], object]) -> Callable[[Path], None]:
    return lambda folder: (change(folder / name), None)[1]


NATIVE, STAIR = f"responses/{PLACE}/native.parquet", f"responses/{PLACE}/stair.parquet"
SCORED, ROLLOUTS = f"evaluation/{PLACE}/native.parquet", f"rollouts/{MODEL}.parquet"
SESSIONS, POOL = f"sessions/training/{MODEL}.parquet", f"data/training/{MODEL}.parquet"
CONTROLLER, WEIGHTS = f"controllers/{MODEL}/stair/controller.safetensors", f"backbones/{MODEL}/model.safetensors"
MANIFEST = f"{ROLLOUTS}.manifest.json"


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


DAMAGES: list[tuple[Callable[[Path], None], str, str, str]] = [
    (on(STAIR, truncate), STAIR, "damaged", "checksum"),
    (on(STAIR, Path.unlink), STAIR, "missing", "does not exist"),
    (on(SCORED, truncate), SCORED, "damaged", "checksum"),
    (on(SCORED, text("")), SCORED, "damaged", "checksum"),
    (other_columns, SCORED, "damaged", "does not have the columns"),
    (other_model, NATIVE, "damaged", "rows of the model 'another'"),
    (swap(NATIVE, STAIR), NATIVE, "damaged", f"is that of responses {MODEL} math500 stair"),
    (on(ROLLOUTS, truncate), ROLLOUTS, "damaged", "checksum"),
    (on(MANIFEST, Path.unlink), ROLLOUTS, "damaged", "the origin is unknown"),
    (on(MANIFEST, text("{")), ROLLOUTS, "damaged", "cannot be read"),
    (on(MANIFEST, text("[]")), ROLLOUTS, "damaged", "cannot be read"),
    (on(MANIFEST, another_kind), ROLLOUTS, "damaged", "cannot be read"),
    (other_manifest, NATIVE, "damaged", f"is that of responses {MODEL} math500 stair"),
    (on(SESSIONS, truncate), SESSIONS, "damaged", "checksum"),
    (on("sessions/evaluation/math500.parquet", Path.unlink), "sessions/evaluation/math500.parquet", "missing", "run"),
    (on(POOL, truncate), POOL, "damaged", "checksum"),
    (on("data/benchmarks/math500.parquet", truncate), "data/benchmarks/math500.parquet", "damaged", "checksum"),
    (on("raw/math500.jsonl", text("{}\n")), "raw/math500.jsonl", "damaged", "checksum"),
    (on(CONTROLLER, truncate), CONTROLLER, "damaged", "checksum"),
    (
        on(WEIGHTS, truncate),
        f"backbones/{MODEL}/config.json",
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
    found = verified(copied_run)
    assert found[file][0] == state
    assert reason in found[file][1]
    assert "stair reproduce --run smoke" in found[file][1]
    assert contents(results, "**/*.*") == before


def empty(path: Path) -> None:
    path.write_bytes(b"")


BY_HAND: list[tuple[str, str, Callable[[Path], object]]] = [
    ("tables --name continuous_summary", SCORED, truncate),
    ("tables --name continuous_summary", f"{SCORED}.manifest.json", empty),
    ("figures --name method", CONTROLLER, truncate),
    ("report", "comparison.csv", empty),
    ("report", "provenance.json", text("{}")),
    ("compare", "tables/continuous_summary.csv", text("artifact\n")),
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
    assert f"is made from a damaged file in results/smoke: {file} " in line
    assert line.endswith("stair reproduce --run smoke")


def test_what_may_not_be_read_is_told(copied_run: Path) -> None:
    results = copied_run / "results/smoke"
    for place, mode in ((ROLLOUTS, 0), (f"{SCORED}.manifest.json", 0), (f"controllers/{MODEL}/lora", 0)):
        (results / place).chmod(mode)
    try:
        found = without_privilege(lambda: verified(copied_run))
    finally:
        (results / f"controllers/{MODEL}/lora").chmod(0o755)
    assert "cannot be read; check its permissions" in found[ROLLOUTS][1]
    assert f"{SCORED}.manifest.json cannot be read; check its permissions" in found[SCORED][1]
    assert "cannot be read; check its permissions" in found[f"controllers/{MODEL}/lora/adapter_config.json"][1]
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


def test_what_was_made_from_something_unsound_is_stale(copied_run: Path) -> None:
    (copied_run / f"results/smoke/rollouts/{MODEL}.parquet").unlink()
    found = verified(copied_run)
    assert found[f"rollouts/{MODEL}.parquet"][0] == "missing"
    assert found[f"controllers/{MODEL}/stair/controller.safetensors"][0] == "stale"
    assert found[f"responses/{PLACE}/stair.parquet"][0] == "stale"
    assert f"responses/{PLACE}/native.parquet" not in found


@pytest.mark.parametrize(
    ("changes", "file", "reason"),
    [
        (
            {"evaluation": {"seed": "other"}},
            f"responses/{PLACE}/vanilla.parquet",
            'evaluation.seed was "evaluation", is "other"',
        ),
        (
            {"models": {MODEL: {"evaluation_changes": {"math500": {"temperature": 0.9}}}}},
            f"responses/{PLACE}/stair.parquet",
            f"models.{MODEL}.evaluation_sampling.temperature was 0.7, is 0.9",
        ),
        ({"training": {"kl": 0.5}}, f"controllers/{MODEL}/stair/controller.safetensors", "training.kl was 1.0, is 0.5"),
        (
            {"conditions": {"native": {"label": "Plain"}}},
            "tables/intervals.csv",
            'conditions.native.label was "Native"',
        ),
    ],
)
def test_a_change_of_mind_is_told_down_to_the_value(copied_run: Path, changes: dict, file: str, reason: str) -> None:
    changed_settings(copied_run, changes)
    found = verified(copied_run)
    assert found[file][0] == "stale"
    assert reason in found[file][1]
    assert ROLLOUTS not in found


def test_other_code_of_a_stage_that_generates_is_a_note_and_other_code_of_the_scorer_is_stale(
    finished_run: Path, tmp_path: Path
) -> None:
    code = tmp_path / "code"
    shutil.copytree(ROOT / "stair", code / "stair", ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("engines/sampling.py", "grading/verdict.py"):
        path = code / "stair" / file
        path.write_text(path.read_text() + "\nADDED = 1\n")
    done = subprocess.run(
        ["stair", "verify", "--run", "results/smoke"],
        cwd=finished_run,
        env=environment() | {"PYTHONPATH": str(code), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    stale = [line for line in lines if line.startswith("stale: evaluation/")]
    assert len(stale) == 3
    assert all("the code that makes it has changed" in line for line in stale)
    assert not any("responses/" in line and not line.startswith("note") for line in lines if "its input" not in line)
    assert any("the code of this generating stage has changed" in line for line in lines if line.startswith("note, of"))


def test_why_goes_back_from_a_table_to_the_data(finished_run: Path) -> None:
    table = f"results/smoke/tables/history_{MODEL}.md"
    text = run_in(finished_run, "stair", "why", table).stdout
    for name in (
        f"evaluation/{PLACE}/stair.parquet", f"responses/{PLACE}/stair.parquet", f"controllers/{MODEL}/stair",
        f"rollouts/{MODEL}.parquet", f"backbones/{MODEL}/config.json", "raw/training_pool.parquet", "transformers",
        "controllers.stair.smoothing", "It becomes stale", "when the code of this stage changes",
    ):  # fmt: skip
        assert name in text, name
    told = json.loads(run_in(finished_run, "stair", "why", table, "--json").stdout)
    assert told["file"] == f"tables/history_{MODEL}.csv"
    assert told["outputs"][f"responses/{PLACE}/stair.parquet"]["settings"]["evaluation.seed"] == "evaluation"
    assert f"rollouts/{MODEL}.parquet" in told["outputs"][f"sessions/training/{MODEL}.parquet"]["inputs"]


def test_why_of_a_controllers_folder_and_of_what_has_a_damaged_manifest_behind_it(copied_run: Path) -> None:
    (copied_run / "results/smoke" / MANIFEST).write_text("[]")
    told = run_in(copied_run, "stair", "why", f"results/smoke/controllers/{MODEL}/stair").stdout
    assert told.startswith(f"{CONTROLLER}, ")
    assert f"{MANIFEST} cannot be read" in told
    as_json = run_in(copied_run, "stair", "why", f"results/smoke/{CONTROLLER}", "--json").stdout
    assert json.loads(as_json)["outputs"][ROLLOUTS]["state"] == "damaged"


def test_a_memo_that_is_damaged_is_made_again(copied_run: Path) -> None:
    memo = copied_run / "results/smoke/work/revisions" / f"{MODEL}.json"
    for text in ("{", "[1]", '{"config.json": 3}'):
        memo.write_text(text)
        assert verified(copied_run) == {}


def test_why_of_a_file_that_is_no_output(finished_run: Path) -> None:
    done = run_in(finished_run, "stair", "why", f"results/smoke/{RESOLVED}", check=False)
    assert done.returncode == 2
    assert "is not an output of the run" in done.stderr
    outside = run_in(finished_run, "stair", "why", str(SMOKE), check=False)
    assert "name the run with --run" in outside.stderr
