"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RunOption = Annotated[Path, typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER")]
ModelOption = Annotated[str, typer.Option(help="The model's key.")]
BenchmarkOption = Annotated[str, typer.Option(help="The benchmark's key.")]
ConditionOption = Annotated[str, typer.Option(help="The condition's key.")]
ThreadsOption = Annotated[int, typer.Option(min=1, help="Threads that torch computes with.")]
ShardOption = Annotated[int, typer.Option(min=0, help="This shard's number, from 0.")]
OfOption = Annotated[int, typer.Option("--of", min=1, help="The number of shards.")]
