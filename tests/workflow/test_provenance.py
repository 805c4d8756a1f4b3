"""What a finished run knows of itself: provenance.json says what is on disk, and a plan from it has its seconds and tokens."""

from __future__ import annotations

import csv
import json
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.paper.claims.detectable import detectable, has_rows
from stair.paper.claims.statements import read_claims
from stair.pipeline.plan import Planner, engine_seconds, measured
from stair.pipeline.provenance import provenance
from stair.records import shards
from stair.records.keys import digest_of, file_digest
from stair.records.manifest import hardware, manifest_files, package_versions, with_checksum
from tests.sealed import seal
from tests.workflow.conftest import SMOKE, run_in

MODEL = "qwen3-4b-instruct"


def test_the_run_in_one_file(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    config = load_run(folder)
    told = json.loads((folder / "provenance.json").read_text())
    assert (told["run"], told["configuration"]) == ("smoke", digest_of(config.model_dump(mode="json")))

    own = [folder / f"{name}.manifest.json" for name in ("provenance.json", "report.html")]
    manifests = [path for path in manifest_files(folder) if path not in own]
    recorded = [json.loads(path.read_text()) for path in manifests]
    files = {name: digest for manifest in recorded for name, digest in manifest["files"].items()}
    assert {name: digest for output in told["outputs"].values() for name, digest in output["files"].items()} == files
    assert {name: file_digest(folder / name) for name in files} == files
    assert "figures/overview.png" in files and f"controllers/{MODEL}/stair" in told["outputs"]
    assert told["versions"] == [{"outputs": len(manifests), "versions": package_versions()}]
    assert [set(found) for found in told["hardware"]] == [{"outputs", "machine"}]
    assert told["hardware"][0]["machine"]["cores"] > 0
    assert told["seeds"]["evaluation.seed"] == "evaluation"
    assert told["seeds"]["controllers.stair.seed"] == "first"
    revision = json.loads((folder / f"preflight/{MODEL}.json").read_text())["model_revision"]
    assert set(told["models"][MODEL]["contents"]) == {revision}
    assert told["data_sets"]["math500"]["sha256"] == file_digest(folder / "raw/math500.jsonl")

    generated = told["costs"]["generated"]
    rollouts = pq.read_table(folder / f"rollouts/{MODEL}.parquet")
    assert generated[f"rollouts/{MODEL}"]["response_tokens"] == sum(rollouts["response_tokens"].to_pylist())
    vanilla, native = (generated[f"responses/{MODEL}/math500/{name}"]["responses"] for name in ("vanilla", "native"))
    assert (vanilla, native) == (32, 96), "a T1 that native shows is vanilla's, and generated once"
    native_manifest = json.loads((folder / f"responses/{MODEL}/math500/native.parquet.manifest.json").read_text())
    assert native_manifest["responses"] == native
    assert generated["all"]["responses"] == len(rollouts) + 32 + 2 * 96 + 5 * 32
    sealed = [each for each in recorded if each["rule"] == "seal_rollouts"]
    assert [each["generated"] for each in sealed] == [len(rollouts)]
    seconds = sum(each["seconds"] + each["generating_seconds"] for each in sealed)
    assert told["costs"]["rules"]["seal_rollouts"] == {"outputs": 1, "seconds": round(seconds, 1)}
    assert (
        all(each["generating_seconds"] > 0 for each in sealed)
        and told["costs"]["rules"]["preflight_model"]["seconds"] > 0
    )
    assert list(told["devices"]) == ["cpu"]


def test_hardware_and_seconds_are_those_of_the_shards_and_not_of_the_seal(
    finished_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = finished_run / "results" / "smoke"
    for name in (
        f"rollouts/{MODEL}.parquet",
        f"responses/{MODEL}/math500/native.parquet",
        f"replay/{MODEL}/states.sha256",
    ):
        assert json.loads((folder / f"{name}.manifest.json").read_text())["generated_on"] == [hardware()]

    paths, output = RunPaths(tmp_path), tmp_path / "rollouts" / "m.parquet"
    log, other = paths.work("rollouts", "m", "log"), tmp_path / "other"
    nodes = [{"processor": f"of node {number}"} for number in range(4)]
    attempts = [(log, "a", 0, 4), (log, "b", 1, 4), (log, "a", 0, 4), (log, "failed at once", 3, 0), (other, "c", 2, 9)]
    for work, code, node, generated in attempts:
        monkeypatch.setattr(shards, "hardware", lambda node=nodes[node]: node)
        monkeypatch.setattr(shards, "time", SimpleNamespace(monotonic=iter((0.0, 2.5)).__next__))
        with shards.recorded_attempt(work, shards.Shard(0, 1, code), lambda generated=generated: generated):
            pass
        monkeypatch.undo()
    with pytest.raises(KeyboardInterrupt), shards.recorded_attempt(log, shards.Shard(0, 1, "d"), lambda: 1):
        raise KeyboardInterrupt
    output.parent.mkdir()
    output.write_text("rows")
    with shards.recorded_attempt(log, shards.Shard(0, 1, "of other responses"), lambda: 7, "0.log"):
        pass
    facts = shards.generating_facts(log, {log / "1.log", other / "0.log"})
    assert (facts["generated_by"], facts["generated"]) == (["a", "b", "c", "d"], 13)
    assert shards.generating_facts(log)["generated"] == 20
    seal(paths, "seal_rollouts", output, **facts)
    summary = provenance(load_run(folder), paths)
    assert [each["machine"] for each in summary["hardware"]] == [*nodes[:2], hardware(), nodes[2]]
    assert [each["source"] for each in summary["code"]] == ["a", "b", "c", "d"]
    assert summary["costs"]["rules"]["seal_rollouts"]["seconds"] == pytest.approx(7.5, abs=0.5)


def test_the_command_leaves_a_finished_run_as_it_is(copied_run: Path) -> None:
    file = copied_run / "results/smoke/provenance.json"
    before = file.read_bytes(), file.stat().st_mtime_ns
    run_in(copied_run, "stair", "provenance", "--run", "results/smoke")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert "0 missing, 0 damaged, 0 stale" in run_in(copied_run, "stair", "verify", "--run", "results/smoke").stdout


def test_an_output_with_a_damaged_manifest_is_null(copied_run: Path) -> None:
    folder = copied_run / "results" / "smoke"
    (folder / f"controllers/{MODEL}/stair/folder.manifest.json").write_text("{")
    (folder / "checks.csv.manifest.json").write_text("[]")
    outputs = provenance(load_run(folder), RunPaths(folder))["outputs"]
    assert {name for name, output in outputs.items() if output is None} == {f"controllers/{MODEL}/stair", "checks.csv"}


@pytest.mark.parametrize("damage", [False, True])
def test_an_output_that_is_made_again_tells_of_this_time(copied_run: Path, damage: bool) -> None:
    folder = copied_run / "results" / "smoke"
    path = folder / "tables/continuous_summary.csv.manifest.json"
    sound = json.loads(path.read_text())
    before = sound | {"sealed": "2020-01-01T00:00:00Z", "source": "0" * 64, "versions": {"torch": "1.0"}}
    path.write_text("{" if damage else json.dumps(with_checksum(before)))
    run_in(copied_run, "stair", "table", "--run", "results/smoke", "--table", "continuous_summary")
    now = json.loads(path.read_text())
    assert now["sealed"] > before["sealed"]
    own = {"sealed": "", "seconds": 0.0, "sha256": ""}  # the times, and the checksum of all the rest
    assert now | own == sound | own


def test_a_plan_from_a_run_has_the_runs_seconds_and_tokens(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    config, paths = load_run(folder), RunPaths(folder)
    works = Planner(config, paths, measured(config, paths)).works()
    planned, spent = defaultdict[str, float](float), defaultdict[str, float](float)
    for work in works:
        planned[work.stage] += 3600 * work.hours
    for (stage, _), seconds in engine_seconds(paths).items():
        spent[stage] += seconds
    assert planned == pytest.approx(spent)

    generated = json.loads(paths.provenance.read_text())["costs"]["generated"]["all"]
    answers = [work for work in works if work.stage in ("rollouts", "evaluation")]
    assert sum(work.responses for work in answers) == generated["responses"]
    assert sum(work.tokens for work in answers) == pytest.approx(generated["response_tokens"])


def test_the_plan_lacks_what_the_runs_claims_lack(finished_run: Path) -> None:
    folder = finished_run / "results" / "smoke"
    config, paths = load_run(folder), RunPaths(folder)
    with open(folder / "claims.csv", encoding="utf-8") as file:
        not_run = {int(row["claim"]) for row in csv.DictReader(file) if row["part"] and row["verdict"] == "not run"}
    claims = [claim for claim in read_claims() if has_rows(claim)]
    planned = detectable(config, Planner(config, paths).problems(), claims)
    lacking = {number for number, each in planned.items() if each.gaps}
    assert lacking == not_run & set(planned)
    assert 0 < len(lacking) < len(planned)


def test_the_command_writes_nothing_and_refuses_an_unfinished_run(tmp_path: Path, finished_run: Path) -> None:
    before = sorted(finished_run.rglob("*"))
    lines = run_in(finished_run, "stair", "plan", "--run", str(SMOKE), "--from", "results/smoke").stdout.splitlines()
    assert any(line.startswith("all ") for line in lines)
    assert sorted(finished_run.rglob("*")) == before

    config = load_run(finished_run / "results" / "smoke")
    with pytest.raises(ValueError, match="--from needs a finished run"):
        measured(config, RunPaths(tmp_path))
