"""Checks of a run's outputs: present, undamaged, and made under the current configuration. This decides what is stale."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.integrity import Finding, Integrity
from stair.graph.origin import ORIGIN, as_recorded
from stair.graph.recorded_origin import missing_note, name_in_run, revision
from stair.graph.result_settings import CODE
from stair.graph.start_command import start_command
from stair.records.manifest import package_versions, source_fingerprint

_SHOWN_CHANGES = 4


class Verification:
    """The states of a run's outputs. Digests of shared inputs are computed once."""

    def __init__(self, config: Config, paths: RunPaths) -> None:
        self.config, self.paths = config, paths
        self.artifacts = Artifacts(config, paths)
        self._integrity = Integrity(config, paths)
        self._revisions: dict[str, str | None] = {}
        self._source, self._versions = source_fingerprint(), package_versions()

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
            finding.add("missing", f"{name} does not exist; to make it: {start_command(self.config, self.paths)}")
            return finding
        manifest = self._integrity.check(finding, artifact.files)
        if manifest is None or finding.state == "damaged":
            return finding
        origin = manifest[ORIGIN]
        if missing := missing_note(manifest):
            finding.notes.append(missing)
        self._check_inputs(finding, origin["inputs"], "restored_from" in manifest)
        self._check_models(finding, origin["models"])
        self._check_settings(finding, origin["settings"])
        self._note_other_code(finding, manifest)
        return finding

    def _check_inputs(self, finding: Finding, recorded: dict[str, str], restored: bool) -> None:
        current = {name_in_run(file, self.paths): file for file in finding.artifact.inputs}
        for name in sorted(current.keys() | recorded.keys()):
            if name not in recorded:
                finding.add("stale", f"it would be made from {name} too")
            elif name not in current:
                finding.add("stale", f"it was made from {name}, which it would not use now")
            elif restored and _is_absent(current[name]):
                note = "restored from an archive, without all of its inputs"
                finding.notes += [note] if note not in finding.notes else []
            elif (digest := self._integrity.digest(current[name])) != recorded[name]:
                finding.add("stale", f"its input {name} " + ("has changed" if digest else "cannot be read"))

    def _check_models(self, finding: Finding, recorded: dict[str, str]) -> None:
        for model in finding.artifact.models:
            now = self._revision(model)
            if now is not None and recorded.get(model) != now:
                finding.add("stale", f"the model {model} has changed")

    def _check_settings(self, finding: Finding, recorded: dict[str, Any]) -> None:
        now = as_recorded(finding.artifact.settings)
        changes = [
            change for key in sorted(recorded.keys() | now.keys())
            for change in differences(key, recorded.get(key), now.get(key))
        ]  # fmt: skip
        for change in changes[:_SHOWN_CHANGES]:
            finding.add("stale", change)
        if len(changes) > _SHOWN_CHANGES:
            finding.add("stale", f"{len(changes) - _SHOWN_CHANGES} more settings have changed")

    def _note_other_code(self, finding: Finding, manifest: dict[str, Any]) -> None:
        """Notes changed code of a generating stage, and other versions of packages; neither makes an output stale."""
        if CODE not in finding.artifact.settings and manifest.get("source") != self._source:
            finding.notes.append("the code of this generating stage has changed (reported only: nothing reruns)")
        for name, was in manifest["versions"].items():
            if (now := self._versions.get(name)) != was:
                finding.notes.append(f"made with {name} {was}; installed is {now or 'none'}")

    def _revision(self, model: str) -> str | None:
        if model not in self._revisions:
            try:
                self._revisions[model] = revision(self.config, self.paths, model, remember=False)
            except OSError:
                self._revisions[model] = None
        return self._revisions[model]


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
