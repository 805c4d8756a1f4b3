"""The rules: what each has, which stage asks for its outputs, and what no list of files may contain."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.pipeline.inputs import RuleInputs, stages_of
from stair.pipeline.job_list import ListedJob
from stair.pipeline.resources import FETCH_RULES
from stair.pipeline.rule_settings import RULE_SETTINGS
from stair.pipeline.stage_rules import PROGRESS, STAGE_OF, STAGES
from tests.listed import ROOT, listed

RUNS = ("tiny", "paper", "smoke", "shapes")
UNTIMED = {"provenance"}
"""Rules without a timing: provenance sums the timings up."""


def rules() -> dict[str, str]:
    """The text of every rule with a command, by its name."""
    text = "\n".join(file.read_text(encoding="utf-8") for file in sorted((ROOT / "workflow" / "rules").glob("*.smk")))
    blocks = re.split(r"^ *(?=(?:use )?rule \w+)", text, flags=re.MULTILINE)[1:]
    named = {re.search(r"(\w+)(?: with)?:", block)[1]: block for block in blocks}  # type: ignore[index]
    assert len(named) == len(blocks), "no two have one name"
    return {name: block for name, block in named.items() if "shell:" in block or block.startswith("use")}


RULES = rules()


def test_every_rule_has_settings_and_a_stage() -> None:
    assert set(RULES) - set(FETCH_RULES) == RULE_SETTINGS.keys() == STAGE_OF.keys()
    assert len(STAGE_OF) == sum(map(len, STAGES.values())), "a rule is in one stage"
    assert PROGRESS.keys() <= STAGE_OF.keys()


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule not in FETCH_RULES])
def test_a_rule_has_its_own_settings_resources_and_timing(rule: str) -> None:
    """A name of another rule would be no error of Snakemake's."""
    calls = re.findall(r'\b(requested|settings_of|timing)\(\s*"(\w+)"', RULES[rule])
    expected = {("requested", rule), ("settings_of", rule), ("timing", rule)}
    assert set(calls) == expected - ({("timing", rule)} if rule in UNTIMED else set())


@pytest.mark.parametrize("rule", [rule for rule, text in RULES.items() if text.startswith("rule")])
def test_a_rule_has_a_log_and_gives_its_inputs_to_the_command(rule: str) -> None:
    text = RULES[rule]
    keys = set(re.findall(r"^ +(\w+):$", text, re.MULTILINE))
    assert keys >= {"log", "shell"} | ({"output"} if rule != "fetch" else set())
    if rule not in FETCH_RULES:
        (lines,) = re.findall(r'^ +shell:\n((?: +".*"\n)+)', text, re.MULTILINE)
        command = "".join(re.findall(r'"(.*)"\n', lines))
        assert command.startswith(("stair ", "{WORKERS}stair ")) and command.endswith(" > {log:q} 2>&1")
        assert ("input" in keys) == ("{input:q}" in command), "a manifest has the inputs that the rule names"


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
    """Else a deleted file would stay away. Generated data sets and shards are made where another job needs them."""
    config = resolve(ROOT, {"run": run})
    inputs, made = RuleInputs(config, RunPaths(Path())), {stage: set[str]() for stage in STAGES}
    for job in listed(run):
        if job.rule not in ("raw", *FETCH_RULES) and not job.rule.endswith("_shard"):
            made[STAGE_OF[job.rule]].update(job.outputs)
    stages = stages_of(config)
    assert made == {stage: set(map(str, inputs.stage_files(stage))) if stage in stages else set() for stage in STAGES}
    assert set(map(str, inputs.target("all"))) == set().union(*made.values())


def test_every_result_leads_to_the_report(run: str) -> None:
    """An output that nothing reads would be missing in the run's provenance."""
    read = {file for job in listed(run) for file in job.inputs}
    assert {job.rule for job in listed(run) if not read & set(job.outputs)} == {"report"}


def test_jobs_share_no_log_and_no_progress(run: str) -> None:
    logs = Counter(log for job in listed(run) for log in job.log)
    told = Counter(PROGRESS[job.rule].format(**job.wildcards) for job in listed(run) if job.rule in PROGRESS)
    assert {name for name, count in (logs + told).items() if count > 1} == set()
    assert all(job.log for job in listed(run))
    assert told, "some job reports how far it is"


GENERATING = [
    *("rollout_shard", "seal_rollouts", *STAGES["training"], "evaluation_shard", "seal_evaluation"),
    *(*STAGES["controls"], "replay_design", "replay_shard", "seal_replay", "measure_runtime"),
]
"""The rules whose outputs come from a model."""


def test_nothing_that_generates_or_trains_needs_a_scored_file(run: str) -> None:
    """The scorer can change without a GPU being asked again."""
    generating = [job for job in listed(run) if job.rule in GENERATING]
    assert {job.rule for job in generating} >= ({"measure_runtime"} if run == "shapes" else set(GENERATING))
    for job in generating:
        assert not [needed.rule for needed in behind(run, job) if STAGE_OF.get(needed.rule) in ("scores", "check")], job


def test_nothing_is_generated_before_preflight_has_seen_the_model_and_its_prompts(run: str) -> None:
    for job in listed(run):
        if job.rule not in GENERATING or run == "shapes":  # random weights
            continue
        model = job.wildcards["model"]
        assert f"preflight/{model}.json" in job.inputs, job
        if job.rule.endswith("_shard"):
            prompts = "training_pool" if job.rule == "rollout_shard" else job.wildcards.get("benchmark", "math500")
            assert f"preflight/limits/{model}/{prompts}.json" in job.inputs, job


def test_only_preflight_reads_the_weights(run: str) -> None:
    """All others have its record as their model, so touched or moved files of the same content make nothing stale."""
    readers = {job.rule for job in listed(run) for file in job.inputs if Path(file).name == "model.safetensors"}
    assert readers <= {"preflight_model", "provenance"}
    assert ("preflight_model" in readers) == (run in ("tiny", "smoke"))


def test_expected_seconds_name_rules(run: str) -> None:
    assert resolve(ROOT, {"run": run}).expected_seconds.keys() <= STAGE_OF.keys()
