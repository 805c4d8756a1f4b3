"""Commands that make or show results: verdicts, tables, figures, copies for publication."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stair.cli.context import OpenJob, open_job, open_run
from stair.cli.options import InputsArgument, JobRunOption, RunOption

if TYPE_CHECKING:
    from stair.paper.tables.table import Table

commands = typer.Typer()


@commands.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    short_help="Give verdicts on responses in a file, or compare two graded files: the command answer-grader.",
)
def score(context: typer.Context) -> None:
    from answer_grader.__main__ import main

    sys.exit(main(context.args))


@commands.command()
def tables(
    inputs: InputsArgument = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER")
    ] = None,
    name: Annotated[str, typer.Option(help="The table's name.")] = "continuous_summary",
    responses: Annotated[
        Path | None, typer.Option(help="A folder of scored rows, instead of a run.", metavar="FOLDER")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder for the tables, with --responses.", metavar="FOLDER")
    ] = None,
) -> None:
    """Make tables from scored rows: one table of a run (--run), or all tables of a folder of rows (--responses --out).

    With --run, writes tables/NAME.csv, .md, .tex and .html. With --responses, reads
    evaluation/MODEL/BENCHMARK/CONDITION.parquet (or MODEL/BENCHMARK/CONDITION.parquet) below the folder and needs no other
    stage. Rows without the column bank_tokens are accepted; the number of truncated banks is then not reported.
    """
    from stair.paper.stage import build, labels_of, write
    from stair.paper.table_inputs import TABLE_SUFFIXES

    if responses is not None and out is not None and run is None:
        from stair.config.resolve import RESOLVED, load_run, resolve
        from stair.config.root import project_root
        from stair.paper.stage import tables_from

        # A run's own folder names its models.
        whole_run = (responses / RESOLVED).is_file()
        order = load_run(responses) if whole_run else resolve(project_root(), {"run": "paper"})
        written = tables_from(responses, out, order)
        _print_gap_reasons(written)
        print(f"made {len(written)} tables in {out}: {', '.join(table.name for table in written)}")
        return
    if run is None or responses is not None or out is not None:
        raise ValueError("give --run, or --responses and --out")
    job = open_job(run, "table", inputs, table=name)
    table = build(job.config, job.paths, name)
    write(table, labels_of(job.config, name), lambda suffix: job.paths.table(name, suffix))
    job.record([job.paths.table(name, suffix) for suffix in TABLE_SUFFIXES])
    _print_gap_reasons([table])


def _print_gap_reasons(tables: Sequence[Table]) -> None:
    from stair.paper.tables.table import gap_reasons

    for reason in dict.fromkeys(reason for table in tables for reason in gap_reasons(table.values)):
        print(f"not reported: {reason}", file=sys.stderr)


@commands.command()
def compare(inputs: InputsArgument = None, run: JobRunOption = Path()) -> None:
    """Compare the run's numbers with the paper's. Writes comparison.csv and its summary, comparison.md (docs/comparison.md).

    Reads the CSVs of tables and figures, and scored rows for the intervals of sampled numbers.
    """
    from stair.paper.comparison.stage import of_run, write

    job = open_job(run, "comparison", inputs)
    settings, paths = job.config, job.paths
    compared = of_run(settings, paths)
    if job.writable:
        write(compared, settings, paths.comparison())
        job.record([paths.comparison(".csv"), paths.comparison(".md")])
    print(f"{_written(job, paths.comparison('.md'))}: {_counts(each.verdict for each in compared)}")


@commands.command()
def claims(run: RunOption, inputs: InputsArgument = None) -> None:
    """Test the paper's claims on the run. Writes claims.csv and its short table, claims.md (docs/comparison.md).

    Reads what `stair compare` reads. A claim of a stage that the run does not have is reported as not run.
    """
    from stair.paper.claims.stage import of_run, write

    job = open_job(run, "claims", inputs)
    settings, paths = job.config, job.paths
    judged = of_run(settings, paths)
    if job.writable:
        write(judged, settings, paths.claims())
        job.record([paths.claims(".csv"), paths.claims(".md")])
    print(f"{_written(job, paths.claims('.md'))}: {_counts(each.verdict for each in judged)}")


def _written(job: OpenJob, file: Path) -> str:
    return str(file) if job.writable else f"{job.paths.folder} (not written: its folder is read-only)"


def _counts(verdicts: Iterable[str]) -> str:
    return ", ".join(f"{count} {verdict}" for verdict, count in Counter(verdicts).items())


@commands.command()
def figures(
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    name: Annotated[str, typer.Option(help="The figure's name.")] = "overview",
) -> None:
    """Draw a figure. Writes figures/NAME.pdf, .png and .csv.

    Names: overview (from scored rows); method, training_scope (diagrams of the controllers); training_MODEL (from
    training curves); bank_cost_MODEL (from runtime measurements); attention, neighborhood, read_prediction (from an
    analyzed replay); historical_computation (from an analyzed replay and scored rows).
    """
    from stair.paper.figures import bank_cost, method, training, training_scope
    from stair.paper.figures.figure import write
    from stair.paper.labels import Labels
    from stair.paper.stage import build_figure
    from stair.paper.table_inputs import (
        BANK_COST_FIGURE,
        DIAGRAMS,
        FIGURE_SUFFIXES,
        TRAINING_FIGURE,
        TRAINING_SCOPE,
        cost_figures,
        training_figures,
    )

    job = open_job(run, "figure", inputs, figure=name)
    settings, paths = job.config, job.paths
    if name in DIAGRAMS:
        figure = (training_scope if name == TRAINING_SCOPE else method).of_run(settings, paths)
    elif name in training_figures(settings):
        figure = training.of_run(settings, paths, name.removeprefix(TRAINING_FIGURE))
    elif name in cost_figures(settings):
        figure = bank_cost.of_run(settings, paths, name.removeprefix(BANK_COST_FIGURE))
    else:
        figure = build_figure(settings, paths, name)
    write(figure, Labels.of(settings), lambda suffix: paths.figure(name, suffix))
    job.record([paths.figure(name, suffix) for suffix in FIGURE_SUFFIXES])


@commands.command()
def report(run: RunOption, inputs: InputsArgument = None) -> None:
    """Write the report: one page with the run's outcome, scope, cost, tables and figures. Writes report.html.

    Reads tables/*.html, figures/*.png, comparison.csv, claims.csv and provenance.json. The page needs no network.
    """
    from stair.paper.report.stage import write_report

    job = open_job(run, "report", inputs)
    write_report(job.config, job.paths)
    job.record([job.paths.report])
    print(job.paths.report)


@commands.command()
def paper(run: RunOption) -> None:
    """Set the paper's tables and figures of a run in one PDF. Writes paper.pdf; needs pdfLaTeX.

    Reads tables/*.tex and figures/*.pdf.
    """
    from stair.paper.paper_pdf import write_paper

    settings, paths = open_run(run)
    count = write_paper(settings, paths)
    print(f"{paths.paper}: {count} tables and figures")


@commands.command()
def show(run: RunOption, name: Annotated[str, typer.Option(help="The table's name.")] = "continuous_summary") -> None:
    """Print a table of a finished run in the terminal."""
    from rich.console import Console

    from stair.paper.layout import terminal
    from stair.paper.stage import build

    job = open_job(run, "table", None, table=name)
    layout = build(job.config, job.paths, name).layout
    Console().print(terminal(layout))


@commands.command()
def export(
    run: RunOption,
    out: Annotated[
        Path, typer.Option(help="A new folder, or an archive: a name that ends with .tar.gz.", metavar="PATH")
    ],
) -> None:
    """Write a copy of a run for publication: scored rows, controllers, statistics, tables, figures, manifests.

    For benchmarks with publish_text: false, digests replace the responses; ids, letters and verdicts stay. `stair
    from-archive` makes every table and figure again from the copy. Equal runs give equal bytes.
    """
    from stair.pipeline.export import export as write
    from stair.pipeline.verify import verify
    from stair.records.archive_files import pack
    from stair.records.files import bytes_text, scratch_folder
    from stair.records.start_command import start_command

    settings, paths = open_run(run)
    if unsound := [output for output in verify(settings, paths).outputs if output.state != "ok"]:
        name, state, reason = unsound[0].name, unsound[0].state, unsound[0].reasons[0]
        more = f", and {len(unsound) - 1} more outputs are not ok" if len(unsound) > 1 else ""
        print(
            f"warning: {name} is {state} ({reason}){more}; `stair from-archive` may reject them. First run: "
            f"{start_command(settings, paths)}",
            file=sys.stderr,
        )
    if not out.name.endswith(".tar.gz"):
        print(f"{out}: {write(settings, paths, out)} scored rows")
        return
    with scratch_folder(out.with_suffix("")) as folder:
        count = write(settings, paths, folder / "run")
        pack(folder / "run", out, f"stair-{settings.run}")
    print(f"{out}: {count} scored rows, {bytes_text(out.stat().st_size)}")
