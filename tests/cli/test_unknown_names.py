"""A name that the run does not have is one line with the names that it has, whichever command is given it."""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
import pytest

from stair.cli.main import main
from stair.config.paths import RunPaths
from stair.config.resolve import RESOLVED, dump, resolve
from stair.pipeline import job_inputs
from stair.pipeline.job_inputs import checked_digests, files_of
from stair.pipeline.jobs import settings_of
from stair.records.manifest import Origin, write_manifest
from tests.listed import listed_once
from tests.workflow.conftest import ROOT

MODELS = "qwen3-4b-instruct, qwen3.5-4b, qwen3.5-9b"
PLACE = ("--model", "qwen3.5-4b", "--benchmark")


def refused(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """The one line with which a command ends."""
    monkeypatch.setattr(job_inputs, "list_jobs", listed_once)
    monkeypatch.setattr(sys, "argv", ["stair", *words])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("stair: error: ")
    return line


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run that has only been resolved; nobody may change it."""
    results = tmp_path_factory.mktemp("results")
    (run := results / "tiny").mkdir()
    (run / RESOLVED).write_text(dump(resolve(ROOT, {"run": "tiny", "results": str(results)})))
    return run


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (("raw", "--name", "nothing"), "training_pool, math500, aime2025, amc23, gpqa_diamond"),
        (("training-pool", "--model", "nothing"), MODELS),
        (("benchmark", "--benchmark", "nothing"), "math500, aime2025, amc23, gpqa_diamond"),
        (("preflight-model", "--model", "nothing"), MODELS),
        (("rollout-shard", "--model", "nothing"), MODELS),
        (("seal-rollouts", "--model", "nothing"), MODELS),
        (("training-sessions", "--model", "nothing"), MODELS),
        (("evaluation-sessions", "--benchmark", "nothing"), "math500, aime2025, amc23, gpqa_diamond"),
        (("train-controller", "--model", "nothing", "--controller", "stair"), MODELS),
        (("train-controller", "--model", "qwen3.5-4b", "--controller", "nothing"), "stair, bank_free"),
        (("evaluation-shard", *PLACE, "math500", "--condition", "nothing"), "vanilla, native, stair"),
        (("seal-evaluation", *PLACE, "math500", "--condition", "nothing"), "vanilla, native, stair"),
        (("score-condition", *PLACE, "nothing", "--condition", "native"), "math500, aime2025, amc23, gpqa_diamond"),
        (("score-condition", *PLACE, "math500", "--condition", "t1"), "vanilla, native, stair"),
        (("score-condition", *PLACE, "aime2025", "--condition", "shared_t1/vanilla"), "shared_t1/t1, shared_t1/native"),
        (("replay-statistics", "--model", "qwen3.5-4b", "--part", "nothing"), "attention, geometry, read_prediction"),
        (("table", "--table", "nothing"), "continuous_summary, "),
        (("figure", "--figure", "nothing"), "overview"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_an_unknown_name_is_one_line(
    run: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    known: str,
) -> None:
    line = refused(monkeypatch, capsys, words[0], "--run", str(run), *words[1:])
    assert known in line and any(f"'{word}' (it has: " in line for word in words)
    assert [path.name for path in run.iterdir()] == [RESOLVED], "nothing was made"


@pytest.mark.parametrize(
    "words",
    [
        ("benchmark", "--benchmark", "math500"),
        ("training-pool", "--model", "qwen3.5-4b"),
        ("data-report",),
        ("evaluation-sessions", "--benchmark", "math500"),
        ("seal-rollouts", "--model", "qwen3.5-4b"),
        ("train-controller", "--model", "qwen3.5-4b", "--controller", "stair"),
        ("seal-evaluation", *PLACE, "math500", "--condition", "native"),
        ("score-condition", *PLACE, "math500", "--condition", "native"),
        ("check",),
        ("table", "--table", "continuous_summary"),
    ],
    ids=" ".join,
)
def test_a_missing_input_names_the_command_that_makes_it(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    line = refused(monkeypatch, capsys, words[0], "--run", str(run), *words[1:])
    assert f"{run}/" in line and line.endswith(f" needs it; to make it: stair reproduce --run {run}")


def test_a_job_that_the_run_does_not_have_is_refused(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The model, the benchmark and the condition exist, but not together."""
    place = ("--run", str(run), "--model", "qwen3.5-9b")
    line = refused(monkeypatch, capsys, "seal-evaluation", *place, "--benchmark", "math500", "--condition", "lora")
    asked = "seal_evaluation qwen3.5-9b math500 lora"
    assert line == f"stair: error: the run has no {asked}; `conditions` says where a condition is evaluated"
    line = refused(monkeypatch, capsys, "replay-design", *place)
    remedy = f"its jobs are listed by: stair status --json --run {run}"
    assert line.endswith(f"the run has no replay_design qwen3.5-9b; {remedy}")


def test_a_command_by_hand_has_the_files_of_its_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Snakemake names them, or the manifest of the output that is there, if its settings are the present ones.

    A seal reads the logs of its shards, so the shards' completion markers are none.
    """
    config = resolve(ROOT, {"run": "tiny", "results": str(tmp_path)})
    paths, model = RunPaths.of(config), {"model": "qwen3.5-4b"}
    paths.folder.mkdir()
    paths.resolved.write_text(dump(config))
    files = [paths.training_pool("qwen3.5-4b"), paths.preflight("qwen3.5-4b")]
    output = [paths.rollouts("qwen3.5-4b")]
    assert files_of(config, paths, "seal_rollouts", model) == (files, output)
    monkeypatch.setattr(job_inputs, "list_jobs", listed_once)
    assert files_of(config, paths, "raw", {"name": "math500"}) == ([], [paths.raw("math500", ".jsonl")])
    for file in (*files, *output):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    origin = Origin.now(
        checked_digests(config, paths, files[1:]), settings_of(config, "seal_rollouts", model), "0" * 64
    )
    write_manifest(paths.folder, output, rule="seal_rollouts", wildcards=model, origin=origin)
    assert files_of(config, paths, "seal_rollouts", model) == (files[1:], output)
    changed = resolve(ROOT, {"run": "tiny", "results": str(tmp_path), "rollouts": {"seed": "another"}})
    assert files_of(changed, paths, "seal_rollouts", model) == (files, output)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("reproduce", "--target", "tabels"), "there is no stage 'tabels' (stages: all, fetch, "),
        (("reproduce", "--set", "run=smoke"), "name it with --run smoke"),
        (("config", "--set", "run=smoke"), "name it with --run smoke"),
    ],
)
def test_a_run_that_does_not_start_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(ROOT)
    assert message in refused(monkeypatch, capsys, *words, "--set", f"results={tmp_path}")
    assert not list(tmp_path.iterdir()), "nothing was made"


RUN = "name a run's folder (for example results/tiny), or make it: stair reproduce --run RUN"


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (("tables", "--out", "out", "--responses"), "give the folder that contains evaluation/"),
        (("export", "--out", "out", "--run"), RUN),
        (("plan", "--from"), RUN),
    ],
)
@pytest.mark.parametrize("given", ["absent", "file.csv", "empty"])
def test_a_wrong_folder_is_named_with_the_right_one(
    words: tuple[str, ...],
    remedy: str,
    given: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file.csv").touch()
    Path("empty").mkdir()
    line = refused(monkeypatch, capsys, *words, given)
    if words[0] != "tables" and given == "absent":
        assert "run 'absent' does not exist: there is no " in line, "it may be the name of a run"
        return
    what = (
        ("is not a run's folder: it has no", "has no response rows") if given == "empty" else ("is not a folder",) * 2
    )
    assert f": {given} {what[words[0] == 'tables']}" in line and remedy in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file.csv"], "nothing is written"


@pytest.mark.parametrize("command", ["export", "paper", "status", "verify"])
def test_a_run_is_named_by_its_overlay_its_name_or_its_folder(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its files are where its configuration says; here are none yet."""
    monkeypatch.chdir(tmp_path)
    Path("mine.yaml").write_text("extends: smoke\nresults: far/away\n")
    for run, folder in {
        "mine.yaml": "far/away/mine",
        "smoke": "results/smoke",
        "far/away/other": "far/away/other",
        ".": ".",
    }.items():
        line = refused(monkeypatch, capsys, command, "--run", run)
        assert line.startswith(f"stair: error: {folder} is not a ")


def test_a_folder_of_other_parquet_files_is_refused_with_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evaluation/qwen3.5-4b/math500/stair.parquet"
    file.parent.mkdir(parents=True)
    words = ("tables", "--out", str(tmp_path / "out"), "--responses", str(tmp_path))
    file.write_text("text")
    line = refused(monkeypatch, capsys, *words)
    assert f"{file} cannot be read as Parquet" in line and "restore it, or remove it from the folder" in line
    pd.DataFrame({"model": ["qwen3.5-4b"]}).to_parquet(file)
    line = refused(monkeypatch, capsys, *words)
    assert f"{file} lacks the columns benchmark, " in line and "`stair reproduce --target scores` writes" in line


def test_a_setting_within_a_section_has_dots_or_is_yaml(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = refused(monkeypatch, capsys, "config", "--set", "evaluation..samples=8")
    assert line.endswith("such as --set evaluation.samples=8, not 'evaluation..samples=8'")
    for setting in ("evaluation.samples=8", "evaluation={samples: 8}"):
        monkeypatch.setattr(sys, "argv", ["stair", "config", "--set", setting, "--key", "evaluation.samples"])
        with pytest.raises(SystemExit, match="0"):
            main()
        assert capsys.readouterr().out == "8\n"
