"""Restores outputs from a published archive in place of computing them (`stair restore`)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stair.backbones.revision import model_revision
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN, as_recorded
from stair.graph.outputs import NEEDED
from stair.graph.recorded_origin import name_in_run, revision
from stair.graph.verify import Verification, differences
from stair.records.files import link_or_copy, write_json
from stair.records.keys import file_digest
from stair.records.unpacking import opened


class _Mismatch(Exception):
    """The reason against restoring an output."""


@dataclass
class Outcome:
    """The result for one output of the archive."""

    name: str
    restored: bool
    reason: str = ""
    """Why it was rejected; empty where it was restored, or was valid here already."""
    notes: list[str] = field(default_factory=list)
    """Inputs and models that could not be compared, and valid outputs that exist already."""


def restore(config: Config, paths: RunPaths, archive: Path) -> list[Outcome]:
    """Writes outputs of an archive below the run's `restored/`, from where the workflow copies them into place.

    An output is restored if it is whole and its settings, models and inputs equal the run's. A valid output that exists
    already is kept.

    Args:
        config: the run.
        paths: its files.
        archive: a folder laid out as a run's, or a .tar, .tar.gz, .zip of one.

    Returns:
        One outcome for each output of the run in the archive.

    Raises:
        ValueError: the archive cannot be read, or contains no output of this run.
    """
    # All outputs that the run could have, also those that the graph leaves out after a restore.
    outputs = Artifacts(config, paths, include_unneeded=True)
    restorable = [artifact for artifact in outputs.all if artifact.output.restorable]
    places = [artifact.files[0].relative_to(paths.folder).parts for artifact in restorable]
    folders = list(dict.fromkeys(parts[0] for parts in places if len(parts) > 1))
    with opened(archive, paths.folder, folders) as folder:
        restorer = _Restorer(config, paths, RunPaths(folder), archive, outputs)
        jobs = dict.fromkeys((artifact.output.name, artifact.name) for artifact in restorable)
        outcomes = [outcome for output, name in jobs for outcome in restorer.restore_job(output, name)]
    if not outcomes:
        raise ValueError(
            f"{archive} contains no output of the run '{config.run}' with its manifest; it must be laid out as a run's folder "
            f"({', '.join(folders)})"
        )
    return outcomes


class _Restorer:
    def __init__(self, config: Config, paths: RunPaths, source: RunPaths, archive: Path, outputs: Artifacts) -> None:
        self._config, self._paths, self._source, self._archive = config, paths, source, archive
        self._store = RunPaths(paths.restored)
        self._verification = Verification(config, paths)
        self._all = outputs
        self._restored: dict[str, str] = {}

    def restore_job(self, output: str, name: tuple[str, ...]) -> list[Outcome]:
        """Restores all outputs of a job, or none."""
        artifacts = self._all.of(output, *name)
        if not any(self._in_archive(artifact.manifest).is_file() for artifact in artifacts):
            return []
        if artifacts[0].output.only_without_inputs and all(map(self._is_available, artifacts[0].inputs)):
            return []
        outcomes = [self._compare(artifact) for artifact in artifacts]
        rejected = [outcome for outcome in outcomes if outcome.reason]
        for outcome in outcomes:
            if rejected and not outcome.reason:
                outcome.reason = f"it belongs to {rejected[0].name}, which is not restored"
        if not rejected:
            self._write(artifacts, outcomes)
        return outcomes

    def _in_archive(self, file: Path) -> Path:
        """The path in the archive of one of this run's files."""
        return self._source.folder / file.relative_to(self._paths.folder)

    def _is_available(self, file: Path) -> bool:
        """Whether an input is here or in the archive."""
        return file.is_file() or self._in_archive(file).is_file()

    def _manifest(self, artifact: Artifact) -> dict[str, Any]:
        manifest: dict[str, Any] = json.loads(self._in_archive(artifact.manifest).read_text(encoding="utf-8"))
        return manifest

    def _compare(self, artifact: Artifact) -> Outcome:
        outcome = Outcome(name_in_run(artifact.files[0], self._paths), False)
        try:
            outcome.notes = self._check(artifact, self._manifest(artifact)[ORIGIN])
        except _Mismatch as reason:
            outcome.reason = str(reason)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            outcome.reason = f"its manifest cannot be read ({type(error).__name__})"
        return outcome

    def _write(self, artifacts: list[Artifact], outcomes: list[Outcome]) -> None:
        """Writes a job's outputs below `restored/`, unless the run has valid ones."""
        valid = all(self._verification.finding(artifact).state == "ok" for artifact in artifacts)
        for artifact, outcome in zip(artifacts, outcomes, strict=True):
            manifest = self._manifest(artifact)
            self._restored |= manifest[ORIGIN]["files"]
            if valid:
                outcome.notes.append("valid here already: kept")
                continue
            for file in artifact.files:
                link_or_copy(self._in_archive(file), self._store.folder / file.relative_to(self._paths.folder))
            target = self._store.folder / artifact.manifest.relative_to(self._paths.folder)
            write_json(target, manifest | {"restored_from": str(self._archive)})
            outcome.restored = True

    def _check(self, artifact: Artifact, recorded: dict[str, Any]) -> list[str]:
        """Compares an output of the archive with the one that the run would make.

        Returns:
            Notes on models and inputs that could not be compared.

        Raises:
            _Mismatch: they differ.
        """
        if [recorded["rule"], *recorded["name"]] != [artifact.output.name, *artifact.name]:
            raise _Mismatch(f"it is the output of {recorded['rule']} {' '.join(recorded['name'])}")
        self._check_files(artifact, recorded["files"])
        self._check_settings(artifact, recorded)
        return [*self._check_models(artifact, recorded["models"]), *self._check_inputs(artifact, recorded["inputs"])]

    def _check_files(self, artifact: Artifact, recorded: dict[str, str]) -> None:
        for file in artifact.files:
            name, source = name_in_run(file, self._paths), self._in_archive(file)
            if not source.is_file():
                raise _Mismatch(f"{name} is not in the archive")
            if file_digest(source) != recorded[name]:
                raise _Mismatch(f"{name} does not match its sealed checksum")

    def _check_settings(self, artifact: Artifact, recorded: dict[str, Any]) -> None:
        """Compares the settings of the output and of the jobs behind it."""
        was, now = recorded["settings"], as_recorded(artifact.settings)
        for key in sorted(was.keys() | now.keys()):
            if changes := differences(key, was.get(key), now.get(key)):
                raise _Mismatch(f"made under other settings: {changes[0]}")
        if (job := NEEDED.other_job_behind(artifact.run, recorded)) is not None:
            raise _Mismatch(f"{job}, behind it, was made under other settings")

    def _check_models(self, artifact: Artifact, recorded: dict[str, str]) -> list[str]:
        notes = []
        for model in artifact.models:
            contents = self._contents(model)
            if contents is None:
                notes.append(f"the contents of the model {model} were not compared, as it does not exist here")
            elif contents != recorded[model]:
                raise _Mismatch(f"made by other contents of the model {model}")
        return notes

    def _check_inputs(self, artifact: Artifact, recorded: dict[str, str]) -> list[str]:
        current = {name_in_run(file, self._paths): file for file in artifact.inputs}
        if current.keys() != recorded.keys():
            raise _Mismatch(f"made from other files: {', '.join(sorted(current.keys() ^ recorded.keys()))}")
        absent = []
        for name, file in current.items():
            if file.is_file():
                if file_digest(file) != recorded[name]:
                    raise _Mismatch(f"made from another {name} than the one here")
            elif name in self._restored:
                if self._restored[name] != recorded[name]:
                    raise _Mismatch(f"made from another {name} than the archive's")
            else:
                absent.append(name)
        required = [name for name in absent if self._needs_model(current[name])]
        # Any other input would be generated, and differ.
        if required and not artifact.output.restorable_alone:
            raise _Mismatch(f"its input {required[0]} exists neither here nor in the archive")
        if not absent:
            return []
        return [f"inputs not compared, as they exist neither here nor in the archive: {', '.join(absent)}"]

    def _needs_model(self, file: Path) -> bool:
        """Whether generating an input needs a model."""
        artifact = self._all.by_file.get(file)
        return artifact is not None and artifact.output.uses_model

    def _contents(self, model: str) -> str | None:
        """The digest of a model's contents: the run's, else the archive's; None without either."""
        folder = self._paths.model_folder(self._config, model)
        if (folder / "config.json").is_file():
            return revision(self._config, self._paths, model)
        if self._config.models[model].tiny is None or not self._source.backbone(model).is_dir():
            return None
        return model_revision(self._source.backbone(model), None)
