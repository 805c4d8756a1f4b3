"""The crossed replay's sizes: the paper's, the embedded runs', and numbers that contradict one another."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from stair.config.replay import CrossedSizes
from stair.config.resolve import ConfigError, dump, merge, resolve, validate
from tests.replay.design_rules import replay_of

ROOT = Path(__file__).parents[2]


def test_the_papers_sizes() -> None:
    replay = replay_of("paper")
    assert (replay.depth, replay.batch_problems) == (3, 16)
    assert replay.history_coverage == CrossedSizes(current_problems=64, histories=128)
    assert replay.problem_coverage == CrossedSizes(current_problems=128, histories=32)
    assert [tuple(group.history_coverage.model_dump().values()) for group in replay.groups] == [(33,), (32,)]
    assert [tuple(group.problem_coverage.model_dump().values()) for group in replay.groups] == [
        (25, 17),
        (23, 17),
    ]


def test_a_run_without_a_replay_says_null() -> None:
    assert resolve(ROOT, {"run": "paper", "replay": None}).replay is None


def overlay(folder: Path, text: str) -> str:
    """The path of a run's overlay."""
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_the_readmes_overlay_resolves_and_has_no_replay(tmp_path: Path) -> None:
    match = re.search(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    config = resolve(ROOT, {"run": overlay(tmp_path, match[1])})
    assert list(config.models) == ["mine"]
    assert config.replay is None


def test_a_condition_that_is_not_run_for_the_replayed_model_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"replay\.models: 'lora' is not run for qwen3-4b-instruct on math500"):
        resolve(ROOT, {"run": "paper", "replay": {"condition": "lora"}})


def test_a_run_that_was_resolved_before_the_replay_existed_is_still_read() -> None:
    values: dict[str, Any] = yaml.safe_load(dump(resolve(ROOT, {"run": "paper"})))
    del values["replay"]
    assert validate(values, "an older run").replay is None


GROUP = {
    "history_coverage": {"sessions": 33},
    "problem_coverage": {"sessions": 25, "blocks": 17},
}


def group(**changes: Any) -> dict[str, Any]:
    """Both groups, the first of them changed."""
    return {"groups": [merge(GROUP, changes), GROUP]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"history_coverage": {"current_problems": 129}}, "history_coverage.current_problems is 129, .* at most 128"),
        ({"problem_coverage": {"histories": 129}}, "problem_coverage.histories is 129, .* at most 128"),
        ({"history_coverage": {"histories": 32}}, "group 1: 33 sessions need at least 33 histories.*; there are 32"),
        ({"problem_coverage": {"histories": 24}}, "group 1: 25 sessions need at least 25 histories.*; there are 24"),
        (group(problem_coverage={"sessions": 34}), "group 1: problem_coverage has 34 sessions of 33"),
        (group(problem_coverage={"blocks": 26}), "group 1: 25 sessions are at most 25 blocks, not 26"),
        ({"groups": [GROUP]}, "'replay.groups.1' is missing"),
        ({"depth": 4}, "less than or equal to 3"),
    ],
    ids=lambda item: "" if isinstance(item, str) else "-".join(item),
)
def test_sizes_that_contradict_one_another_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(ROOT, {"run": "paper", "replay": changes})


@pytest.mark.parametrize(
    ("analysis", "message"),
    [
        ({"folds": 5}, "analysis.folds: 128 current problems have no 5 equal folds"),
        ({"neighborhoods": [8, 97]}, "analysis.neighborhoods: 97 is more than the 96 candidates of a fold"),
        ({"neighborhoods": [8, 8]}, "analysis.neighborhoods': lists 8 twice"),
        (
            {"folds": 128, "exclude_fixed_points": True},
            "analysis.exclude_fixed_points: a fold of one anchor has no other anchor",
        ),
    ],
)
def test_an_analysis_that_the_design_cannot_have_is_refused(analysis: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve(ROOT, {"run": "paper", "replay": {"analysis": analysis}})
