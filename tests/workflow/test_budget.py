"""What the stages took, beside what the document says."""

from __future__ import annotations

from pathlib import Path

import pytest

from stair.config.paths import RunPaths
from stair.pipeline.budget import END, START, RuleCost, documented_seconds, measured, overruns, replace_table, table
from stair.records.progress import Progress

HEADER = "s\th:m:s\tmax_rss\tmax_vms\tmax_uss\tmax_pss\tio_in\tio_out\tmean_load\tcpu_time\n"
COSTS = [RuleCost("backbone", 3, 300.0, 120.5), RuleCost("table", 9, 20.0, 3.0)]


def timing(folder: Path, name: str, seconds: str) -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{HEADER}{seconds}\t0:00:09\tNA\t0\t0\t0\t0\t0\t0\t0\n")


def document(*costs: RuleCost) -> str:
    return f"# Budget\n\nBefore.\n\n{START}\n{table(costs)}\n{END}\nAfter.\n"


def test_jobs_are_summed_by_rule(tmp_path: Path) -> None:
    timings = tmp_path / "work/timings"
    timing(timings, "table/one.tsv", "1.5")
    timing(timings, "table/deep/two.tsv", "2.5")
    timing(timings, "check.tsv", "60")
    timing(timings, "damaged.tsv", "x.5")
    (timings / "header.tsv").write_text("r\n1.0\n")
    assert measured(RunPaths(tmp_path)) == [RuleCost("check", 1, 60.0, 60.0), RuleCost("table", 2, 4.0, 2.5)]


def test_attempts_that_were_resumed_are_part_of_a_jobs_seconds(tmp_path: Path) -> None:
    """Two shards, then three: the first shard's earlier attempt counts once."""
    paths = RunPaths(tmp_path)
    for shard in ("0-of-2", "0-of-3"):
        timing(tmp_path / "work/timings", f"evaluation_shard/qwen3.5-4b/math500/stair-{shard}.tsv", "10")
    timing(tmp_path / "work/timings", "train_controller/qwen3.5-4b/stair.tsv", "50")
    jobs = {"evaluation/qwen3.5-4b/math500/stair/0": 100.0, "training/qwen3.5-4b/stair": 400.0}
    for job, seconds in jobs.items():
        first = Progress(paths.progress, job, 8, "units")
        first._created -= seconds
        first._file_time = 0.0
        first.set(2)
        Progress(paths.progress, job, 8, "units", 2)
    trained, answered = measured(paths)
    assert (trained.rule, trained.jobs, trained.earlier_attempts) == ("train_controller", 1, 1)
    assert (trained.seconds, trained.earlier_seconds) == pytest.approx((450.0, 400.0), abs=0.5)
    assert (answered.rule, answered.jobs, answered.earlier_attempts) == ("evaluation_shard", 2, 1)
    assert (answered.seconds, answered.longest) == pytest.approx((120.0, 110.0), abs=0.5)


def test_nothing_measured_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has no measured job; run the workflow first"):
        measured(RunPaths(tmp_path))


def test_a_written_table_is_read_again() -> None:
    assert documented_seconds(document(*COSTS)) == {"backbone": 300.0, "table": 20.0, "all": 320.0}
    with pytest.raises(ValueError, match="no table between"):
        documented_seconds("# Budget\n")


def test_renewing_changes_the_table_alone() -> None:
    renewed = replace_table(document(COSTS[0]), COSTS)
    assert renewed == document(*COSTS)


@pytest.mark.parametrize(
    ("seconds", "lines"),
    [
        (20.0, []),
        (29.0, []),  # half as long again, but within ten seconds
        (31.0, ["table took 31 s, its budget is 20 s"]),
    ],
)
def test_only_what_is_clearly_slower_is_told(seconds: float, lines: list[str]) -> None:
    budget = documented_seconds(document(*COSTS))
    assert overruns([COSTS[0], RuleCost("table", 9, seconds, 1.0)], budget) == lines


def test_a_rule_without_a_budget_and_the_sum_are_told() -> None:
    budget = documented_seconds(document(*COSTS))
    found = overruns([*COSTS, RuleCost("figure", 1, 400.0, 400.0)], budget)
    assert found == ["figure took 400 s and has no budget", "all took 720 s, its budget is 320 s"]
