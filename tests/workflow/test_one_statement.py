"""The graph is said once: an edge that is deleted there is gone everywhere, and a new stage is four places."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.workflow.conftest import ROOT, SMOKE, environment, jobs_of

pytestmark = [pytest.mark.xdist_group("workflow"), pytest.mark.timeout(300)]
MODEL = "qwen3-4b-instruct"
PLACE = f"{MODEL}/math500"
OUTPUTS, MADE_FROM = "stair/graph/outputs.py", "stair/graph/made_from.py"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of the code and of the workflow, to be changed."""
    folder = tmp_path / "project"
    for name in ("stair", "snakemake_logger_plugin_stair", "workflow", "profiles", "envs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "config.yaml"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def call(project: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command of the copy in a run's folder."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=environment() | {"PYTHONPATH": str(project), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(words)}\n{done.stdout}\n{done.stderr}"
    return done


def snakemake(project: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    tail = ("--config", f"run={SMOKE}")
    return call(project, folder, "snakemake", "--snakefile", str(project / "Snakefile"), *words, *tail)


def replace(path: Path, before: str, after: str) -> None:
    text = path.read_text()
    assert text.count(before) == 1, f"{path} says {before!r} {text.count(before)} times"
    path.write_text(text.replace(before, after))


def seen_by_snakemake(project: Path, folder: Path, file: str) -> set[str]:
    """The inputs of a file's job in a dry run, from the run's folder; a summary has those of the run that wrote it."""
    told = snakemake(project, folder, "-n", "--force", f"results/smoke/{file}")
    jobs = re.split("^(?:local)?rule ", told.stdout + told.stderr, flags=re.M)
    (job,) = [job for job in jobs if f"    output: results/smoke/{file}" in job]
    (inputs,) = re.findall("^    input: (.*)$", job, flags=re.M)
    return {name.strip().removeprefix("results/smoke/") for name in inputs.split(",")}


def seen_by_why(project: Path, folder: Path, file: str) -> set[str]:
    told = json.loads(call(project, folder, "stair", "why", f"results/smoke/{file}", "--json").stdout)
    return set(told["outputs"][told["file"]]["inputs"])


@pytest.mark.parametrize(
    ("edge", "file", "source"),
    [
        (
            '        "sessions": [paths.evaluation_sessions(benchmark)],\n',
            f"responses/{PLACE}/stair.parquet",
            "sessions/evaluation/math500.parquet",
        ),
        (
            '"rollouts": [run.paths.rollouts(model)]',
            f"sessions/training/{MODEL}.parquet",
            f"rollouts/{MODEL}.parquet",
        ),
    ],
    ids=["responses", "training_sessions"],
)
def test_a_deleted_edge_is_gone_for_snakemake_and_for_why(
    finished_run: Path, project: Path, edge: str, file: str, source: str
) -> None:
    assert source in seen_by_snakemake(project, finished_run, file)
    assert source in seen_by_why(project, finished_run, file)
    replace(project / MADE_FROM, edge, "")
    assert source not in seen_by_snakemake(project, finished_run, file)
    assert source not in seen_by_why(project, finished_run, file)


RULES = """
localrules:
    toy,


rule toy:
    input:
        all_of("toy"),


rule count_endings:
    input:
        unpack(made_from("toy")),
    output:
        files_of("toy"),
    log:
        str(paths.log("toy", "{model}")),
    benchmark:
        str(paths.timing("count_endings", "{model}"))
    params:
        run=run_folder,
        settings=settings_of("toy"),
    shell:
        "python -m stair.toy {params.run} {wildcards.model} > {log} 2>&1"
"""
STAGE = """
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq

from stair.cli.context import open_run, record_origin
from stair.graph.artifacts import Artifacts
from stair.records.files import write_text
from stair.jobs.progress import Progress

run, model = Path(sys.argv[1]), sys.argv[2]
config, paths = open_run(run)
(output,) = Artifacts(config, paths).of("toy", model)
told = Progress(paths.progress, f"toy/{model}", len(output.inputs), "tables")
counts = Counter()
for file in output.inputs:
    counts.update(pq.read_table(file, columns=["finish_reason"])["finish_reason"].to_pylist())
    told.advance()
write_text(output.files[0], "".join(f"{reason},{count}\\n" for reason, count in sorted(counts.items())))
record_origin(run, "toy", model)
"""
SETTINGS = '''

def toy(config: Config, model: str) -> Settings:
    """Of the toy stage."""
    return {f"models.{model}.label": config.models[model].label}
'''
ENTRY = """        OutputKind(
            "toy",
            rules=("count_endings",),
            target="toy",
            wildcards=("model",),
            jobs=lambda run: [(model,) for model in run.config.models],
            files=lambda run, model: [run.paths.folder / "toy" / f"{model}.csv"],
            made_from=lambda run, model: {"rows": [run.paths.responses(*job) for job in run.evaluated if job[0] == model]},
            settings=lambda run, model: settings.toy(run.config, model),
            stage_writes_manifest=False,
            work="toy/{model}",
        ),
"""
LAST = '        OutputKind(\n            "provenance",\n'


def test_a_new_stage_is_its_rules_its_folder_its_settings_and_one_entry(copied_run: Path, project: Path) -> None:
    (project / "workflow/rules/toy.smk").write_text(RULES)
    (project / "stair/toy").mkdir()
    (project / "stair/toy/__init__.py").touch()
    (project / "stair/toy/__main__.py").write_text(STAGE)
    params = project / "stair/graph/settings.py"
    params.write_text(params.read_text() + SETTINGS)
    replace(project / OUTPUTS, LAST, ENTRY + LAST)
    results, file = copied_run / "results/smoke", f"toy/{MODEL}.csv"

    # Everything that reads the graph knows it, before it is there and after.
    summary = {"provenance": 1, "all": 1}
    assert jobs_of(snakemake(project, copied_run, "-n")).items() >= ({"count_endings": 1} | summary).items()
    missing = subprocess.run(
        ["stair", "verify", "--run", "results/smoke"],
        cwd=copied_run,
        env=environment() | {"PYTHONPATH": str(project)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert f"missing: {file}: {file} does not exist" in missing.stdout
    status = json.loads(call(project, copied_run, "stair", "status", "--run", "results/smoke", "--json").stdout)
    assert [job["state"] for job in status["jobs"] if job["name"] == f"toy/{MODEL}"] == ["waiting"]

    snakemake(project, copied_run, "toy")
    assert sum(int(line.split(",")[1]) for line in (results / file).read_text().splitlines()) == 32 + 2 * 128
    status = json.loads(call(project, copied_run, "stair", "status", "--run", "results/smoke", "--json").stdout)
    assert [job["state"] for job in status["jobs"] if job["name"] == f"toy/{MODEL}"] == ["done"]
    assert f"responses/{PLACE}/native.parquet" in seen_by_why(project, copied_run, file)

    snakemake(project, copied_run)
    assert jobs_of(snakemake(project, copied_run, "-n")) == {}
    verified = call(project, copied_run, "stair", "verify", "--run", "results/smoke").stdout
    assert "0 missing, 0 damaged, 0 stale" in verified
    assert file in json.loads((results / "provenance.json").read_text())["outputs"]

    # It runs again when its settings change, and when a file that it is made from does.
    done = call(
        project, copied_run, "snakemake", "--snakefile", str(project / "Snakefile"), "-n", "toy",
        "--config", f"run={SMOKE}", f"models={{{MODEL}: {{label: Another}}}}",
    )  # fmt: skip
    assert jobs_of(done) == {"count_endings": 1, "toy": 1}
    rows = results / f"responses/{PLACE}/native.parquet"
    pq.write_table(pq.read_table(rows), rows, compression="gzip")
    assert jobs_of(snakemake(project, copied_run, "-n", "toy")) == {"count_endings": 1, "toy": 1}
