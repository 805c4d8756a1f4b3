"""Commands about a run's files: downloads, verification, lineage and archives."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import open_run
from stair.cli.options import JobRunOption, RunOption

commands = typer.Typer()


@commands.command()
def verify(
    run: RunOption,
    json_: Annotated[
        bool, typer.Option("--json", help="For programs: one JSON object for each output, one a line.")
    ] = False,
) -> None:
    """Check that every output is complete and agrees with its checksum, its inputs and the present configuration.

    A dry run of Snakemake lists the stale jobs. Changes nothing. Exits with 1 if an output is missing, damaged or stale.
    """
    import json
    from collections import Counter

    from stair.pipeline.verify import verify as check

    verification = check(*open_run(run))
    outputs = [output for output in verification.outputs if not output.left_out]
    states = Counter(output.state for output in outputs)
    if json_:
        for output in outputs:
            entry = {"file": output.name, "state": output.state, "reasons": output.reasons, "notes": output.notes}
            print(json.dumps(entry, ensure_ascii=False))
    else:
        for line in verification.lines():
            print(line)
        for note, count in Counter(note for output in outputs for note in output.notes).items():
            print(f"note on {count} output{'s' if count > 1 else ''}: {note}")
        print(", ".join(f"{states[state]} {state}" for state in ("ok", "missing", "damaged", "stale")))
    if states.keys() - {"ok"}:
        raise SystemExit(1)


@commands.command()
def why(
    file: Annotated[Path, typer.Argument(help="An output of a run: a table, rows, a controller, ...")],
    run: Annotated[
        Path | None,
        typer.Option("--run", help="The run's folder (default: the one that contains the file).", metavar="FOLDER"),
    ] = None,
) -> None:
    """Print a file's lineage: data, weights, settings, code, versions. Shows the changes that would make it stale."""
    from stair.config.resolve import RESOLVED, run_around
    from stair.pipeline.lineage import lineage_lines, output_of
    from stair.pipeline.verify import Verification

    folder = run or run_around(file)
    if folder is None:
        raise ValueError(f"{file} is in no run's folder (none above it has a {RESOLVED}); name the run with --run")
    verification = Verification(*open_run(folder))
    verification.follow()
    print("\n".join(lineage_lines(verification, output_of(verification, file))))


@commands.command()
def restore(
    archive: Annotated[
        Path, typer.Argument(help="A folder with the layout of a run, or a .tar.gz of one, with manifests.")
    ],
    run: RunOption,
) -> None:
    """Copy controllers, responses and other outputs of a published archive into a run, instead of computing them.

    Copies undamaged outputs with the run's settings and inputs into place. Exits with 1 if an output was rejected.
    """
    from stair.pipeline.restore import restore as copy

    outcomes = copy(*open_run(run), archive)
    for outcome in outcomes:
        if outcome.reason:
            print(f"not restored: {outcome.name}: {outcome.reason}")
        else:
            print("; ".join([f"{'restored' if outcome.restorable else 'kept'}: {outcome.name}", *outcome.notes]))
    rejected = sum(bool(outcome.reason) for outcome in outcomes)
    print(f"{sum(outcome.restorable for outcome in outcomes)} restored, {rejected} not restored")
    if rejected:
        raise SystemExit(1)


@commands.command()
def from_archive(
    archive: Annotated[Path, typer.Argument(help="What `stair export` wrote: a .tar.gz or a folder.")],
    run: Annotated[
        str | None, typer.Option(help="The archived run's overlay, if it is a file of yours (default: the run's name).")
    ] = None,
    cores: Annotated[str | None, typer.Option(help="Cores to use (default: all).")] = None,
) -> None:
    """Make every table and figure of an archived run again, without a model, a GPU or the network.

    Copies the archive's outputs into a new folder results/RUN and runs the rest of the workflow. Compares tables, figures,
    comparison and claims with the archive's, byte for byte. Exits with 1 if an output is rejected or a file differs.
    """
    from stair.cli.from_archive import from_archive as start

    start(archive, run, cores)


@commands.command()
def fetch(
    run: JobRunOption = Path(),
    only: Annotated[
        list[str] | None,
        typer.Option(help="One entry of the configuration: models.KEY, benchmarks.KEY or training_pool; repeatable."),
    ] = None,
) -> None:
    """Download the run's models and data sets from the hub into the cache (hub.cache). No other job uses the network.

    Checks access, sizes and free space first. Keeps complete files. Records the downloaded commits in the lock file (hub.lock);
    later downloads must match it.
    """
    from stair.models.hub.fetch import fetch as start

    start(*open_run(run), only or ())


@commands.command()
def compare_backbones(
    run: RunOption,
    write: Annotated[
        bool, typer.Option("--write", help="Replace the backbones that come with the project by the run's.")
    ] = False,
) -> None:
    """Compare the small backbones that a run has trained with those that come with the project (backbones/).

    Prints accuracies and digests. Weights depend on the processor, so a digest that differs is no error.
    """
    from stair.tiny.shipped import ship, shipped_digests, trained

    backbones, digests = trained(*open_run(run)), shipped_digests()
    for each in backbones:
        shipped = digests.get(each.name)
        if shipped is None:
            print(f"{each.name}: not shipped; SHA-256 {each.digest}")
        elif shipped == each.digest:
            print(f"{each.name}: as shipped; SHA-256 {each.digest}")
        else:
            print(f"{each.name}: NOT AS SHIPPED; SHA-256 {each.digest}, shipped {shipped}")
        for benchmark, turns in each.accuracies.items():
            print(f"  {benchmark}: " + ", ".join(f"{turn} {share:.0%}" for turn, share in turns.items()))
        if each.last["outside"]:
            print(f"  warning: out of bounds: {', '.join(each.last['outside'])}")
    if any(digests.get(each.name) != each.digest for each in backbones):
        print("Accuracies of the shipped backbones: backbones/README.md")
    if write:
        ship(backbones)
        print(
            "Written: backbones/, with its model card and digests. To do: the digests in tests/tiny/test_shipped.py, and "
            "docs/tiny.md with its picture after a new tiny run"
        )
