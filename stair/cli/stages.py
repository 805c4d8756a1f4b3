"""Commands of the stages: each is the shell line of a rule."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import copied_existing, open_job, open_run, record_origin, set_threads
from stair.cli.options import (
    BenchmarkOption,
    ConditionOption,
    ModelOption,
    OfOption,
    RunOption,
    ShardOption,
    ThreadsOption,
)
from stair.core import SHARED_T1_STUDY

commands = typer.Typer()


@commands.command()
def fetch(
    run: RunOption,
    only: Annotated[
        list[str] | None,
        typer.Option(help="One entry of the configuration: models.KEY, benchmarks.KEY or training_pool; repeatable."),
    ] = None,
) -> None:
    """Download the run's models and data sets from the hub into the cache (hub.cache). No other job uses the network.

    Checks access, sizes and free space first. Resumes partial downloads. Records the downloaded commits in the lock file
    (hub.lock); later downloads must match it.
    """
    from stair.hub.fetch import fetch as start

    start(*open_run(run), only or ())


@commands.command()
def raw(run: RunOption, name: Annotated[str, typer.Option(help="A benchmark's key, or training_pool.")]) -> None:
    """Generate a small data set with the schema of the real one. Writes raw/."""
    from stair.tiny.stage import write_raw

    write_raw(*open_job(run, "raw", name), name)
    record_origin(run, "raw", name)


@commands.command()
def backbone(run: RunOption, model: ModelOption, threads: ThreadsOption = 1) -> None:
    """Train a small backbone in place of a model. Writes FOLDER/backbones/MODEL, a Hugging Face folder."""
    set_threads(threads)
    if copied_existing(run, "backbone", model):
        return
    from stair.tiny.stage import train

    train(*open_run(run), model)
    record_origin(run, "backbone", model)


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


@commands.command()
def data(
    run: RunOption,
    benchmark: Annotated[str | None, typer.Option(help="Write this benchmark's table.")] = None,
    model: Annotated[str | None, typer.Option(help="Write this model's training problems.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write the data report.")] = False,
) -> None:
    """Clean one data set, or report on all.

    Reads the data set's file. Writes data/benchmarks/BENCHMARK.parquet, or data/training/MODEL.parquet and
    MODEL.cleaning.json, or data/report.md, report.json, counts.csv and near_duplicates.csv.
    """
    from stair.data import stage

    if (model is not None) + (benchmark is not None) + report != 1:
        raise ValueError("give --benchmark, --model or --report")
    if report:
        from stair.data.report import write_report

        write_report(*open_job(run, "data_report"))
        record_origin(run, "data_report")
    elif benchmark is not None and not copied_existing(run, "benchmark", benchmark, runs=False):
        stage.benchmark(*open_job(run, "benchmark", benchmark), benchmark)
        record_origin(run, "benchmark", benchmark)
    elif model is not None and not copied_existing(run, "training_pool", model, runs=False):
        stage.training_pool(*open_job(run, "training_pool", model), model)
        record_origin(run, "training_pool", model)


@commands.command()
def preflight(
    run: RunOption,
    model: ModelOption,
    limits: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check the prompts of training_pool or a benchmark instead.")
    ] = None,
) -> None:
    """Check a model's tokenizer, template and weights before generation. Writes preflight/MODEL.json.

    With --limits, check that the longest prompt fits the model's context; writes preflight/limits/MODEL/NAME.json. Needs no
    GPU. Fails at the first property that does not hold, and if the template has changed.
    """
    set_threads(1)
    from stair.preflight import stage

    if limits is not None:
        stage.limits(*open_job(run, "preflight_limits", model, limits), model, limits)
        record_origin(run, "preflight_limits", model, limits)
    else:
        stage.run(*open_job(run, "preflight", model), model)
        record_origin(run, "preflight", model)


@commands.command()
def rollouts(
    run: RunOption,
    model: ModelOption,
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[
        bool, typer.Option("--seal", help="Write rollouts/MODEL.parquet from the work logs, without a model.")
    ] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the data card rollouts/MODEL.README.md.")] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Generate training responses: one shard, or seal all shards. Resumes from the finished responses in the work logs."""
    set_threads(threads)
    from stair.rollouts import stage

    if card:
        from stair.rollouts.card import write_card

        write_card(*open_job(run, "data_card", model), model)
        record_origin(run, "data_card", model)
    elif seal:
        if not copied_existing(run, "rollouts", model, runs=False):
            stage.seal(*open_job(run, "rollouts", model), model)
            record_origin(run, "rollouts", model)
    else:
        from stair.jobs.gpus import own_gpus

        settings, paths = open_job(run, "rollouts", model)
        with own_gpus(settings.gpus_for(settings.rollout_engine(model))):
            stage.generate(settings, paths, model, shard, of)


@commands.command()
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
        stage.training(*open_job(run, "training_sessions", model), model)
        record_origin(run, "training_sessions", model)
    elif benchmark is not None and not copied_existing(run, "evaluation_sessions", benchmark, runs=False):
        stage.evaluation(*open_job(run, "evaluation_sessions", benchmark), benchmark)
        record_origin(run, "evaluation_sessions", benchmark)


@commands.command()
def train(
    run: RunOption,
    model: ModelOption,
    controller: Annotated[str, typer.Option(help="The controller's key.")],
    threads: ThreadsOption = 1,
) -> None:
    """Train a controller on a model's sessions. Resumes from the newest checkpoint. Writes controllers/MODEL/CONTROLLER.

    Under `torchrun --no-python`, each process replays its share of an update's sessions.
    """
    set_threads(threads)
    from stair.jobs.gpus import own_gpus
    from stair.jobs.leases import Lease
    from stair.training.workers import Workers, local_device

    settings, paths = open_run(run)
    # Workers of one training share a machine's GPUs among themselves.
    gpus = 0 if "WORLD_SIZE" in os.environ else settings.gpus_for("transformers")
    with own_gpus(gpus), Workers.joined(local_device(settings.transformers.device)) as workers:
        if workers.any(workers.first and copied_existing(run, "controller", model, controller)):
            return
        from stair.training import stage

        open_job(run, "controller", model, controller)
        lease = Lease(paths.work("training", model, controller), "training") if workers.first else nullcontext()
        with lease:
            stage.run(settings, paths, model, controller, workers)
        if workers.first:
            record_origin(run, "controller", model, controller)
        workers.wait()


@commands.command()
def evaluate(
    run: RunOption,
    model: ModelOption,
    benchmark: Annotated[str, typer.Option(help="The benchmark's key; not with --card.")] = "",
    condition: Annotated[str, typer.Option(help="The condition's key; not with --card.")] = "",
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[
        bool, typer.Option("--seal", help="Write the responses from the work logs, without a model.")
    ] = False,
    card: Annotated[bool, typer.Option("--card", help="Write the data card responses/MODEL.README.md.")] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Generate a condition's responses: one shard, or seal all shards. Resumes from the work logs.

    The seal writes responses/MODEL/BENCHMARK/CONDITION.parquet.
    """
    set_threads(threads)
    if bool(benchmark) + bool(condition) != (0 if card else 2):
        raise ValueError("give --benchmark and --condition, or --card")
    if card:
        from stair.evaluation.card import write_card

        write_card(*open_job(run, "response_card", model), model)
        record_origin(run, "response_card", model)
    else:
        _answer("responses", run, (model, benchmark, condition), shard, of, seal)


@commands.command()
def controls(
    run: RunOption,
    model: ModelOption,
    benchmark: BenchmarkOption,
    condition: ConditionOption,
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[bool, typer.Option("--seal", help="Write the responses from the logs, without a model.")] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Generate responses of the study with a shared T1 history: one shard of a condition, or the seal of all.

    Writes responses/MODEL/BENCHMARK/shared_t1/CONDITION.parquet. Every condition but t1 answers after the responses of t1.
    """
    set_threads(threads)
    _answer(SHARED_T1_STUDY, run, (model, benchmark, condition), shard, of, seal)


def _answer(output: str, run: Path, place: tuple[str, str, str], shard: int, of: int, seal: bool) -> None:
    """Generate or seal one condition of continuous evaluation (`responses`) or of the study with a shared T1 history."""
    from stair.config.paths import shared_t1
    from stair.evaluation import stage

    if seal and copied_existing(run, output, *place, runs=False):
        return
    settings, paths = open_job(run, output, *place)
    if output == SHARED_T1_STUDY:
        settings, paths = shared_t1(settings, paths)
    if seal:
        stage.seal(settings, paths, *place)
        record_origin(run, output, *place)
    else:
        from stair.jobs.gpus import own_gpus

        with own_gpus(settings.gpus_for(settings.engine_for(*place[:2]))):
            stage.generate(settings, paths, *place, shard, of)


@commands.command()
def replay(
    run: RunOption,
    model: ModelOption,
    design: Annotated[
        bool, typer.Option("--design", help="Choose histories and current problems, without the model's weights.")
    ] = False,
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[
        bool,
        typer.Option("--seal", help="Write the index cells.parquet once every batch is measured, without a model."),
    ] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Replay current problems after saved histories: the design, one shard of the measurements, or the seal of all.

    Writes replay/MODEL/. Resumes: does not repeat measured batches of this run, or of the runs of `reuse`.
    """
    set_threads(threads)
    from stair.replay import stage

    if design and seal:
        raise ValueError("give --design or --seal, not both")
    if design:
        if not copied_existing(run, "replay_design", model, runs=False):
            stage.design(*open_job(run, "replay_design", model), model)
            record_origin(run, "replay_design", model)
    elif seal:
        stage.seal(*open_job(run, "replay", model), model)
        record_origin(run, "replay", model)
    else:
        from stair.jobs.gpus import own_gpus
        from stair.jobs.shards import Shard

        settings, paths = open_job(run, "replay", model)
        with own_gpus(settings.gpus_for("transformers")):
            stage.measure(settings, paths, model, Shard(shard, of))


@commands.command()
def runtime(run: RunOption, model: ModelOption, threads: ThreadsOption = 1) -> None:
    """Measure what reading a bank costs: transfer, prefill, decoding, memory. Writes runtime/MODEL.csv.

    Resumes from the finished measurements in the work log.
    """
    set_threads(threads)
    from stair.jobs.gpus import own_gpus
    from stair.runtime import stage

    if copied_existing(run, "runtime", model, runs=False):
        return
    settings, paths = open_job(run, "runtime", model)
    with own_gpus(settings.gpus_for("transformers")):
        stage.run(settings, paths, model)
    record_origin(run, "runtime", model)


@commands.command()
def scores(
    run: RunOption,
    model: ModelOption,
    benchmark: BenchmarkOption,
    condition: ConditionOption,
    controls: Annotated[
        bool, typer.Option("--controls", help="A condition of the study with a shared T1 history.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
) -> None:
    """Give verdicts on a condition's responses. Writes evaluation/MODEL/BENCHMARK/CONDITION.parquet.

    With --controls, writes shared_t1/MODEL/BENCHMARK/CONDITION.parquet.
    """
    from stair.evaluation.scores import score_condition

    output = "shared_t1_scores" if controls else "scores"
    if copied_existing(run, output, model, benchmark, condition, runs=False):
        return
    settings, paths = open_job(run, output, model, benchmark, condition)
    paths = paths.shared_t1 if controls else paths
    score_condition(
        paths.benchmark(benchmark),
        paths.responses(model, benchmark, condition),
        paths.evaluation(model, benchmark, condition),
        kind=settings.benchmarks[benchmark].kind,
        name=f"{model}/{benchmark}/{condition}",
        workers=threads,
    )
    record_origin(run, output, model, benchmark, condition)


@commands.command()
def check(run: RunOption) -> None:
    """Check the run's data against every invariant of the protocol. Writes checks.csv; a failed check blocks the tables."""
    from stair.checks.stage import run as run_checks
    from stair.graph.outputs import NEEDED
    from stair.graph.run import Run

    if copied_existing(run, "check", runs=False):
        return
    settings, paths = open_job(run, "check")
    checks = run_checks(settings, paths, NEEDED.trained_models(Run(settings, paths)))
    record_origin(run, "check")
    for passed in checks:
        print(
            f"holds: {passed.name} ({passed.scope}, {passed.rows} rows)"
            + (f": {passed.detail}" if passed.detail else "")
        )


@commands.command()
def replay_statistics(
    run: RunOption,
    model: ModelOption,
    part: Annotated[str, typer.Option(help="attention, geometry or read_prediction.")],
    threads: ThreadsOption = 1,
) -> None:
    """Analyze a measured replay on a CPU. Reads the measurements in replay/MODEL/states; writes replay/MODEL/PART.parquet."""
    set_threads(threads)
    from stair.replay.analyze import analyze

    if not copied_existing(run, "replay_statistics", model, part, runs=False):
        analyze(*open_job(run, "replay_statistics", model, part), model, part)
        record_origin(run, "replay_statistics", model, part)
