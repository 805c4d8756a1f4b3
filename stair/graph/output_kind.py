"""One kind of output, an entry of the graph's table: everything that rules and commands need to know about it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from stair.graph.run import Job, Run, manifest_beside
from stair.graph.settings import Settings, digest

Inputs = dict[str, list[Path]]
"""Files of earlier stages and from outside, in groups that the rules show by name."""


class Shards(NamedTuple):
    """The jobs that share the work of an output, before it is sealed."""

    rule: str
    count: Callable[..., int]
    """How many, from the run and the job's name."""


class Piece(NamedTuple):
    """Files of a job that share a manifest."""

    files: tuple[Path, ...]
    manifest: Path


def _no_inputs(run: Run, *name: str) -> Inputs:
    return {}


@dataclass(frozen=True)
class OutputKind:
    """One kind of output. The functions take the run and the job's name, a value for each of `wildcards`."""

    name: str
    """In manifests, in messages, and in the rules: `made_from("responses")`."""
    rules: tuple[str, ...]
    """The Snakemake rules that write it."""
    jobs: Callable[[Run], Iterable[Job]]
    """The names of all jobs, in an order in which each comes after those that it is made from."""
    files: Callable[..., list[Path]]
    """With `{model}` for a model, and so on, it gives the pattern of the rule's output."""
    settings: Callable[..., Settings]
    wildcards: tuple[str, ...] = ()
    made_from: Callable[..., Inputs] = _no_inputs
    """The lineage: never a shard's marker, never what only has to come first."""
    target: str | None = None
    """The Snakemake target that asks for it; None: made only where another job needs it."""
    manifest: Callable[..., Path] | None = None
    """The manifest that all files share; None: each file has its own beside it."""
    stage_writes_manifest: bool = True
    """Whether the stage writes a manifest, to which the origin is added; else the origin comes with a new one."""
    schema: pa.Schema | None = None
    """The columns of its Parquet files."""
    constant: tuple[str, ...] = ()
    """The wildcards that are columns, with the job's own value in every row."""
    uses_model: bool = False
    """Whether it depends on the weights of the model that its wildcard names."""
    random_weights: Callable[[Run], bool] = lambda run: False
    """Whether a run takes random weights in place of that model's."""
    restorable: bool = False
    """Whether `stair restore` takes it from an archive; all others are computed in moments from these."""
    restorable_alone: bool = False
    """Whether it is restored even if its generated inputs exist neither here nor in the archive: no job makes them then."""
    only_without_inputs: bool = False
    """Whether it is restored only then: with its inputs it is computed again in moments."""
    archived: bool = False
    """Whether `stair export` writes it, with its manifest: what tables and figures are made from without a GPU."""
    work: str = ""
    """The work folder and the progress file of a job that reports how far it is: `training/{model}/{controller}`."""
    shards: Shards | None = None

    def job(self, wildcards: object) -> Job:
        """A job's name, from Snakemake's wildcards."""
        return tuple(getattr(wildcards, name) for name in self.wildcards)

    def values(self, *name: str) -> dict[str, str]:
        """A job's name by wildcard."""
        return dict(zip(self.wildcards, name, strict=True))

    def work_of(self, *name: str) -> str:
        """`work` of one job."""
        return self.work.format(**self.values(*name))

    @property
    def progress(self) -> str:
        """The name of the progress file, with wildcards."""
        return f"{self.work}/{{shard}}" if self.shards else self.work

    @property
    def working_rules(self) -> tuple[str, ...]:
        """The rules whose jobs report how far they are."""
        if not self.work:
            return ()
        return (self.shards.rule,) if self.shards else self.rules

    def settings_digest(self, run: Run, *name: str) -> str:
        """The rule's params."""
        return digest(self.settings(run, *name))

    def every_file(self, run: Run) -> list[Path]:
        """The files of all jobs."""
        return [file for name in self.jobs(run) for file in self.files(run, *name)]

    def pattern(self, run: Run, **fixed: str) -> list[Path]:
        """The files with wildcards for names; `fixed` goes to `files` as it is."""
        return self.files(run, *(f"{{{name}}}" for name in self.wildcards), **fixed)

    def pieces(self, run: Run, *name: str) -> list[Piece]:
        """The files of a job, by their manifests."""
        files = self.files(run, *name)
        if self.manifest is not None:
            return [Piece(tuple(files), self.manifest(run, *name))]
        return [Piece((file,), manifest_beside(file)) for file in files]


Outputs = Mapping[str, OutputKind]
"""The graph's table: the kinds of outputs by name."""
