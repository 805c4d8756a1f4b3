"""The site's file, and the choice of a profile."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stair.cli.reproduce import reproduce
from stair.config.resolve import ConfigError
from stair.config.site import read_site
from stair.pipeline.cluster import profile_folder, runs_on_slurm

ROOT = Path(__file__).parents[2]


def test_the_example_is_a_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "site.example.yaml", tmp_path / "site.yaml")
    site = read_site(ROOT)
    assert site.partition_for(1, 70_000, 2880) == "gpu" and site.partition_for(0, 5_500, 20) == "cpu"
    assert site.longest(9, 1) is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("partitions: {a: {minutes: 0, mem_mb: 1}}", "partitions.a.minutes"),
        ("partitions: {}", "partitions"),
        ("partition: {}", "partition"),
        ("account: [", "is not valid YAML"),
        ("account: \udcff", "cannot be read"),
        ("partitions: {a: {minutes: 60, mem_mb: 1}, a: {minutes: 90, mem_mb: 1}}", "the key 'a' stands twice"),
        ("partitions: {a: {minutes: 1:00:00, mem_mb: 1}}", "partitions.a.minutes"),  # YAML 1.1 alone would read 3600
        (
            "partitions: {a: {minutes: 6, mem_mb: 1}}",
            "site.yaml: partitions.a.minutes is 6, so jobs are warned at their start",
        ),
    ],
)
def test_a_wrong_site_is_refused_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "site.yaml").write_text(text, errors="surrogateescape")
    with pytest.raises(ConfigError) as refused:
        read_site(tmp_path)
    assert said in str(refused.value) and "\n" not in str(refused.value)


def test_a_missing_site_names_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match=r"copy site\.example\.yaml"):
        read_site(tmp_path)


def test_profiles_are_found_by_name() -> None:
    assert runs_on_slurm(profile_folder(ROOT, "slurm")) and not runs_on_slurm(profile_folder(ROOT, "default"))
    with pytest.raises(ConfigError, match="there is no such profile"):
        profile_folder(ROOT, "other")


def test_cores_of_this_machine_limit_no_cluster() -> None:
    with pytest.raises(ConfigError, match="cores limits jobs on this machine"):
        reproduce("smoke", go=False, target="all", cores="2", profile="slurm", settings=[])
