"""Groups of small jobs fit into the partitions of a site."""

from __future__ import annotations

import pytest

from stair.config.site import Partition, Site
from stair.graph.job_groups import GROUPS, group_arguments, submissions
from stair.graph.outputs import OUTPUTS
from stair.graph.resources import check_fits
from tests.graph.test_resources import ROOT, SITE, run_of


def sizes(words: list[str]) -> dict[str, int]:
    start = words.index("--group-components") + 1
    pairs = [word.partition("=") for word in words[start : words.index("--cores")]]
    return {name: int(size) for name, _, size in pairs}


def side_by_side(words: list[str]) -> int:
    return int(words[words.index("--cores") + 1])


def test_no_job_on_a_gpu_and_no_seal_is_grouped() -> None:
    grouped = [OUTPUTS[output] for group in GROUPS.values() for output in group.outputs]
    assert len({kind.name for kind in grouped}) == len(grouped), "an output is in one group"
    assert not any(kind.shards or kind.name in ("controller", "runtime") for kind in grouped)


def test_a_large_site_gets_groups_of_twelve() -> None:
    words = group_arguments(run_of("paper"), SITE)
    assert set(sizes(words).values()) == {12} and side_by_side(words) == 4
    assert {"score_condition=scores", "table=reports", "claims=summary"} <= set(words)
    assert "--resources" not in words, "it would cap the memory of jobs on GPUs"


@pytest.mark.parametrize(("minutes", "mem_mb"), [(240, 6_000), (480, 40_000), (300, 500_000), (4_320, 17_000)])
def test_a_small_site_gets_smaller_groups(minutes: int, mem_mb: int) -> None:
    run = run_of("paper")
    site = Site(
        partitions={
            "cpu": Partition(minutes=minutes, mem_mb=mem_mb),
            "gpu": Partition(minutes=2_880, mem_mb=500_000, gpus=8),
        }
    )
    check_fits(run, site)
    words = group_arguments(run, site)
    wide = side_by_side(words)
    assert wide == 1 or wide * 3 * 5_500 <= mem_mb, "a third attempt asks for three times the memory"
    assert -(-sizes(words)["scores"] // wide) * 240 <= minutes, "scores take up to four hours each"
    models = min(sizes(words).get("preflight", 0), 3)
    rounds = -(-models // wide) + -(-models * 5 // wide)
    assert rounds * 20 <= minutes, "each of a model's five sets of prompts waits for the model"


def test_a_scheduler_sees_hundreds_of_jobs() -> None:
    said = (ROOT / "docs" / "cluster.md").read_text().replace("\n", " ")
    assert f"Slurm sees {submissions(run_of('paper'), SITE)} jobs at the site of `site.example.yaml`" in said


def test_a_group_that_does_not_fit_the_partition_of_its_jobs_is_not_formed() -> None:
    gpu = Partition(minutes=2_880, mem_mb=500_000, gpus=8)
    words = group_arguments(run_of("paper"), Site(partitions={"cpu": Partition(minutes=45, mem_mb=6_000), "gpu": gpu}))
    assert "data" not in sizes(words) and "raw=data" not in words and "scores" in sizes(words)
