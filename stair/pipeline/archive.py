"""What an archive of a run is.

It is laid out as the run's folder, with the outputs that tables and figures are made from. Its `archive.json` names the run and
contains the manifests of all other outputs. Snakemake's records cover both, so an unpacked archive is up to date.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.setting_places import Settings
from stair.pipeline.job_inputs import has_job
from stair.pipeline.jobs import STAGES, settings_of
from stair.records.files import read_mapping
from stair.records.manifest import Manifest, manifest_of, name_in_run

COMPARED = (*STAGES["tables"], *STAGES["figures"], "comparison", "claims")
MADE_AGAIN = (*COMPARED, "provenance", "report")
"""The rules that `stair from-archive` runs. It compares the outputs of the first ones with the archive's."""

ARCHIVED = (
    "evaluation_sessions", "training_pool", "data_report", *STAGES["training"], *STAGES["scores"],
    "replay_design", "replay_statistics", "measure_runtime", "check", *MADE_AGAIN,
)  # fmt: skip
"""The rules whose outputs an archive contains. Preflight is not one: a run that generates must check its own models."""

RECORDS = Path(".snakemake", "metadata")


def left_out_manifests(folder: Path) -> list[Manifest]:
    """The manifests of outputs that an unpacked archive leaves out and that do not exist yet.

    Raises:
        ValueError: one of them, or their list, is damaged.
    """
    file = RunPaths(folder).archive
    if not file.is_file():
        return []
    try:
        listed = read_mapping(file)["left_out"].items()
        manifests = [manifest_of(folder / name, content) for name, content in listed]
    except (ValueError, KeyError, AttributeError):
        raise ValueError(f"{file} is damaged: its manifests of left-out outputs; unpack the archive again") from None
    return [manifest for manifest in manifests if not manifest.path.is_file()]


def left_out_contents(folder: Path) -> dict[str, dict[str, Any]]:
    """The contents of the manifests of left-out outputs by their names, as `archive.json` has them."""
    return {name_in_run(manifest.path, folder): manifest.content for manifest in left_out_manifests(folder)}


def left_out_files(folder: Path) -> dict[str, Manifest]:
    """The absent files of outputs that an unpacked archive leaves out, each with its manifest."""
    return {
        name: manifest
        for manifest in left_out_manifests(folder)
        for name in manifest.files
        if not (folder / name).is_file()
    }


def settings_now(config: Config, manifest: Manifest) -> Settings | None:
    """The present settings of a manifest's job; None without such a job."""
    if not has_job(config, manifest.rule, manifest.wildcards):
        return None
    return settings_of(config, manifest.rule, manifest.wildcards)
