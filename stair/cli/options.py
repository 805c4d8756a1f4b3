"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

JobRunOption = Annotated[
    Path,
    typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER", show_default=False),
]
"""Of a stage's command: Snakemake runs it in the run's folder."""
RunOption = Annotated[Path, typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER")]
RunNameOption = Annotated[str, typer.Option("--run", help="A run of workflow/runs, or the path of an overlay.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE as for snakemake --config; repeatable.")
]
