"""The jobs that an output and all its inputs were made by, with their settings: what an archive records of absent inputs."""

from __future__ import annotations

from typing import Any

from stair.graph.artifacts import Artifact, Artifacts
from stair.graph.origin import BEHIND, read_origin
from stair.graph.settings import digest

Behind = list[list[Any]]
"""Pairs of a job, `[output, *name]`, and the digest of its settings; sorted."""


class JobsBehind:
    """Finds the jobs behind a run's outputs by their manifests."""

    def __init__(self, artifacts: Artifacts) -> None:
        self._artifacts = artifacts
        self._found: dict[tuple[str, ...], dict[tuple[str, ...], str]] = {}

    def of(self, artifact: Artifact) -> Behind:
        """The jobs behind an output, without its own."""
        own = (artifact.output.name, *artifact.name)
        return [[list(job), settings] for job, settings in sorted(self._jobs(artifact).items()) if job != own]

    def _jobs(self, artifact: Artifact) -> dict[tuple[str, ...], str]:
        """The jobs behind an output and its own job, each with the digest of its settings."""
        own = (artifact.output.name, *artifact.name)
        if own not in self._found:
            origin = read_origin(artifact.manifest)
            # An output that was restored without its inputs has them in its own record.
            found = {tuple(job): settings for job, settings in (origin or {}).get(BEHIND, ())}
            if origin is not None:
                found[own] = digest(origin["settings"])
            for file in artifact.inputs:
                made_by = self._artifacts.by_file.get(file)
                if made_by is not None:
                    found |= self._jobs(made_by)
            self._found[own] = found
        return self._found[own]
