"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import run_folder

RunOption = Annotated[
    Path,
    typer.Option(
        "--run", help="The run's name, overlay or folder, for example results/tiny.", metavar="RUN", callback=run_folder
    ),
]
"""Of a command that reads a run. The command gets the run's folder."""
TINY = Path("tiny")
"""The run of a command without --run."""
RunNameOption = Annotated[str, typer.Option("--run", help="A run of workflow/runs, an overlay, or a run's folder.")]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="KEY=VALUE, e.g. evaluation.samples=8; repeatable.")
]
