"""The rules: what each has, which stage asks for its outputs, and what no list of files may contain."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from inspect import signature
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.pipeline.inputs import RuleInputs
from stair.pipeline.job_list import ListedJob
from stair.pipeline.jobs import JOBS, SHARED_CODE, STAGES, imported, stage_files, stages_of
from tests.listed import ROOT, listed

RUNS = ("tiny", "paper", "smoke", "shapes")


def rules() -> dict[str, str]:
    """The text of every rule with a command, by its name."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    blocks = re.split(r"^ *(?=rule\b.*:$)", text, flags=re.MULTILINE)[1:]
    named = [(block.removeprefix("rule").partition(":")[0].strip(), block) for block in blocks]
    trained = re.findall(r'^    "(\w+)": \(', text, re.MULTILINE)  # one rule in a loop
    named += [(name, block.replace("RULE", f'"{name}"')) for rule, block in named if not rule for name in trained]
    found = dict(named)
    assert len(found) == len(named), "no two have one name"
    return {name: block for name, block in found.items() if name and "shell:" in block}


FETCH_RULES = ("fetch", "fetch_hub")
RULES = rules()


def test_every_rule_has_a_row() -> None:
    assert set(RULES) - set(FETCH_RULES) == JOBS.keys()


@pytest.mark.parametrize("rule", JOBS)
def test_a_row_names_functions_and_settings_of_its_wildcards(rule: str) -> None:
    row = JOBS[rule]
    more = ("shard",) if row.is_shard else ()
    for function in filter(None, (row.run, row.after)):
        parameters = signature(imported(function)).parameters
        needed = [name for name, each in parameters.items() if each.default is each.empty]
        assert needed == ["config", "paths", *row.names, *(more if function == row.run else ())]
    for function in (row.settings, *filter(None, [row.engine])):
        parameters = signature(function).parameters
        assert set(row.names) <= parameters.keys() or any(each.kind is each.VAR_KEYWORD for each in parameters.values())


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in FETCH_RULES])
def test_a_rule_has_its_own_settings(rule: str) -> None:
    """A name of another rule would be no error of Snakemake's."""
    calls = re.findall(r'\b(settings_of|job)\(\s*"(\w+)"', RULES[rule])
    assert set(calls) == {(each, rule) for each in ("settings_of", "job")}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_a_log_and_an_output(rule: str) -> None:
    keys = set(re.findall(r"^ +(\w+):$", RULES[rule], re.MULTILINE))
    assert keys >= {"log", "shell"} | ({"output"} if rule != "fetch" else set())


@pytest.fixture(params=RUNS)
def run(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


def written_by(run: str) -> dict[str, ListedJob]:
    return {file: job for job in listed(run) for file in job.outputs}


def behind(run: str, job: ListedJob) -> list[ListedJob]:
    """The jobs that a job needs, directly or through others."""
    makers, found, waiting = written_by(run), {}, [job]
    while waiting:
        for file in waiting.pop().inputs:
            maker = makers.get(file)
            if maker is not None and id(maker) not in found:
                found[id(maker)] = maker
                waiting.append(maker)
    return list(found.values())


def test_a_stage_asks_for_every_output_of_its_rules(run: str) -> None:
    """Else a deleted file would stay away. Shards are made where their seal needs them."""
    config = resolve(ROOT, {"run": run})
    paths, made = RunPaths(Path()), {stage: set[str]() for stage in STAGES}
    for job in listed(run):
        if job.rule not in FETCH_RULES and not job.rule.endswith("_shard"):
            made[JOBS[job.rule].stage].update(job.outputs)
    stages = stages_of(config)
    files = {stage: {*map(str, stage_files(config, paths, stage))} if stage in stages else set() for stage in STAGES}
    assert made == files
    assert set(map(str, RuleInputs(config, paths).target("all"))) == set().union(*made.values())


def test_every_result_leads_to_the_report(run: str) -> None:
    """An output that nothing reads would be missing in the run's provenance."""
    read = {file for job in listed(run) for file in job.inputs}
    assert {job.rule for job in listed(run) if not read & set(job.outputs)} == {"report"}


def test_jobs_share_no_log_and_no_progress(run: str) -> None:
    logs = Counter(log for job in listed(run) for log in job.log)
    told = Counter(
        row.progress.format(**job.wildcards)
        for job in listed(run)
        if job.rule in JOBS and (row := JOBS[job.rule]).progress
    )
    assert {name for name, count in (logs + told).items() if count > 1} == set()
    assert all(job.log for job in listed(run))
    assert told, "some job reports how far it is"


GENERATING = [
    *("rollout_shard", "seal_rollouts", *STAGES["training"], "evaluation_shard", "seal_evaluation"),
    *("replay_design", "replay_shard", "seal_replay", "measure_runtime"),
]
"""The rules whose outputs come from a model."""


def test_nothing_that_generates_or_trains_needs_a_scored_file(run: str) -> None:
    """The scorer can change without a GPU being asked again."""
    generating = [job for job in listed(run) if job.rule in GENERATING]
    assert {job.rule for job in generating} >= ({"measure_runtime"} if run == "shapes" else set(GENERATING))
    for job in generating:
        assert not [
            needed.rule
            for needed in behind(run, job)
            if needed.rule in JOBS and JOBS[needed.rule].stage in ("scores", "check")
        ], job


def test_nothing_is_generated_before_preflight_has_seen_the_model(run: str) -> None:
    for job in listed(run):
        if job.rule not in GENERATING or run == "shapes":  # random weights
            continue
        model = job.wildcards["model"]
        assert f"preflight/{model}.json" in job.inputs, job


def test_only_preflight_reads_the_weights(run: str) -> None:
    """All others have its record as their model, so touched or moved files of the same content make nothing stale."""
    readers = {job.rule for job in listed(run) for file in job.inputs if Path(file).name == "model.safetensors"}
    assert readers <= {"preflight_model", "provenance"}
    assert ("preflight_model" in readers) == (run in ("tiny", "smoke"))


def test_the_fingerprint_of_a_stage_has_every_folder_that_stages_share() -> None:
    """All below the stages, except `statistics`: a change of a table's number marks no response."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["id"] == "layers")
    below = layers[layers.index("stages") + 1 :]
    assert set(SHARED_CODE) == {f"stair.{name}" for name in below if name != "statistics"}
