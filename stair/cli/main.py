"""The command line. Commands import what they need when they run, so that `--help` and cheap stages start fast."""

from __future__ import annotations

import os
import sys
import traceback
from textwrap import wrap
from typing import Any

import typer
from typer.core import TyperGroup

from stair.cli import inspection, job, results, start, upkeep
from stair.cli.environment import print_every_sign
from stair.pipeline.jobs import JOBS


class Commands(TyperGroup):
    """Commands for people with a whole sentence each; then the names of those that run one job by hand."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        names = [name for name in self.list_commands(ctx) if not self.commands[name].hidden]
        jobs = [name for name in names if (row := JOBS.get(name.replace("-", "_"))) and not row.prints]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, self.commands[name].get_short_help_str(limit=1_000)) for name in names if name not in jobs]
            )
        with formatter.section("Jobs of the workflow, one by hand (stair NAME --help)"):
            for line in wrap(", ".join(jobs), formatter.width - 4, break_on_hyphens=False):
                formatter.write(f"  {line}\n")


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Reproduce the STAIR paper. Start with: stair reproduce. --run takes a run's name, folder or overlay; without it, "
        "commands are about the tiny run."
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
