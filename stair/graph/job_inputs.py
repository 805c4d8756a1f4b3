"""The input files of Snakemake's jobs: the lineage of an output, and files that only have to come first."""

from __future__ import annotations

from pathlib import Path

from stair.backbones.revision import revision_files
from stair.config.paths import BACKBONE_FILES
from stair.graph.output_kind import Inputs, OutputKind
from stair.graph.outputs import NEEDED, OUTPUTS
from stair.graph.run import Run
from stair.graph.shard_count import shard_count


def inputs(run: Run, output: OutputKind, *name: str) -> Inputs:
    """The files that a job is made from; a data set of the hub is represented by its mark.

    A restored output waits only for files that the run makes anyway.
    """
    groups = output.made_from(run, *name)
    if NEEDED.is_restored(run, output.name, *name):
        produced = set(target_files(run))
        return {group: [file for file in files if file in produced] for group, files in groups.items()}
    marks = _marks_by_file(run)
    return {group: [marks.get(file, file) for file in files] for group, files in groups.items()}


def _marks_by_file(run: Run) -> dict[Path, Path]:
    """The marks of data sets that come from the hub, by their files."""
    sets = {"training_pool": run.config.training_pool, **run.config.benchmarks}
    return {
        run.paths.dataset_file(run.config, name): run.paths.fetched_mark(run.config, name)
        for name, dataset in sets.items()
        if dataset.repository
    }


def weights(run: Run, output: OutputKind, *name: str) -> list[Path]:
    """The files of the model that a job uses; none with random weights.

    A restored output is copied. It waits for the model only where other jobs use the model, because its origin is then
    compared with the model's contents.
    """
    model = output.values(*name)["model"]
    if output.random_weights(run) or (
        NEEDED.is_restored(run, output.name, *name) and model not in NEEDED.used_models(run)
    ):
        return []
    folder = run.paths.model_folder(run.config, model)
    if run.config.models[model].tiny is not None:
        return [folder / file for file in BACKBONE_FILES]
    if run.config.models[model].path is not None:
        return revision_files(folder)
    return [run.paths.model_mark(run.config, model)]


def preflight_results(run: Run, output: OutputKind, *name: str, prompts: str | None = None) -> list[Path]:
    """The preflight results of the model that a job uses, and of its `prompts`; none where `weights` has none."""
    if not weights(run, output, *name) or NEEDED.is_restored(run, output.name, *name):
        return []
    model = output.values(*name)["model"]
    limits = [] if prompts is None else [run.paths.preflight_limits(model, prompts)]
    return [run.paths.preflight(model), *limits]


def markers(run: Run, output: OutputKind, *name: str) -> list[Path]:
    """The completion markers of the shards that a seal waits for; none for a restored output."""
    assert output.shards is not None, f"{output.name} has no shards"
    if NEEDED.is_restored(run, output.name, *name):
        return []
    (piece,), work = output.pieces(run, *name), output.work_of(*name).split("/")
    configured = output.shards.count(run, *name)
    of = shard_count(piece, run.paths.work(*work), lambda: output.settings(run, *name), configured)
    return [run.paths.shard(str(shard), str(of), *work) for shard in range(of)]


def target_files(run: Run, *targets: str) -> list[Path]:
    """The files that a target asks for; without one, those of all targets."""
    return [
        file
        for output in OUTPUTS.values()
        if output.target is not None and (not targets or output.target in targets)
        for file in output.every_file(run)
    ]
