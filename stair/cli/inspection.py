"""Commands that inspect a machine before a run, and a run while it works."""

from __future__ import annotations

from typing import Annotated

import typer

from stair.cli.context import open_run
from stair.cli.options import TINY, RunOption

commands = typer.Typer()


@commands.command()
def doctor(
    run: Annotated[
        str | None,
        typer.Option(help="Also check what this run needs: a run of workflow/runs, an overlay, or a run's folder."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Report what this machine lacks for a run, with remedies.

    Checks variables of the shell, GPUs and torch's CUDA, packages against the lock file, and whether Slurm accepts jobs. With
    --run, also what `stair config` and `stair reproduce` refuse, the attention, access to the hub for missing downloads, and
    free disk. Changes nothing. Exits with 1 if there is an error.
    """
    import json
    from collections import Counter

    from stair.cli.doctor import examine
    from stair.config.paths import project_root
    from stair.config.resolve import resolve

    root, findings = project_root(), []
    config = None if run is None else resolve(root, {"run": run})
    for finding in examine(root, config, run or ""):
        findings.append(finding)
        if not json_:
            print(f"{finding.level:8}{finding.topic:11}{finding.text}", flush=True)
            if finding.level != "ok":
                print(f"{'':19}remedy: {finding.remedy}", flush=True)
    levels = Counter(finding.level for finding in findings)
    counts = {level: levels[level] for level in ("ok", "warning", "error")}
    if json_:
        print(json.dumps({"counts": counts, "findings": [finding._asdict() for finding in findings]}, indent=2))
    else:
        print(", ".join(f"{number} {level}" for level, number in counts.items()))
    if counts["error"]:
        raise SystemExit(1)


@commands.command()
def status(
    run: RunOption = TINY,
    json_: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Show outputs by stage; running, stopped and failed jobs.

    Reads outputs, progress files and logs. Changes nothing. The jobs may run on other machines. `snakemake -n` lists the
    jobs that would run.
    """
    import json
    import sys

    from stair.pipeline.status import as_json, status_view

    settings, paths = open_run(run)
    if json_:
        print(json.dumps(as_json(settings, paths), indent=2))
        return
    from rich.console import Console

    width = None if sys.stdout.isatty() else 120
    console = Console(markup=False, highlight=False, soft_wrap=True, width=width)
    for part in status_view(settings, paths):
        console.print(part)
