"""The inputs of a command's job: named by Snakemake for a command by hand, and checked before any work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from stair.config.model import Config
from stair.config.paths import RunPaths, project_root
from stair.config.replay import REPLAY_PARTS
from stair.paper.exhibits import analyzed_models, exhibits
from stair.pipeline.job_list import list_jobs
from stair.pipeline.jobs import JOBS, STAGES, names_of, settings_of
from stair.records.keys import file_digest
from stair.records.manifest import (
    Manifest,
    changed_settings,
    is_outside,
    manifest_files,
    manifest_path,
    name_in_run,
    read_manifest,
)


def check_names(config: Config, rule: str, wildcards: Mapping[str, str]) -> None:
    """Raises ValueError for a study or name that the run does not have, with the names that it has."""
    needed: dict[str, tuple[str, object]] = {
        **dict.fromkeys(STAGES["replay"], ("replay", config.replay)),
        **dict.fromkeys(STAGES["runtime"], ("runtime", config.runtime)),
    }
    section, content = needed.get(rule, ("", config))
    if content is None:
        raise ValueError(f"the run has no {rule}: its configuration has no `{section}`")
    sets = ("training_pool", *config.benchmarks)
    known: dict[str, tuple[str, Iterable[str]]] = {
        "model": ("model", config.models),
        "benchmark": ("benchmark", config.benchmarks),
        "controller": ("controller", config.controllers),
        "condition": ("condition", config.every_condition),
        "name": ("data set", sets),
        "part": ("part of replay.analysis", REPLAY_PARTS if analyzed_models(config) else ()),
    }
    if rule in ("table", "figure"):
        known[rule] = (rule, [each.name for each in exhibits(config) if each.kind == rule])
    for wildcard, value in wildcards.items():
        kind, names = known.get(wildcard, (wildcard, ()))
        if value not in names:
            raise ValueError(f"the run has no {kind} '{value}' (it has: {', '.join(names) or 'none'})")
    if "condition" in wildcards:
        place = (wildcards["model"], wildcards["benchmark"])
        if place not in config.evaluated(wildcards["condition"]):
            asked = " ".join((rule, *wildcards.values()))
            raise ValueError(f"the run has no {asked}; `conditions` says where a condition is evaluated")


def has_job(config: Config, rule: str, wildcards: Mapping[str, str]) -> bool:
    """Whether the run has a job of this rule with these wildcards, by its studies and names."""
    if rule not in JOBS or set(JOBS[rule].names) != wildcards.keys():
        return False
    try:
        check_names(config, rule, wildcards)
    except ValueError:
        return False
    return True


def files_of(config: Config, paths: RunPaths, rule: str, names: Mapping[str, str]) -> tuple[list[Path], list[Path]]:
    """The inputs and outputs of a job, for a command by hand.

    They are those of the job's manifest if its settings are the present ones. Otherwise Snakemake lists them, which takes some
    seconds. A shard has no manifest and none are named: its stage reports an input that does not exist.

    Raises:
        ValueError: the run has no such job.
    """
    if JOBS[rule].is_shard:
        return [], []
    for path in manifest_files(paths.folder):
        with suppress(OSError, ValueError):
            manifest = read_manifest(path)
            if (manifest.rule, manifest.wildcards) == (rule, dict(names)):
                if changed_settings(manifest.settings, settings_of(config, rule, names)):
                    break
                return [paths.folder / name for name in manifest.inputs], [
                    paths.folder / name for name in manifest.files
                ]
    for job in list_jobs(project_root(), {"run": str(paths.folder)}, JOBS[rule].stage):
        if job.rule == rule and names_of(rule, job.wildcards) == names:
            # Completion markers only order jobs: the seal reads the logs.
            inputs = [paths.folder / file for file in job.inputs if not file.startswith("work/")]
            return inputs, [paths.folder / file for file in job.outputs]
    asked = " ".join((rule, *names.values()))
    raise ValueError(f"the run has no {asked}; its jobs are listed by: stair status --json --run {paths.folder}")


def checked_digests(config: Config, paths: RunPaths, files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of a job's inputs by their names in the run, compared with their manifests.

    A file without a manifest was not made by the workflow. Files under work/ only order jobs, and are left out. The messages
    do not name the job: the run's display does.

    Raises:
        ValueError: one line with the remedy if an input does not exist or is damaged.
    """
    start, manifests, digests = paths.start_command(), Manifests(paths.folder), {}
    for file in dict.fromkeys(files):
        if not file.exists():
            raise ValueError(f"{file} does not exist, and this job needs it; to make it: {start}")
        if (name := name_in_run(file, paths.folder)).startswith("work/"):
            continue
        try:
            digests[name] = file_digest(file)
            fault = manifests.damage(file, digests[name])
        except OSError:
            fault = "cannot be read; check its permissions"
        if fault:
            place = os.path.normpath(paths.shown / name)
            alone = paths.start_command("--target", name)  # if it is the same again, nothing that follows from it runs
            raise ValueError(
                f"{paths.folder} has a damaged file: {name} {fault}; to make it again: rm {place} && {alone} && {start}"
            )
    return digests


class Manifests:
    """The makers of a run's files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def damage(self, file: Path, digest: str) -> str:
        """How a file with this SHA-256 differs from its manifest, as a clause; empty if it does not, or has none."""
        try:
            manifest = self._of(file)
        except (OSError, ValueError):
            return "has a manifest that cannot be read"
        same = manifest is None or manifest.files.get(name_in_run(file, self._folder)) == digest
        return "" if same else "does not match its sealed checksum"

    def _of(self, file: Path) -> Manifest | None:
        """The manifest of a file: beside it or in its folder, else beside another output of its job."""
        name = name_in_run(file, self._folder)
        if is_outside(name):  # a manifest beside it has other names
            return None
        for path in (manifest_path(file), manifest_path(file.parent)):
            if path.is_file():
                return read_manifest(path)
        return self._by_name.get(name)

    @cached_property
    def _by_name(self) -> dict[str, Manifest]:
        found: dict[str, Manifest] = {}
        for path in manifest_files(self._folder):
            with suppress(OSError, ValueError):
                manifest = read_manifest(path)
                found |= dict.fromkeys(manifest.files, manifest) if manifest.is_in_place(self._folder) else {}
        return found
