"""The command line. Commands import what they need when they run, so that `--help` and cheap stages are quick."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stair.cli.context import open_run, set_threads, watch_driver
from stair.records.interruption import EXIT_AGAIN, Interrupted, listen
from stair.records.progress import duration

if TYPE_CHECKING:
    from stair.artifacts.tables.table import Table
    from stair.config.model import Config
    from stair.config.paths import RunPaths

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=(
        "Reproduce the STAIR paper. The workflow calls these commands; each reads the resolved configuration of its run "
        "(RESULTS/RUN/config.resolved.yaml) and nothing else of the configuration. Start with: stair reproduce"
    ),
)

RunOption = Annotated[Path, typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER")]
ModelOption = Annotated[str, typer.Option(help="The model's key.")]
BenchmarkOption = Annotated[str, typer.Option(help="The benchmark's key.")]
ConditionOption = Annotated[str, typer.Option(help="The condition's key.")]
ThreadsOption = Annotated[int, typer.Option(min=1, help="Threads that torch computes with.")]
ShardOption = Annotated[int, typer.Option(min=0, help="This shard's number, from 0.")]
OfOption = Annotated[int, typer.Option("--of", min=1, help="How many shards there are.")]


@app.command()
def reproduce(
    run: Annotated[str, typer.Option(help="A run of workflow/runs, or the path of an overlay.")] = "tiny",
    go: Annotated[bool, typer.Option("--go", help="Start a run that is marked as expensive.")] = False,
    target: Annotated[str, typer.Option(help="A stage, if not everything.")] = "all",
    cores: Annotated[str | None, typer.Option(help="Cores to use (default: all).")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE as for snakemake --config; repeatable.")
    ] = None,
) -> None:
    """Run the workflow from where it stands and show the main table.

    Finished work is kept, whatever ended the run before. Reads config.yaml and the run's overlay; writes results/RUN.
    """
    from stair.cli.reproduce import reproduce as start

    start(run, go=go, target=target, cores=cores, settings=set_ or [])


@app.command()
def config(
    run: Annotated[str, typer.Option(help="A run of workflow/runs, or the path of an overlay.")] = "tiny",
    set_: Annotated[
        list[str] | None, typer.Option("--set", help="KEY=VALUE as for snakemake --config; repeatable.")
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Write it to the run's folder too.")] = False,
) -> None:
    """Print a run's resolved configuration: config.yaml, the overlay and --set, every key present."""
    from stair.cli.reproduce import parse_settings, project_root
    from stair.config.paths import RunPaths
    from stair.config.preflight import check_inputs
    from stair.config.resolve import dump, resolve
    from stair.records.files import write_text_if_changed

    resolved = resolve(project_root(), {"run": run} | parse_settings(set_ or []))
    paths = RunPaths.of(resolved)
    check_inputs(resolved, paths)
    if write:
        write_text_if_changed(paths.resolved, dump(resolved))
    print(dump(resolved), end="")


@app.command()
def schema() -> None:
    """Print the configuration's JSON schema (workflow/schemas/config.schema.yaml is this)."""
    from stair.config.schema import schema_text

    print(schema_text(), end="")


@app.command()
def fetch(
    run: RunOption,
    only: Annotated[
        list[str] | None,
        typer.Option(help="A place in the configuration: models.KEY, benchmarks.KEY or training_pool; repeatable."),
    ] = None,
) -> None:
    """Fetch the run's models and data sets from the hub into the cache (hub.cache). The only command that uses the network.

    Looks at access, sizes and free space first, and goes on with what an earlier attempt left. Records the commits that came
    in hub.lock; what is recorded there must come again.
    """
    from stair.data.fetch import fetch as start

    start(*open_run(run), only or ())


@app.command()
def raw(run: RunOption, name: Annotated[str, typer.Option(help="A benchmark's key, or training_pool.")]) -> None:
    """Generate a small data set in the schema of the real one. Writes raw/."""
    from stair.tiny.stage import write_raw

    write_raw(*_asked(run, "raw", name), name)
    _record(run, "raw", name)


@app.command()
def backbone(run: RunOption, model: ModelOption, threads: ThreadsOption = 1) -> None:
    """Train a small backbone that stands for a model. Writes backbones/MODEL, an ordinary Hugging Face folder."""
    set_threads(threads)
    if _taken_over(run, "backbone", model):
        return
    from stair.tiny.stage import train

    train(*open_run(run), model)
    _record(run, "backbone", model)


@app.command()
def data(
    run: RunOption,
    benchmark: Annotated[str | None, typer.Option(help="Write this benchmark's table.")] = None,
    model: Annotated[str | None, typer.Option(help="Write this model's training problems.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write the data report.")] = False,
) -> None:
    """Clean a data set, or report on all.

    Reads its file; writes data/benchmarks/BENCHMARK.parquet, data/training/MODEL.parquet and MODEL.cleaning.json, or
    data/report.md, report.json, counts.csv and near_duplicates.csv.
    """
    from stair.data import stage

    settings, paths = open_run(run)
    if (model is not None) + (benchmark is not None) + report != 1:
        raise ValueError("give --benchmark, --model or --report")
    if report:
        from stair.data.report import write_report

        write_report(settings, paths)
        _record(run, "data_report")
    elif benchmark is not None and not _taken_over(run, "benchmark", benchmark, runs=False):
        stage.benchmark(settings, paths, benchmark)
        _record(run, "benchmark", benchmark)
    elif model is not None and not _taken_over(run, "training_pool", model, runs=False):
        stage.training_pool(settings, paths, model)
        _record(run, "training_pool", model)


@app.command()
def preflight(
    run: RunOption,
    model: ModelOption,
    limits: Annotated[bool, typer.Option("--limits", help="Look at the longest prompts instead.")] = False,
) -> None:
    """Look at what a model's tokenizer, template and weights really do. Writes preflight/MODEL.json or MODEL.limits.json.

    Needs no GPU and reads no weight. Stops at the first property that does not hold, and at a template other than before.
    """
    set_threads(1)
    from stair.preflight import stage

    if limits:
        stage.limits(*_asked(run, "preflight_limits", model), model)
        _record(run, "preflight_limits", model)
    else:
        stage.run(*_asked(run, "preflight", model), model)
        _record(run, "preflight", model)


@app.command()
def rollouts(
    run: RunOption,
    model: ModelOption,
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[
        bool, typer.Option("--seal", help="Write rollouts/MODEL.parquet from the logs, without a model.")
    ] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the data card rollouts/MODEL.README.md.")] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Generate training responses: one shard, or the seal of all. Finished responses are taken from the logs."""
    set_threads(threads)
    from stair.rollouts import stage

    if card:
        from stair.rollouts.card import write_card

        write_card(*_asked(run, "data_card", model), model)
        _record(run, "data_card", model)
    elif seal:
        if not _taken_over(run, "rollouts", model, runs=False):
            stage.seal(*open_run(run), model)
            _record(run, "rollouts", model)
    else:
        from stair.workflow.gpus import own_gpus

        settings, paths = _asked(run, "rollouts", model)
        with own_gpus(settings.gpus_for(settings.rollout_engine(model))):
            stage.generate(settings, paths, model, shard, of)


@app.command()
def sessions(
    run: RunOption,
    model: Annotated[str | None, typer.Option(help="Build this model's training and validation sessions.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Build this benchmark's schedule.")] = None,
) -> None:
    """Build four-turn sessions. Writes sessions/."""
    from stair.sessions import stage

    if (model is None) == (benchmark is None):
        raise ValueError("give --model or --benchmark")
    if model is not None:
        stage.training(*_asked(run, "training_sessions", model), model)
        _record(run, "training_sessions", model)
    elif benchmark is not None:
        stage.evaluation(*_asked(run, "evaluation_sessions", benchmark), benchmark)
        _record(run, "evaluation_sessions", benchmark)


@app.command()
def train(
    run: RunOption,
    model: ModelOption,
    controller: Annotated[str, typer.Option(help="The controller's key.")],
    threads: ThreadsOption = 1,
) -> None:
    """Train a controller on a model's sessions. Writes controllers/MODEL/CONTROLLER; goes on from its newest checkpoint.

    Under `torchrun --no-python`, each process replays its share of an update's sessions.
    """
    set_threads(threads)
    from stair.records.claims import Claim
    from stair.training.workers import Workers, local_device
    from stair.workflow.gpus import own_gpus

    settings, paths = open_run(run)
    # Workers of one training share a machine's GPUs among themselves.
    wanted = 0 if "WORLD_SIZE" in os.environ else settings.gpus_for("transformers")
    with own_gpus(wanted), Workers.joined(local_device(settings.transformers.device)) as workers:
        if workers.any(workers.first and _taken_over(run, "controller", model, controller)):
            return
        from stair.training import stage

        claim = Claim(paths.work("training", model, controller), "training") if workers.first else nullcontext()
        with claim:
            stage.run(settings, paths, model, controller, workers)
        if workers.first:
            _record(run, "controller", model, controller)
        workers.wait()


@app.command()
def evaluate(
    run: RunOption,
    model: ModelOption,
    benchmark: BenchmarkOption,
    condition: ConditionOption,
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[bool, typer.Option("--seal", help="Write the responses from the logs, without a model.")] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Generate a condition's responses: one shard, or the seal of all. Writes responses/MODEL/BENCHMARK/CONDITION.parquet."""
    set_threads(threads)
    from stair.evaluation import stage

    if seal:
        if not _taken_over(run, "responses", model, benchmark, condition, runs=False):
            stage.seal(*open_run(run), model, benchmark, condition)
            _record(run, "responses", model, benchmark, condition)
    else:
        from stair.workflow.gpus import own_gpus

        settings, paths = _asked(run, "responses", model, benchmark, condition)
        with own_gpus(settings.gpus_for(settings.engine_for(model, benchmark))):
            stage.generate(settings, paths, model, benchmark, condition, shard, of)


@app.command()
def scores(
    run: RunOption,
    model: ModelOption,
    benchmark: BenchmarkOption,
    condition: ConditionOption,
    threads: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
) -> None:
    """Give verdicts on a condition's responses. Writes evaluation/MODEL/BENCHMARK/CONDITION.parquet."""
    from stair.evaluation.scores import score_condition

    score_condition(*_asked(run, "scores", model, benchmark, condition), model, benchmark, condition, threads)
    _record(run, "scores", model, benchmark, condition)


@app.command()
def check(run: RunOption) -> None:
    """Hold the run's data to every invariant of the protocol. Writes checks.csv, a line each; a failure blocks the tables."""
    from stair.checks.stage import run as run_checks

    checks = run_checks(*open_run(run))
    _record(run, "check")
    for one in checks:
        print(f"holds: {one.name} ({one.scope}, {one.rows} rows)" + (f": {one.detail}" if one.detail else ""))


@app.command()
def score(
    source: Annotated[
        Path, typer.Argument(help="JSON lines with id, kind, response, reference; or scored lines, with --compare.")
    ],
    target: Annotated[Path, typer.Argument(help="Where scored lines go; or other scored lines, with --compare.")],
    compare: Annotated[
        bool, typer.Option("--compare", help="List the lines on which two scored files differ.")
    ] = False,
    threads: Annotated[int | None, typer.Option(min=1, help="Worker processes (default: the processors).")] = None,
    accept_choice_text: Annotated[
        bool, typer.Option("--accept-choice-text", help="Accept an option's own text beside its letter.")
    ] = False,
) -> None:
    """Give verdicts on responses in a file, or compare two scored files.

    Reads one JSON object a line: id, kind (math, integer, choice), response, reference, and optionally problem_hint (the
    problem's text), choices (its options), finish_reason. Writes id, answer, verdict (correct, wrong, no_answer, timeout),
    correct. Malformed lines are named and left out; the exit code is then 1.
    """
    from stair.scoring.files import compare_files, score_file

    if compare:
        differences = compare_files(source, target)
        for one in differences:
            print(f"{one.id}: {one.old_verdict} ({one.old_answer}) -> {one.new_verdict} ({one.new_answer})")
        print(f"{len(differences)} lines differ")
        return
    told = ScoringProgress()
    report = score_file(source, target, progress=told, workers=threads, accept_choice_text=accept_choice_text)
    print(f"{report.scored} scored: " + ", ".join(f"{count} {verdict}" for verdict, count in report.verdicts.items()))
    for line in report.malformed:
        print(f"stair: error: {source}, {line}", file=sys.stderr)
    if report.malformed:
        raise SystemExit(1)


@app.command()
def tables(
    run: Annotated[
        Path | None, typer.Option("--run", help="The run's folder, for example results/tiny.", metavar="FOLDER")
    ] = None,
    name: Annotated[str, typer.Option(help="The table's name.")] = "continuous_summary",
    responses: Annotated[
        Path | None, typer.Option(help="A folder of scored rows, in place of a run.", metavar="FOLDER")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the tables go, with --responses.", metavar="FOLDER")] = None,
) -> None:
    """Lay tables out from scored rows: one of a run (--run), or all that a folder of rows gives (--responses --out).

    With --run, writes tables/NAME.csv, .md and .tex. With --responses, reads evaluation/MODEL/BENCHMARK/CONDITION.parquet (or
    MODEL/BENCHMARK/CONDITION.parquet) below the folder and needs no other stage.
    """
    from stair.artifacts.labels import Labels
    from stair.artifacts.stage import build, write

    if responses is not None and out is not None and run is None:
        from stair.artifacts.from_rows import tables_from
        from stair.cli.reproduce import project_root
        from stair.config.resolve import RESOLVED, load_run, resolve

        # A run's own folder says what its models are called, and what they are.
        whole_run = (responses / RESOLVED).is_file()
        order = load_run(responses) if whole_run else resolve(project_root(), {"run": "paper"})
        made = tables_from(responses, out, order)
        _tell_gaps(made)
        print(f"made {len(made)} tables in {out}: {', '.join(table.name for table in made)}")
        return
    if run is None or responses is not None or out is not None:
        raise ValueError("give --run, or --responses and --out")
    settings, paths = _asked(run, "table", name)
    table = build(settings, paths, name)
    write(table, Labels.of(settings), lambda suffix: paths.table(name, suffix))
    _tell_gaps([table])
    _record(run, "table", name)


def _tell_gaps(tables: Sequence[Table]) -> None:
    from stair.artifacts.tables.table import gap_reasons

    for reason in dict.fromkeys(reason for table in tables for reason in gap_reasons(table.values)):
        print(f"not reported: {reason}", file=sys.stderr)


@app.command()
def export(
    run: RunOption,
    out: Annotated[Path, typer.Option(help="A new folder.", metavar="FOLDER")],
) -> None:
    """Write what may be published of a run: scored rows, tables, figures, reports.

    Of benchmarks with publish_text: false, responses become digests; ids, letters and verdicts stay.
    """
    from stair.artifacts.export import export as write

    count = write(*open_run(run), out)
    print(f"{out}: {count} scored rows")


@app.command()
def figures(run: RunOption, name: Annotated[str, typer.Option(help="The figure's name.")] = "overview") -> None:
    """Draw a figure from scored rows, or of training curves (training_MODEL). Writes figures/NAME.pdf, .png, .csv."""
    from stair.artifacts.figures.figure import write
    from stair.artifacts.labels import Labels
    from stair.artifacts.names import TRAINING_FIGURE

    settings, paths = open_run(run)
    if name.startswith(TRAINING_FIGURE):
        from stair.artifacts.figures.training import of_run

        figure, rule = of_run(settings, paths, name.removeprefix(TRAINING_FIGURE)), "training_figure"
    else:
        from stair.artifacts.stage import build_figure

        figure, rule = build_figure(settings, paths, name), "figure"
    write(figure, Labels.of(settings), lambda suffix: paths.figure(name, suffix))
    _record(run, rule, name)


@app.command()
def show(run: RunOption, name: Annotated[str, typer.Option(help="The table's name.")] = "continuous_summary") -> None:
    """Print a table of a finished run in the terminal."""
    from rich.console import Console

    from stair.artifacts.layout import terminal
    from stair.artifacts.stage import build

    settings, paths = open_run(run)
    layout = build(settings, paths, name).layout
    console = Console()
    console.print(terminal(layout, console.width))


@app.command()
def budget(
    run: RunOption,
    against: Annotated[Path | None, typer.Option(help="A document with a table of budgets to compare with.")] = None,
    renew: Annotated[bool, typer.Option("--renew", help="Write what was measured into that document.")] = False,
) -> None:
    """Print what each rule's jobs took. With --against, warn of what takes clearly longer than the document says.

    Reads work/timings of the run. A warning does not change the exit code: machines differ.
    """
    from stair.records.files import write_text
    from stair.workflow import budget as costs

    found = costs.measured(open_run(run)[1].work("timings"))
    print(costs.table(found), end="")
    if against is None:
        return
    text = against.read_text(encoding="utf-8")
    if renew:
        write_text(against, costs.replaced(text, found))
        return
    for line in costs.overruns(found, costs.documented(text)):
        print(f"warning: {line} ({against})", file=sys.stderr)


@app.command()
def provenance(run: RunOption) -> None:
    """Sum up what made a run's results: versions, hardware, seeds, revisions, costs, every output with its checksum.

    Reads the manifests and the generated tables' counts; writes provenance.json.
    """
    from stair.provenance.summary import summary
    from stair.records.files import write_json

    settings, paths = open_run(run)
    told = summary(settings, paths)
    write_json(paths.provenance, told)
    _record(run, "provenance")
    generated = told["costs"]["generated"]["all"]
    seconds = sum(rule["seconds"] for rule in told["costs"]["rules"].values())
    print(
        f"{paths.provenance}: {sum(output is not None for output in told['outputs'].values())} outputs, "
        f"{generated['responses']} responses of {generated['response_tokens']} tokens, {duration(seconds)} of jobs"
    )


@app.command()
def restore(
    archive: Annotated[
        Path, typer.Argument(help="A folder laid out as a run's, or a .tar.gz or .zip of one, with manifests.")
    ],
    run: RunOption,
) -> None:
    """Take controllers, responses and other outputs of a published archive in place of computing them.

    Taken is what is whole and made under equal settings, by equal model contents, from equal inputs. Writes restored/, from
    where the workflow's next start puts it in place. Ends with 1 when something was not taken.
    """
    from stair.provenance.restore import restore as take

    outcomes = take(*open_run(run), archive)
    for outcome in outcomes:
        if outcome.reason:
            print(f"not taken: {outcome.name}: {outcome.reason}")
        else:
            print("; ".join([f"{'taken' if outcome.taken else 'left'}: {outcome.name}", *outcome.notes]))
    refused = sum(bool(outcome.reason) for outcome in outcomes)
    print(f"{sum(outcome.taken for outcome in outcomes)} taken, {refused} not taken; the workflow puts them in place")
    if refused:
        raise SystemExit(1)


@app.command()
def compact(run: RunOption) -> None:
    """Make the files of every work log one, without torn lines and duplicates, and remove what dead processes left unfinished.

    No record is lost, whatever happens. A log that a process writes to is left as it is. Writes work/.
    """
    from stair.records.claims import ClaimedError
    from stair.records.compaction import compact as compact_log
    from stair.records.files import remove_leftovers

    _, paths = open_run(run)
    for folder in sorted(paths.work().glob("**/log")):
        try:
            done = compact_log(folder.parent, always=True)
        except ClaimedError as error:
            print(f"left as it is: {error}")
            continue
        if done is not None:
            print(f"{folder}: {done.files} files with {done.records} records made one, {done.freed} bytes freed")
    if count := remove_leftovers(paths.folder):
        print(f"{count} unfinished files of processes that have ended removed")


@app.command()
def status(
    run: RunOption,
    json_: Annotated[bool, typer.Option("--json", help="For programs: one JSON object.")] = False,
) -> None:
    """Say how far a run's long jobs are: tokens a second, responses under way, done of total, time left, shard by shard.

    Reads work/progress of the run and changes nothing; jobs may be at work on other machines.
    """
    import json

    from stair.workflow.status import as_json, table, watched

    found = watched(*open_run(run))
    if json_:
        print(json.dumps(as_json(found), indent=2))
        return
    from rich.console import Console

    console = Console()
    console.print(table(found))


@app.command()
def verify(
    run: RunOption,
    json_: Annotated[bool, typer.Option("--json", help="For programs: a JSON object an output, one a line.")] = False,
) -> None:
    """Say of every output whether it is whole, and made by what the configuration and its inputs are now.

    Reads everything and changes nothing. Ends with 1 when an output is missing, damaged or stale.
    """
    import json

    from stair.provenance.record import shown
    from stair.provenance.verify import Verification

    settings, paths = open_run(run)
    counts: dict[str, int] = {}
    notes: dict[str, int] = {}
    for finding in Verification(settings, paths).findings():
        counts[finding.state] = counts.get(finding.state, 0) + 1
        name = shown(finding.artefact.files[0], paths)
        for note in finding.notes:
            notes[note] = notes.get(note, 0) + 1
        if json_:
            told = {"file": name, "state": finding.state, "reasons": finding.reasons, "notes": finding.notes}
            print(json.dumps(told, ensure_ascii=False))
        elif finding.state != "ok":
            print(f"{finding.state}: {name}: {'; '.join(finding.reasons)}")
    if not json_:
        for note, count in notes.items():
            print(f"note, of {count} outputs: {note}")
        print(", ".join(f"{counts.get(state, 0)} {state}" for state in ("ok", "missing", "damaged", "stale")))
    if set(counts) - {"ok"}:
        raise SystemExit(1)


@app.command()
def why(
    file: Annotated[Path, typer.Argument(help="An output of a run: a table, rows, a controller, ...")],
    run: Annotated[
        Path | None,
        typer.Option("--run", help="The run's folder; found from the file when left out.", metavar="FOLDER"),
    ] = None,
    json_: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Tell what made a file, back to data, weights, settings, code and versions, and what would make it stale."""
    import json

    from stair.config.resolve import RESOLVED
    from stair.provenance.lineage import as_json, lineage, told
    from stair.provenance.verify import Verification

    folder = run or next((parent for parent in file.resolve().parents if (parent / RESOLVED).is_file()), None)
    if folder is None:
        raise ValueError(f"{file} is in no run's folder (none above it has a {RESOLVED}); name the run with --run")
    verification = Verification(*open_run(folder))
    root = lineage(verification, file)
    if json_:
        print(json.dumps(as_json(verification, root), indent=2, ensure_ascii=False))
    else:
        print("\n".join(told(verification, root)))


def _asked(run: Path, rule: str, *name: str) -> tuple[Config, RunPaths]:
    """The configuration and paths of a run that asks for a job's outputs. Raises ValueError where it does not."""
    from stair.provenance.artefacts import Artefacts

    settings, paths = open_run(run)
    Artefacts(settings, paths, everything=True).of(rule, *name)
    return settings, paths


def _taken_over(run: Path, rule: str, *name: str, runs: bool = True) -> bool:
    """Whether a job's outputs were restored from an archive, or (with `runs`) another run that is reused had them."""
    from stair.provenance.reuse import take_over

    source = take_over(*open_run(run), rule, *name, runs=runs)
    if source is not None:
        print(f"{' '.join((rule, *name))}: taken over from {source}")
    return source is not None


def _record(run: Path, rule: str, *name: str) -> None:
    """Writes into the manifests of a job's outputs what they were made from."""
    from stair.provenance.record import record

    record(*open_run(run), rule, *name)


class ScoringProgress:
    """Says now and then how far a long scoring is, by the bytes read."""

    def __init__(self) -> None:
        self._started = self._told = time.monotonic()

    def __call__(self, read: int, total: int) -> None:
        now = time.monotonic()
        if now - self._told < 5 or not read:
            return
        self._told = now
        left = (now - self._started) / read * (total - read)
        print(f"{read / total:.0%} scored, about {duration(left)} left", file=sys.stderr)


def main() -> None:
    """Runs a command; an error is one line on stderr and exit code 2 (1 for what the program promised itself).

    A command that SIGTERM or SIGUSR1 has stopped ends with 75: run it again.
    """
    watch_driver()
    try:
        listen()
        app(standalone_mode=True, prog_name="stair")
    except Interrupted as stop:
        print(f"stair: {stop}", file=sys.stderr)
        raise SystemExit(EXIT_AGAIN) from None
    except (ValueError, OSError, FloatingPointError, MemoryError) as error:
        if os.environ.get("STAIR_TRACEBACK"):
            traceback.print_exc()
        print(f"stair: error: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        raise SystemExit(2) from None
