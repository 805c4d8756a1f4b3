"""Whether an output's files are what its manifest sealed: readable, unchanged, with the columns and keys of their stage."""

from __future__ import annotations

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
from stair.graph.origin import ORIGIN
from stair.graph.recorded_origin import name_in_run, read_manifest
from stair.graph.start_command import start_command
from stair.records.keys import file_digest

State = Literal["ok", "missing", "damaged", "stale"]


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


class Integrity:
    """Checks the files of a run's outputs against their manifests."""

    def __init__(self, config: Config, paths: RunPaths) -> None:
        self._paths = paths
        self._digests: dict[Path, str | None] = {}
        self._make = start_command(config, paths)
        self._delete = f"delete it; to make it again: {self._make}"

    def check(self, finding: Finding, files: Iterable[Path]) -> dict[str, Any] | None:
        """Adds the damage of files to a finding on their output; returns the output's manifest, None without a sound one."""
        artifact = finding.artifact
        try:
            manifest = read_manifest(artifact.manifest)
        except FileNotFoundError:
            self._without_manifest(finding, "does not exist, so the origin is unknown")
            return None
        except PermissionError:
            name = name_in_run(artifact.manifest, self._paths)
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
        first = name_in_run(artifact.files[0], self._paths)
        remedy = f"restore it, or delete {first}; to make both again: {self._make}"
        finding.add("damaged", f"{name_in_run(artifact.manifest, self._paths)} {fault}; {remedy}")

    def _check_contents(self, finding: Finding, files: Iterable[Path], sealed: dict[str, Any]) -> None:
        for file in files:
            name = name_in_run(file, self._paths)
            digest = self.digest(file)
            if digest is None:
                finding.add("damaged", f"{name} cannot be read; check its permissions, or {self._delete}")
            elif sealed.get(name) != digest:
                finding.add("damaged", f"{name} does not match its sealed checksum; {self._delete}")
        if finding.artifact.schema is not None and finding.state != "damaged":
            self._check_table(finding)

    def _check_table(self, finding: Finding) -> None:
        """Checks the columns of a table, and those that have one value in all rows."""
        artifact = finding.artifact
        name = name_in_run(artifact.files[0], self._paths)
        try:
            if not pq.read_schema(artifact.files[0]).equals(artifact.schema):
                finding.add("damaged", f"{name} does not have the columns of its stage; {self._delete}")
                return
            # The checksum covers the other columns, which would take gigabytes of memory.
            table = pq.read_table(artifact.files[0], columns=[column for column, _ in artifact.constant_columns])
        except (OSError, pa.ArrowInvalid) as error:
            finding.add("damaged", f"{name} cannot be read as Parquet ({str(error).splitlines()[0]}); {self._delete}")
            return
        for column, value in artifact.constant_columns:
            foreign = [entry for entry in pc.unique(table[column]).to_pylist() if entry != value]
            if foreign:
                finding.add(
                    "damaged", f"{name} holds rows of the {column} '{foreign[0]}', not of '{value}'; {self._delete}"
                )

    def digest(self, file: Path) -> str | None:
        """A file's digest, computed once; None for a file that cannot be read."""
        if file not in self._digests:
            try:
                self._digests[file] = file_digest(file)
            except OSError:
                self._digests[file] = None
        return self._digests[file]


def damage(config: Config, paths: RunPaths, files: Iterable[Path]) -> str:
    """The damage of the first damaged output among files, and the remedy; empty if all are sound.

    A file without a manifest was not made by the workflow, and counts as sound.
    """
    integrity = Integrity(config, paths)
    by_file, of_output = Artifacts(config, paths).by_file, dict[Artifact, list[Path]]()
    for file in files:
        if file in by_file:
            of_output.setdefault(by_file[file], []).append(file)
    for artifact, some in of_output.items():
        finding = Finding(artifact)
        if artifact.manifest.exists():
            integrity.check(finding, some)
        if finding.reasons:
            return finding.reasons[0]
    return ""
