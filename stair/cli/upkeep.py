"""Commands about a run's files: downloads, verification, origins and archives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import open_run, run_folder
from stair.cli.options import TINY, RunNameOption, RunOption

commands = typer.Typer()


@commands.command()
def verify(
    run: RunOption = TINY,
    json_: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object for each fault, one a line.")
    ] = False,
) -> None:
    """Check every output against its checksum, inputs and settings.

    Reads all outputs and their manifests, and changes nothing. Exits with 1 if an output is missing, damaged or stale.
    `stair status` lists the jobs that are still to run.
    """
    import json
    from collections import Counter, defaultdict

    from stair.pipeline.verify import Receipts, code_note, faults, remedy, version_notes

    config, paths = open_run(run)
    receipts = Receipts(paths.folder)
    found = list(faults(config, receipts))
    if json_:
        for fault in found:
            print(json.dumps({"file": fault.file, "state": fault.state, "reason": fault.reason}, ensure_ascii=False))
    else:
        causes = defaultdict[tuple[str, str], list[str]](list)
        for fault in found:
            causes[fault.state, fault.reason].append(fault.file)
        for (state, reason), files in causes.items():
            more = f" and {len(files) - 3} more" if len(files) > 3 else ""
            print(f"{state}: {', '.join(files[:3])}{more}: {reason}")
        if found:
            print(f"to make them again: {remedy(config, paths, found)}")
        for note in (*version_notes(receipts.manifests), *filter(None, [code_note(config, paths, receipts)])):
            print(f"note: {note}")
        states = Counter({fault.file: fault.state for fault in found}.values())
        sound = len(receipts.made.keys() - {fault.file for fault in found})
        print(", ".join([f"{sound} files ok", *(f"{states[each]} {each}" for each in ("missing", "damaged", "stale"))]))
    if found:
        raise SystemExit(1)


@commands.command()
def why(
    file: Annotated[Path, typer.Argument(help="An output of a run: a table, rows, a controller, ...")],
    run: Annotated[
        Path | None,
        typer.Option("--run", help="The file's run (default: the one that contains the file).", metavar="RUN"),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print every input and its inputs, as a tree.")] = False,
) -> None:
    """Print what a file was made from, and what makes it stale.

    Responses, models, data, code, versions and hardware, and the command that makes the file again.
    """
    from shutil import get_terminal_size

    from stair.config.resolve import RESOLVED, run_around
    from stair.pipeline.verify import Receipts
    from stair.pipeline.why import maker_of, origin_summary, origin_tree

    folder = run_around(file) if run is None else run_folder(run)
    if folder is None:
        raise ValueError(f"{file} is in no run's folder (none above it has a {RESOLVED}); name the run with --run")
    config, paths = open_run(folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder)
    receipts = Receipts(paths.folder)
    made, width = maker_of(receipts, file), get_terminal_size((120, 24)).columns
    lines = origin_tree(config, receipts, made) if full else origin_summary(config, paths, receipts, made, width)
    print("\n".join(lines))


@commands.command()
def from_archive(
    archive: Annotated[Path, typer.Argument(help="What `stair export` wrote: a .tar.gz or a folder.")],
    run: Annotated[
        str | None, typer.Option(help="The archived run's overlay, if it is a file of yours (default: the run's name).")
    ] = None,
    cores: Annotated[str | None, typer.Option(help="Cores to use (default: all).")] = None,
) -> None:
    """Make an archived run's tables and figures again, on a CPU.

    Needs no model and no network. Unpacks the archive as the new folder results/RUN, and makes tables, figures, comparison,
    claims and report again. Compares all but the report with the archive's, byte for byte. Exits with 1 if a file differs.
    """
    from stair.cli.from_archive import from_archive as start

    start(archive, run, cores)


@commands.command()
def fetch(
    run: RunNameOption = "tiny",
    only: Annotated[
        list[str] | None,
        typer.Option(help="One entry of the configuration: models.KEY, benchmarks.KEY or training_pool; repeatable."),
    ] = None,
) -> None:
    """Download the run's models and data sets from the hub.

    They go into the cache (hub.cache); no other job uses the network. Asks for access to all of them first. Keeps complete
    files. Records the commits in the lock file (hub.lock); later downloads get the same ones.
    """
    from stair.config.paths import RunPaths, project_root
    from stair.config.resolve import resolve
    from stair.models.hub import fetch as start

    config = resolve(project_root(), {"run": run})
    start(config, RunPaths.of(config), only or ())
