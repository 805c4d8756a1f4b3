"""The table of outputs by itself: an order, no file twice, and names that the display and the profiles use."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import resolve
from stair.graph.artifacts import Artifacts
from stair.graph.outputs import OUTPUTS
from stair.graph.run import Run

ROOT = Path(__file__).parents[2]


@pytest.fixture(params=["tiny", "paper", "smoke", "shapes"])
def config(request: pytest.FixtureRequest, tmp_path: Path) -> Config:
    name = request.param
    return resolve(ROOT, {"run": str(ROOT / name) if "/" in name else name, "results": str(tmp_path)})


def test_every_output_comes_after_those_that_it_is_made_from(config: Config) -> None:
    artifacts = Artifacts(config, RunPaths.of(config)).all
    written = {file for artifact in artifacts for file in artifact.files}
    known: set[Path] = set()
    for artifact in artifacts:
        assert written.intersection(artifact.inputs) <= known, artifact.title
        known.update(artifact.files)


def test_no_file_is_written_twice(config: Config) -> None:
    artifacts = Artifacts(config, RunPaths.of(config)).all
    counts = Counter(file for artifact in artifacts for file in (*artifact.files, artifact.manifest))
    assert {file for file, count in counts.items() if count > 1} == set()


def test_a_pattern_gives_a_jobs_files(config: Config) -> None:
    """The rules' patterns and the jobs' files are one function; a rule that needs more than names says what."""
    run = Run(config, RunPaths.of(config))
    for output in OUTPUTS.values():
        for name in output.jobs(run):
            values = dict(zip(output.wildcards, name, strict=True))
            fixed = {}
            if output.name == "raw":
                continue  # its rule writes any suffix
            if output.name == "controller":
                fixed = {"kind": config.controllers[values["controller"]].kind}
            pattern = [str(path).format(**values) for path in output.pattern(run, **fixed)]
            assert pattern == [str(path) for path in output.files(run, *name)]


def test_every_result_leads_to_the_summary(config: Config) -> None:
    """What a target asks for and nothing reads is an input of the last rule, or the summary could miss it."""
    artifacts = Artifacts(config, RunPaths.of(config)).all
    read = {file for artifact in artifacts for file in artifact.inputs}
    jobs = {(artifact.output.name, artifact.name) for artifact in artifacts if read.intersection(artifact.files)}
    asked = {(artifact.output.name, artifact.name) for artifact in artifacts if artifact.output.target is not None}
    # What is made with a small backbone waits for its weights and has no edge to them.
    small = {("backbone", (key,)) for key, model in config.models.items() if model.tiny is not None}
    assert asked - jobs == {("report", ())} | small


def test_nothing_that_generates_or_trains_is_made_from_a_scored_file(config: Config) -> None:
    """The scorer can change without a GPU being asked again."""
    artifacts = Artifacts(config, RunPaths.of(config)).all
    scored = {file for artifact in artifacts if artifact.output.target == "scores" for file in artifact.files}
    generating = [artifact for artifact in artifacts if artifact.output.uses_model]
    if not config.only_measures:
        assert scored
        assert {"responses", "shared_t1", "controller"} <= {artifact.output.name for artifact in generating}
    assert [artifact.title for artifact in generating if scored.intersection(artifact.inputs)] == []


def test_the_names_of_progress_files() -> None:
    found = {rule: output.progress for output in OUTPUTS.values() for rule in output.working_rules}
    assert found == {
        "backbone": "backbone/{model}",
        "rollout_shard": "rollouts/{model}/{shard}",
        "train_controller": "training/{model}/{controller}",
        "train_lora": "training/{model}/{controller}",
        "train_lora_stair": "training/{model}/{controller}",
        "evaluation_shard": "evaluation/{model}/{benchmark}/{condition}/{shard}",
        "controls_shard": "controls/{model}/{benchmark}/{condition}/{shard}",
        "replay_shard": "replay/{model}/{shard}",
        "measure_runtime": "runtime/{model}",
    }


def test_expected_seconds_name_rules_of_the_table(config: Config) -> None:
    rules = {rule for output in OUTPUTS.values() for rule in (*output.rules, *output.working_rules)}
    assert config.expected_seconds.keys() <= rules
