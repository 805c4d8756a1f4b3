"""Checks of a run's outputs: complete, and made under the current configuration. This decides what is stale."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import ORIGIN, as_recorded
from stair.graph.recorded_origin import missing_note, name_in_run, read_manifest, revision
from stair.graph.result_settings import CODE
from stair.records.keys import file_digest
from stair.records.manifest import package_versions, source_fingerprint

State = Literal["ok", "missing", "damaged", "stale"]

_SHOWN_CHANGES = 4


@dataclass
class Finding:
    """An output's state, with the reasons and what to do."""

    artifact: Artifact
    state: State = "ok"
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """Facts that make nothing stale: missing responses, changed code of a stage that generates, other versions."""

    def add(self, state: State, reason: str) -> None:
        """Adds a reason for a state; the first state stays."""
        self.state = state if self.state == "ok" else self.state
        self.reasons.append(reason)


class Verification:
    """The states of a run's outputs. Digests of shared inputs are computed once."""

    def __init__(self, config: Config, paths: RunPaths) -> None:
        self.config, self.paths = config, paths
        self.artifacts = Artifacts(config, paths)
        self._digests: dict[Path, str | None] = {}
        self._revisions: dict[str, str | None] = {}
        self._source, self._versions = source_fingerprint(), package_versions()
        self._again = f"delete it; to make it again: stair reproduce --run {config.run}"

    def findings(self, artifacts: Iterable[Artifact] | None = None) -> list[Finding]:
        """The state of outputs, all by default. An output is stale too when it was made from one that is not sound now."""
        by_file: dict[Path, Finding] = {}
        results = []
        for artifact in self.artifacts.all if artifacts is None else artifacts:
            finding = self.finding(artifact)
            for file in artifact.inputs:
                behind = by_file.get(file)
                if behind is not None and behind.state != "ok":
                    finding.add("stale", f"its input {name_in_run(file, self.paths)} is {behind.state}")
            by_file |= dict.fromkeys(artifact.files, finding)
            results.append(finding)
        return results

    def finding(self, artifact: Artifact) -> Finding:
        """One output by itself."""
        finding = Finding(artifact)
        absent = [file for file in artifact.files if _is_absent(file)]
        if absent:
            name = name_in_run(absent[0], self.paths)
            finding.add("missing", f"{name} does not exist; to make it: stair reproduce --run {self.config.run}")
            return finding
        manifest = self._sealed(finding, artifact.files)
        if manifest is None or finding.state == "damaged":
            return finding
        origin = manifest[ORIGIN]
        if missing := missing_note(manifest):
            finding.notes.append(missing)
        self._check_lineage(finding, origin, "restored_from" in manifest)
        if CODE not in artifact.settings and manifest.get("source") != self._source:
            finding.notes.append("the code of this generating stage has changed (reported only: nothing reruns)")
        for name, was in manifest["versions"].items():
            if (now := self._versions.get(name)) != was:
                finding.notes.append(f"made with {name} {was}; installed is {now or 'none'}")
        return finding

    def damage(self, artifact: Artifact, files: Iterable[Path]) -> str:
        """The first difference of files of an output from what was sealed, with the remedy; empty without one.

        A file without a manifest was not made by the workflow, and is as it should be.
        """
        finding = Finding(artifact)
        if artifact.manifest.exists():
            self._sealed(finding, files)
        return next(iter(finding.reasons), "")

    def _sealed(self, finding: Finding, files: Iterable[Path]) -> dict[str, Any] | None:
        """An output's manifest, after a check that the files are as it says; None if it has no sound one."""
        artifact = finding.artifact
        try:
            manifest = read_manifest(artifact.manifest)
        except FileNotFoundError:
            self._without_manifest(finding, "does not exist, so the origin is unknown")
            return None
        except PermissionError:
            name = name_in_run(artifact.manifest, self.paths)
            finding.add("damaged", f"{name} cannot be read; check its permissions")
            return None
        except (OSError, ValueError) as error:
            self._without_manifest(finding, f"cannot be read ({type(error).__name__})")
            return None
        origin = manifest[ORIGIN]
        if [origin["rule"], *origin["name"]] != [artifact.output.name, *artifact.name]:
            self._without_manifest(finding, f"is that of {' '.join((origin['rule'], *origin['name']))}")
            return None
        self._check_contents(finding, files, origin["files"])
        return manifest

    def _without_manifest(self, finding: Finding, fault: str) -> None:
        artifact = finding.artifact
        first = name_in_run(artifact.files[0], self.paths)
        remedy = f"restore it, or delete {first}; to make both again: stair reproduce --run {self.config.run}"
        finding.add("damaged", f"{name_in_run(artifact.manifest, self.paths)} {fault}; {remedy}")

    def _check_contents(self, finding: Finding, files: Iterable[Path], sealed: dict[str, Any]) -> None:
        artifact = finding.artifact
        for file in files:
            name = name_in_run(file, self.paths)
            digest = self._digest(file)
            if digest is None:
                finding.add("damaged", f"{name} cannot be read; check its permissions, or {self._again}")
            elif sealed.get(name) != digest:
                finding.add("damaged", f"{name} does not match its sealed checksum; {self._again}")
        if artifact.schema is None or finding.state == "damaged":
            return
        name = name_in_run(artifact.files[0], self.paths)
        try:
            if not pq.read_schema(artifact.files[0]).equals(artifact.schema):
                finding.add("damaged", f"{name} does not have the columns of its stage; {self._again}")
                return
            # The checksum covers the other columns, which would take gigabytes of memory.
            table = pq.read_table(artifact.files[0], columns=[column for column, _ in artifact.constant_columns])
        except (OSError, pa.ArrowInvalid) as error:
            finding.add("damaged", f"{name} cannot be read as Parquet ({str(error).splitlines()[0]}); {self._again}")
            return
        for column, value in artifact.constant_columns:
            foreign = [entry for entry in pc.unique(table[column]).to_pylist() if entry != value]
            if foreign:
                finding.add(
                    "damaged", f"{name} holds rows of the {column} '{foreign[0]}', not of '{value}'; {self._again}"
                )

    def _check_lineage(self, finding: Finding, origin: dict[str, Any], restored: bool) -> None:
        artifact = finding.artifact
        inputs, models, settings = origin["inputs"], origin["models"], origin["settings"]
        current_inputs = {name_in_run(file, self.paths): file for file in artifact.inputs}
        for name in sorted(current_inputs.keys() | inputs.keys()):
            if name not in inputs:
                finding.add("stale", f"it would be made from {name} too")
            elif name not in current_inputs:
                finding.add("stale", f"it was made from {name}, which it would not use now")
            elif restored and _is_absent(current_inputs[name]):
                note = "restored from an archive, without all of its inputs"
                finding.notes += [note] if note not in finding.notes else []
            elif (digest := self._digest(current_inputs[name])) != inputs[name]:
                finding.add("stale", f"its input {name} " + ("has changed" if digest else "cannot be read"))
        for model in artifact.models:
            now = self._revision(model)
            if now is not None and models.get(model) != now:
                finding.add("stale", f"the model {model} has changed")
        now_settings = as_recorded(artifact.settings)
        changes = [
            change for key in sorted(settings.keys() | now_settings.keys())
            for change in differences(key, settings.get(key), now_settings.get(key))
        ]  # fmt: skip
        for change in changes[:_SHOWN_CHANGES]:
            finding.add("stale", change)
        if len(changes) > _SHOWN_CHANGES:
            finding.add("stale", f"{len(changes) - _SHOWN_CHANGES} more settings have changed")

    def _digest(self, file: Path) -> str | None:
        if file not in self._digests:
            try:
                self._digests[file] = file_digest(file)
            except OSError:
                self._digests[file] = None
        return self._digests[file]

    def _revision(self, model: str) -> str | None:
        if model not in self._revisions:
            try:
                self._revisions[model] = revision(self.config, self.paths, model, remember=False)
            except OSError:
                self._revisions[model] = None
        return self._revisions[model]


def damage(config: Config, paths: RunPaths, files: Iterable[Path]) -> str:
    """What is wrong with the first damaged output among files, and the remedy; empty if all are sound."""
    verification = Verification(config, paths)
    by_file, of_output = verification.artifacts.by_file, dict[Artifact, list[Path]]()
    for file in files:
        if file in by_file:
            of_output.setdefault(by_file[file], []).append(file)
    return next(filter(None, (verification.damage(*each) for each in of_output.items())), "")


def _is_absent(file: Path) -> bool:
    """Whether a file does not exist. A file without permissions counts as existing; reading it raises the error."""
    try:
        return not file.is_file()
    except OSError:
        return False


def differences(key: str, was: Any, now: Any) -> list[str]:
    """How a setting differs, in words, down to the value that does."""
    if was == now:
        return []
    if key == CODE:
        return ["the code that makes it has changed"]
    if isinstance(was, dict) and isinstance(now, dict):
        return [
            change
            for name in sorted(was.keys() | now.keys())
            for change in differences(f"{key}.{name}", was.get(name), now.get(name))
        ]
    return [f"{key} was {_short(was)}, is {_short(now)}"]


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."
