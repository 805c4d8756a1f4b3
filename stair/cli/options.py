"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import run_folder

JobRunOption = Annotated[
    Path,
    typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER", show_default=False),
]
"""Of a stage's command: Snakemake runs it in the run's folder."""
InputsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="[INPUTS]", help="The job's input files, which the rule passes: checked first, and recorded."
    ),
]
RunOption = Annotated[
    Path,
    typer.Option(
        "--run", help="The run's name, overlay or folder, for example results/tiny.", metavar="RUN", callback=run_folder
    ),
]
"""Of a command that reads a run. The command gets the run's folder."""
RunNameOption = Annotated[str, typer.Option("--run", help="A run of workflow/runs, or the path of an overlay.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE as for snakemake --config; repeatable.")
]
ModelOption = Annotated[str, typer.Option(help="The model's key.")]
BenchmarkOption = Annotated[str, typer.Option(help="The benchmark's key.")]
ConditionOption = Annotated[str, typer.Option(help="The condition's key.")]
ThreadsOption = Annotated[int, typer.Option(min=1, help="Threads that torch computes with.")]
ShardOption = Annotated[int, typer.Option(min=0, help="This shard's number, from 0.")]
OfOption = Annotated[int, typer.Option("--of", min=1, help="The number of shards.")]
