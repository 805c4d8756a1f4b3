"""The site's file is compared with Slurm's partitions."""

from __future__ import annotations

import pytest

from stair.cli.doctor.slurm_client import nodes_of, site_findings
from stair.config.site import Partition, Site

LISTED = nodes_of(
    "main*|up|2-00:00:00|4|(null)|190000+\n"
    "gpu|up|12:00:00|2|gpu:a100:4(S:0-1),gpu:h100:8(S:0-1)|1000000\n"
    "gpu|up|12:00:00|2|gpu:4|500000\n"
    "long|up|infinite|1|(null)|64000\n"
)


@pytest.mark.parametrize(
    ("limit", "minutes"),
    [("30:00", 30), ("1:00", 1), ("2:05:00", 125), ("1-00:00:00", 1440), ("2-03:10:00", 3070), ("90", 90)],
)
def test_slurms_time_limits(limit: str, minutes: int) -> None:
    assert nodes_of(f"main|up|{limit}|1|(null)|1\n")[0].minutes == minutes


def test_what_fits_is_not_mentioned() -> None:
    partitions = {
        "main": Partition(minutes=2880, mem_mb=190_000),
        "gpu": Partition(minutes=720, mem_mb=1_000_000, gpus=8, gpu_model="h100"),
        "long": Partition(minutes=100_000, mem_mb=64_000),
    }
    assert list(site_findings(Site(partitions=partitions), LISTED)) == []


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("main", {"minutes": 3600}, "partitions.main.minutes is 3600, and the partition offers 2880"),
        ("main", {"mem_mb": 190_001}, "partitions.main.mem_mb is 190001, and the partition offers 190000"),
        ("main", {"gpus": 1}, "partitions.main.gpus is 1, and the partition offers 0"),
        (
            "gpu",
            {"gpus": 5, "gpu_model": "a100"},
            "partitions.gpu.gpus is 5, and the partition offers 4 of the model a100",
        ),
        ("gpu", {"gpus": 1, "gpu_model": "l40"}, "the partition offers 0 of the model l40"),
    ],
)
def test_what_no_job_could_get_is_an_error(name: str, changes: dict[str, object], said: str) -> None:
    partition = Partition.model_validate({"minutes": 60, "mem_mb": 1000, **changes})
    (finding,) = site_findings(Site(partitions={name: partition}), LISTED)
    assert finding.level == "error" and said in finding.text and "site.yaml" in finding.remedy
