"""Commands that start a run, or print its configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stair.cli.options import RunNameOption, SettingsOption

commands = typer.Typer()


@commands.command()
def reproduce(
    run: RunNameOption = "tiny",
    go: Annotated[bool, typer.Option("--go", help="Start a run that is marked as expensive.")] = False,
    target: Annotated[str, typer.Option(help="A stage, or all.")] = "all",
    cores: Annotated[str | None, typer.Option(help="Cores to use (default: all).")] = None,
    profile: Annotated[
        str | None, typer.Option(help="Where jobs run: a folder of profiles/, or the path of one.")
    ] = None,
    set_: SettingsOption = None,
) -> None:
    """Run or resume the workflow and show the main table.

    Keeps all finished work of an interrupted run. Reads config.yaml and the run's overlay. Writes results/RUN.
    """
    from stair.cli.reproduce import reproduce as start

    start(run, go=go, target=target, cores=cores, profile=profile, settings=set_ or [])


@commands.command()
def config(
    run: RunNameOption = "tiny",
    set_: SettingsOption = None,
    key: Annotated[str | None, typer.Option(help="Print this key's value alone, e.g. sglang.device.")] = None,
    write: Annotated[bool, typer.Option("--write", help="Also write it to the run's folder.")] = False,
) -> None:
    """Print a run's resolved configuration, every key. It is config.yaml with the overlay and --set."""
    from stair.cli.reproduce import parse_settings
    from stair.config.paths import RunPaths, project_root
    from stair.config.resolve import dump, resolve, value_at
    from stair.pipeline.driver import refuse_second_driver
    from stair.pipeline.input_checks import input_faults, refuse
    from stair.records.files import write_text_if_changed

    overrides = {"run": run} | parse_settings(set_ or [])
    resolved = resolve(project_root(), overrides)
    paths = RunPaths.of(resolved)
    refuse(input_faults(resolved, paths))
    if write:
        refuse_second_driver(paths)  # its jobs read this file
        write_text_if_changed(paths.resolved, dump(resolved))
    print(dump(resolved) if key is None else value_at(resolved, key), end="")


@commands.command()
def plan(
    run: RunNameOption = "tiny",
    set_: SettingsOption = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", help="A finished run, whose speeds and lengths replace assumed ones.", metavar="RUN"),
    ] = None,
    cores: Annotated[int | None, typer.Option(min=1, help="Cores of the machine (default: this one's).")] = None,
    gpus: Annotated[int | None, typer.Option(min=1, help="GPUs of the machine (default: this one's, or 1).")] = None,
    gpu_memory: Annotated[float, typer.Option(min=1, help="GB of each GPU: names the jobs that do not fit.")] = 80,
) -> None:
    """Print what a run will cost and can decide (docs/planning.md).

    Starts no job. Reads config.yaml, the run's overlay and data sets that are there, and with --from the records of a
    finished run. Writes nothing.
    """
    from functools import partial

    from rich.console import Console
    from rich.progress import track

    from stair.cli.context import open_run, run_folder
    from stair.cli.reproduce import parse_settings
    from stair.config.paths import RunPaths, project_root
    from stair.config.resolve import resolve
    from stair.pipeline.plan import Machine, Planner, cost_lines, measured

    resolved = resolve(project_root(), {"run": run} | parse_settings(set_ or []))
    learned = None if source is None else measured(*open_run(run_folder(source)))
    planner = Planner(resolved, RunPaths.of(resolved), learned)
    here = Machine.here()
    machine = Machine(cores or here.cores, gpus or here.gpus, gpu_memory)
    print("\n".join(cost_lines(planner, machine)), end="\n\n", flush=True)

    from stair.paper.claims.detectable import claim_lines  # takes a second

    terminal = Console(stderr=True)
    watched = partial(track, description="Claims", console=terminal, transient=True, disable=not terminal.is_terminal)
    print("\n".join(claim_lines(resolved, planner.problems(), watched)))
