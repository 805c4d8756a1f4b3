"""Groups of small jobs fit into the partitions of a site."""

from __future__ import annotations

import pytest

from stair.config.site import Partition, Site
from stair.pipeline.job_groups import GROUPS, group_arguments
from stair.pipeline.resources import check_fits, resources
from stair.pipeline.run import Run
from stair.pipeline.stage_rules import STAGE_OF
from tests.cluster.test_resources import SITE, run_of
from tests.listed import listed


def arguments(run: Run, site: Site) -> list[str]:
    return group_arguments(run, site, listed("paper"))


def sizes(words: list[str]) -> dict[str, int]:
    start = words.index("--group-components") + 1
    pairs = [word.partition("=") for word in words[start : words.index("--cores")]]
    return {name: int(size) for name, _, size in pairs}


def side_by_side(words: list[str]) -> int:
    return int(words[words.index("--cores") + 1])


def test_no_job_on_a_gpu_and_no_seal_is_grouped() -> None:
    grouped = [rule for group in GROUPS.values() for rule in group.rules]
    assert len(set(grouped)) == len(grouped), "a rule is in one group"
    assert set(grouped) <= set(STAGE_OF) and not any(rule.startswith("seal_") for rule in grouped)
    run = run_of("paper")
    on_gpus = {
        job.rule for job in listed("paper") if job.rule in STAGE_OF and resources(run, job.rule, job.wildcards).gpus
    }
    assert len(on_gpus) == 8 and not on_gpus & set(grouped)


def test_a_large_site_gets_groups_of_twelve() -> None:
    words = arguments(run_of("paper"), SITE)
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
    check_fits(run, site, listed("paper"))
    words = arguments(run, site)
    wide = side_by_side(words)
    assert wide == 1 or wide * 3 * 5_500 <= mem_mb, "a third attempt asks for three times the memory"
    assert -(-sizes(words)["scores"] // wide) * 240 <= minutes, "scores take up to four hours each"
    models = min(sizes(words).get("preflight", 0), 3)
    rounds = -(-models // wide) + -(-models * 5 // wide)
    assert rounds * 20 <= minutes, "each of a model's five sets of prompts waits for the model"


def test_a_group_that_does_not_fit_the_partition_of_its_jobs_is_not_formed() -> None:
    gpu = Partition(minutes=2_880, mem_mb=500_000, gpus=8)
    words = arguments(run_of("paper"), Site(partitions={"cpu": Partition(minutes=45, mem_mb=6_000), "gpu": gpu}))
    assert "data" not in sizes(words) and "raw=data" not in words and "scores" in sizes(words)
