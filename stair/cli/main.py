"""The command line. Commands import what they need when they run, so that `--help` and cheap stages start fast."""

from __future__ import annotations

import os
import sys
import traceback

import typer

from stair.cli import inspection, job, results, start, upkeep
from stair.cli.environment import print_every_sign

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Reproduce the STAIR paper. Start with: stair reproduce. From `backbone` on, each command runs one job of the workflow "
        "by hand: it reads its run's resolved configuration (RESULTS/RUN/config.resolved.yaml) alone."
    ),
)
for group in (start, inspection, results, upkeep, job):
    app.add_typer(group.commands)


def main() -> None:
    """Runs a command. A user's error is one line on stderr and exit code 2; a failed assertion is a traceback and 1."""
    print_every_sign()
    try:
        if sys.argv[1:2] != ["job"]:  # the workflow's call, which needs no command for people
            job.add_job_commands()
        app(standalone_mode=True, prog_name="stair")
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        if os.environ.get("STAIR_TRACEBACK"):
            traceback.print_exc()
        message = " ".join(str(error).split()) or type(error).__name__
        print(f"stair: error: {message}", file=sys.stderr)
        raise SystemExit(2) from None
