"""The numbers of the text on training and gains: from a run's files, they are the paper's."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.paper.comparison.ours import read_ours
from stair.paper.comparison.printed import printed_values
from stair.paper.labels import Labels
from stair.paper.tables import in_text
from stair.paper.tidy import read_tidy, tidy_csv
from stair.records.manifest import manifest_path
from stair.statistics.grid import Gap
from tests.paper.paper_frame import Frame

UPDATES = {"qwen3-4b-instruct": 1851, "qwen3.5-4b": 1941, "qwen3.5-9b": 1940}


def trained(paths: RunPaths) -> None:
    """The files of a run with the paper's counts, as far as these numbers need them."""
    for model, updates in UPDATES.items():
        paths.cleaning(model).parent.mkdir(parents=True, exist_ok=True)
        counts = {"training_problems": 14806, "validation_problems": 128}
        paths.cleaning(model).write_text(json.dumps({"counts": counts}))
        for controller, parameters in (("stair", 12288), ("lora", 4128768)):
            paths.controller(model, controller).mkdir(parents=True)
            manifest = manifest_path(paths.controller(model, controller))
            manifest.write_text(json.dumps({"updates": updates, "parameters": parameters}))


def test_they_join_with_the_papers(paper_frame: Frame, tmp_path: Path) -> None:
    paths, config = RunPaths(tmp_path), paper_frame.config
    trained(paths)
    paths.table("continuous_summary").parent.mkdir()
    shutil.copy(paper_frame.folder / "out/continuous_summary.csv", paths.table("continuous_summary"))
    labels = Labels.of(config)
    values = [*in_text.training_numbers(config, paths), *in_text.gains(config, paths, labels)]
    (tmp_path / "in_text.csv").write_text(tidy_csv("in_text", values, labels))
    ours = read_ours([tmp_path / "in_text.csv"], config)
    parts = ("app:method-gradients", "app:training-settings", "sec:continuous-results")
    printed = [each for each in printed_values() if each.place.artifact in parts]
    assert len(printed) == 6 + 4 + 4
    for each in printed:
        found = ours[each.place].value
        assert found is not None and abs(found - each.value) <= each.rounding / 2 + 1e-9, each


def test_without_training_problems_they_are_gaps(paper_frame: Frame, tmp_path: Path) -> None:
    paths = RunPaths(tmp_path)
    trained(paths)
    paths.cleaning("qwen3.5-4b").unlink()
    values = list(in_text.training_numbers(paper_frame.config, paths))
    gaps = [value.model for value in values if isinstance(value.value, Gap)]
    assert gaps == ["qwen3.5-4b", "qwen3.5-4b"]


def test_a_file_without_the_columns_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("artifact,model\n")
    with pytest.raises(ValueError, match=r"a\.csv lacks the columns benchmark, .*, unit; delete it and rebuild with"):
        list(read_tidy(tmp_path / "a.csv"))
