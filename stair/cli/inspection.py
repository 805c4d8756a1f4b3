"""Commands that inspect a machine before a run, and a run while it works."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import open_run
from stair.cli.options import RunOption

commands = typer.Typer()


@commands.command()
def doctor(
    run: Annotated[
        str | None,
        typer.Option(help="Also check what this run needs: a run of workflow/runs, an overlay, or a run's folder."),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Report what this machine can run: one line for each finding, and a remedy for each warning and error.

    Checks variables of the shell, GPUs, packages against the lock file, and Slurm. With --run, also the files and layers that
    the settings name, each model's attention path, SGLang's environment, access to the hub for missing downloads, and free
    disk. Changes nothing. Exits with 1 if there is an error.
    """
    import json

    from stair.cli.doctor.examination import counts, examine
    from stair.config.resolve import RESOLVED, load_run, resolve
    from stair.config.root import project_root

    root = project_root()
    config = None
    if run is not None:
        folder = Path(run)
        resolved = (folder / RESOLVED).is_file()
        config = load_run(folder) if resolved else resolve(root, {"run": run})
        run = config.run if resolved else run
    findings = []
    for finding in examine(root, config, run):
        findings.append(finding)
        if not json_:
            print(f"{finding.level:8}{finding.topic:11}{finding.text}", flush=True)
            if finding.level != "ok":
                print(f"{'':19}remedy: {finding.remedy}", flush=True)
    counted = counts(findings)
    if json_:
        print(json.dumps({"counts": counted, "findings": [vars(finding) for finding in findings]}, indent=2))
    else:
        print(", ".join(f"{number} {level}" for level, number in counted.items()))
    if counted["error"]:
        raise SystemExit(1)


@commands.command()
def status(
    run: RunOption,
    json_: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Show the state of a run's jobs: running and pending ones, those to come, and failures with the end of their log.

    A dry run of Snakemake lists the jobs, which takes some seconds. Reads work/progress, work/jobs.jsonl and, where jobs
    were submitted to Slurm, its queue. Changes nothing. The jobs may run on other machines.
    """
    import json
    import sys

    from stair.pipeline.slurm_queue import Queue, slurm_queue
    from stair.pipeline.status import all_and_left, as_json, failure_lines, job_states, table, totals, uses_slurm
    from stair.records.slurm import SlurmError

    settings, paths = open_run(run)
    queue: Queue = {}
    fault = None
    if uses_slurm(paths):
        try:
            queue = slurm_queue(ended=True, seconds=10.0)
        except SlurmError as error:
            fault = f"Slurm's queue is unknown: {error}"
            print(f"warning: {fault}", file=sys.stderr)
    jobs = job_states(paths, *all_and_left(settings, paths), queue=queue)
    if json_:
        print(json.dumps(as_json(jobs) | {"queue_error": fault}, indent=2))
        return
    from rich.console import Console

    console = Console()
    console.print(table(jobs))
    for line in (totals(jobs), *failure_lines(jobs)):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
