"""Commands that make or show results: verdicts, tables, figures, copies for publication."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import open_run
from stair.cli.options import TINY, RunOption

commands = typer.Typer()


@commands.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []},
    short_help="Grade responses in a file: the command answer-grader.",
)
def score(context: typer.Context) -> None:
    from answer_grader.__main__ import main

    sys.exit(main(context.args))


@commands.command()
def tables(
    responses: Annotated[Path, typer.Option(help="A folder of scored rows.", metavar="FOLDER")],
    out: Annotated[Path, typer.Option(help="The folder for the tables.", metavar="FOLDER")],
) -> None:
    """Make every table that follows from a folder of scored rows. One table of a run: `stair table`.

    Reads evaluation/MODEL/BENCHMARK/CONDITION.parquet (or MODEL/BENCHMARK/CONDITION.parquet) below the folder and needs no
    other stage. In a run's folder, or in a folder inside it, tables have the run's labels and note; elsewhere the paper's
    labels of the keys. Rows without the column bank_tokens are accepted; the number of truncated banks is then not reported.
    """
    from stair.config.paths import project_root
    from stair.config.resolve import load_run, resolve, run_around
    from stair.paper.make import print_gap_reasons, tables_from

    around = run_around(responses)
    order = load_run(around) if around else resolve(project_root(), {"run": "paper"})
    written = tables_from(responses, out, order)
    print_gap_reasons(written)
    print(f"made {len(written)} tables in {out}: {', '.join(table.name for table in written)}")


@commands.command()
def chat(
    run: RunOption = TINY,
    model: Annotated[str | None, typer.Option(help="A model of the run (default: its first).")] = None,
    controller: Annotated[str, typer.Option(help="A controller that the run has trained for it.")] = "stair",
    seed: Annotated[int, typer.Option(help="The seeds of the answers follow from it.")] = 0,
) -> None:
    """Talk to a model with a trained controller.

    The sampling is that of the run's evaluation. Each line is a message. /native and /stair choose who answers next, /compare
    TEXT prints both answers, /bank the size of the bank. Ctrl-C stops an answer, Ctrl-D ends. Writes nothing. In Python:
    docs/method.md.
    """
    from stair.cli.chat import converse, load

    converse(load(run, model, controller, seed))


@commands.command()
def paper(run: RunOption = TINY) -> None:
    """Set the paper's tables and figures of a run in one PDF. Writes paper.pdf; needs pdfLaTeX.

    Reads tables/*.tex and figures/*.pdf.
    """
    from stair.paper.paper_pdf import write_paper

    settings, paths = open_run(run)
    count = write_paper(settings, paths)
    print(f"{paths.paper}: {count} tables and figures")


@commands.command()
def show(
    run: RunOption = TINY, name: Annotated[str, typer.Option(help="The table's name.")] = "continuous_summary"
) -> None:
    """Print a table of a run in the terminal, as its file has it."""
    from stair.paper.exhibits import named
    from stair.paper.terminal import show as show_page

    settings, paths = open_run(run)
    file = named(settings, "table", name).file(paths, ".md")
    if not file.is_file():
        raise ValueError(f"{file} does not exist; to make it: {paths.start_command()}")
    show_page(file)


@commands.command()
def export(
    run: RunOption = TINY,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A new folder, or a file whose name ends with .tar.gz (default: RUN.tar.gz beside the run's folder).",
            metavar="PATH",
        ),
    ] = None,
) -> None:
    """Write a copy of a run for publication (docs/archive.md).

    It has scored rows, controllers, statistics, tables, figures and manifests. For benchmarks with publish_text: false,
    digests replace the responses; ids, letters and verdicts stay. `stair from-archive` makes every table and figure again
    from the copy. Equal runs give equal bytes. An output of these that is missing, damaged or stale is an error.
    """
    from stair.pipeline.archive import export as write
    from stair.pipeline.archive import pack
    from stair.records.files import bytes_text, scratch_folder

    settings, paths = open_run(run)
    out = out or paths.folder.parent / f"{settings.run}.tar.gz"
    if not out.name.endswith(".tar.gz"):
        print(f"{out}: {write(settings, paths, out)} scored rows")
        return
    with scratch_folder(out.with_suffix("")) as folder:
        count = write(settings, paths, folder / "run")
        pack(folder / "run", out, f"stair-{settings.run}")
    print(f"{out}: {count} scored rows, {bytes_text(out.stat().st_size)}")
