"""The outputs of one run: every job of the table, with its files, inputs and settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.graph.output_kind import OutputKind
from stair.graph.outputs import OUTPUTS
from stair.graph.run import Run
from stair.graph.settings import Settings


@dataclass(frozen=True, eq=False)
class Artifact:
    """Files of one job that share a manifest."""

    run: Run
    output: OutputKind
    name: tuple[str, ...]
    """The job's name: its model, benchmark and condition, as far as it has them."""
    files: tuple[Path, ...]
    manifest: Path

    @cached_property
    def inputs(self) -> tuple[Path, ...]:
        """Files of earlier stages, and from outside the run."""
        groups = self.output.made_from(self.run, *self.name)
        return tuple(dict.fromkeys(file for group in groups.values() for file in group))

    @cached_property
    def settings(self) -> Settings:
        """The rule's settings; those with code in them take a moment."""
        return self.output.settings(self.run, *self.name)

    @property
    def models(self) -> tuple[str, ...]:
        """Models whose weights are used; their contents count as one input each."""
        trained = self.output.uses_model and not self.output.random_weights(self.run)
        return (self.values["model"],) if trained else ()

    @property
    def schema(self) -> pa.Schema | None:
        """The columns of a Parquet table; None for other files."""
        return self.output.schema if self.files[0].suffix == ".parquet" else None

    @property
    def constant_columns(self) -> tuple[tuple[str, str], ...]:
        """Columns with one value in every row, each with that value."""
        return tuple((column, self.values[column]) for column in self.output.constant)

    @property
    def title(self) -> str:
        """The output's name for people: `responses qwen3.5-4b aime2025 stair`."""
        return " ".join((self.output.name, *self.name))

    @property
    def values(self) -> dict[str, str]:
        """The job's name by wildcard."""
        return self.output.values(*self.name)


class Artifacts:
    """All outputs of a run, in the order of the graph.

    Args:
        config: the run.
        paths: its files.
        include_unneeded: also training data that no job needs, because the controllers were restored from an archive.
    """

    def __init__(self, config: Config, paths: RunPaths, *, include_unneeded: bool = False) -> None:
        self._run = Run(config, paths, include_unneeded)

    @cached_property
    def all(self) -> tuple[Artifact, ...]:
        """Every output that the configuration asks for."""
        return tuple(
            Artifact(self._run, output, name, piece.files, piece.manifest)
            for output in OUTPUTS.values()
            for name in output.jobs(self._run)
            for piece in output.pieces(self._run, *name)
        )

    @cached_property
    def by_file(self) -> dict[Path, Artifact]:
        """The output that a file belongs to, manifests included."""
        return {file: artifact for artifact in self.all for file in (*artifact.files, artifact.manifest)}

    def behind(self, files: Iterable[Path]) -> list[Artifact]:
        """The outputs that files belong to, and all outputs that these are made from, directly or through others."""
        found: dict[Artifact, None] = {}
        waiting = list(files)
        while waiting:
            artifact = self.by_file.get(waiting.pop())
            if artifact is not None and artifact not in found:
                found[artifact] = None
                waiting += artifact.inputs
        return list(found)

    def of(self, output: str, *name: str) -> list[Artifact]:
        """The outputs of one job. Raises ValueError where the configuration asks for none."""
        matches = [artifact for artifact in self.all if (artifact.output.name, artifact.name) == (output, name)]
        if not matches:
            raise ValueError(
                f"this run's configuration asks for no {output} of {' '.join(name)} (it has{self._alternatives(output, name)})"
            )
        return matches

    def _alternatives(self, output: str, name: tuple[str, ...]) -> str:
        """Valid names that share the longest prefix with a wrong one: the next word of each."""
        names = [artifact.name for artifact in self.all if artifact.output.name == output]
        prefix = max((n for n in range(len(name)) if any(valid[:n] == name[:n] for valid in names)), default=0)
        words = dict.fromkeys(
            valid[prefix] for valid in names if valid[:prefix] == name[:prefix] and len(valid) > prefix
        )
        return (f", of {' '.join(name[:prefix])}: " if prefix else ": ") + (", ".join(words) or "none")
