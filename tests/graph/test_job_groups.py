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


def memory(words: list[str]) -> int:
    return int(words[words.index("--resources") + 1].removeprefix("mem_mb="))


def test_no_job_on_a_gpu_and_no_seal_is_grouped() -> None:
    grouped = [OUTPUTS[output] for group in GROUPS.values() for output in group.outputs]
    assert len({kind.name for kind in grouped}) == len(grouped), "an output is in one group"
    assert not any(kind.shards or kind.name in ("controller", "runtime") for kind in grouped)


def test_a_large_site_gets_groups_of_twelve() -> None:
    words = group_arguments(run_of("paper"), SITE)
    assert set(sizes(words).values()) == {12} and memory(words) == 4 * 5_500
    assert {"score_condition=scores", "table=reports", "claims=summary"} <= set(words)


@pytest.mark.parametrize(("minutes", "mem_mb"), [(240, 6_000), (480, 12_000), (300, 500_000), (4_320, 5_500)])
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
    side_by_side = memory(words) // 5_500
    assert memory(words) <= mem_mb
    levels = -(-sizes(words)["scores"] // side_by_side)
    assert levels * 240 <= minutes, "scores take up to four hours each"


def test_a_scheduler_sees_hundreds_of_jobs() -> None:
    said = (ROOT / "docs" / "cluster.md").read_text().replace("\n", " ")
    assert f"The scheduler sees {submissions(run_of('paper'), SITE)} at the site of `site.example.yaml`" in said


def test_a_chain_that_fits_no_partition_is_not_grouped() -> None:
    cpu = Partition(minutes=45, mem_mb=6_000)
    site = Site(partitions={"cpu": cpu, "gpu": Partition(minutes=2_880, mem_mb=500_000, gpus=8)})
    assert "data" in sizes(group_arguments(run_of("paper"), site)), "it fits the other partition"
    words = group_arguments(run_of("paper"), Site(partitions={"cpu": cpu}))
    assert "data" not in sizes(words) and "raw=data" not in words
