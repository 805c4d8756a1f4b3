"""Commands of the stages: each is the shell line of a rule."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stair.cli.context import OpenJob, open_job, open_run, set_threads
from stair.cli.options import (
    BenchmarkOption,
    ConditionOption,
    InputsArgument,
    JobRunOption,
    ModelOption,
    OfOption,
    RunOption,
    ShardOption,
    ThreadsOption,
)
from stair.cli.warm import SOCKET
from stair.config.paths import START

commands = typer.Typer()


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
def raw(
    name: Annotated[str, typer.Option(help="A benchmark's key, or training_pool.")], run: JobRunOption = Path()
) -> None:
    """Generate a small data set with the schema of the real one. Writes raw/."""
    from stair.tiny.stage import write_raw

    job = open_job(run, "raw", None, name=name)
    write_raw(job.config, job.paths, name)
    job.record([job.paths.dataset_file(job.config, name)])


@commands.command()
def backbone(model: ModelOption, run: JobRunOption = Path(), threads: ThreadsOption = 1) -> None:
    """Train a small backbone in place of a model. Writes FOLDER/backbones/MODEL, a Hugging Face folder."""
    set_threads(threads)
    job = open_job(run, "backbone", None, model=model)
    outputs = [job.paths.backbone(model)]
    if not job.copied(outputs):
        from stair.tiny.stage import train

        job.record(outputs, **train(job.config, job.paths, model))


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
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    benchmark: Annotated[str | None, typer.Option(help="Write this benchmark's table.")] = None,
    model: Annotated[str | None, typer.Option(help="Write this model's training problems.")] = None,
    report: Annotated[bool, typer.Option("--report", help="Write the data report.")] = False,
) -> None:
    """Clean one data set, or report on all.

    Reads the data set's file. Writes data/benchmarks/BENCHMARK.parquet, or data/training/MODEL.parquet and
    MODEL.cleaning.json, or data/report.md, report.json, counts.csv and near_duplicates.csv.
    """
    from stair.stages.data import stage

    if (model is not None) + (benchmark is not None) + report != 1:
        raise ValueError("give --benchmark, --model or --report")
    if report:
        from stair.stages.data.report import write_report

        job = open_job(run, "data_report", inputs)
        paths = job.paths
        write_report(job.config, paths)
        job.record([paths.data_report(".md"), paths.data_report(".json"), paths.data_counts, paths.near_duplicates])
    elif benchmark is not None:
        job = open_job(run, "benchmark", inputs, benchmark=benchmark)
        job.record([job.paths.benchmark(benchmark)], **stage.benchmark(job.config, job.paths, benchmark))
    elif model is not None:
        job = open_job(run, "training_pool", inputs, model=model)
        facts = stage.training_pool(job.config, job.paths, model)
        job.record([job.paths.training_pool(model), job.paths.cleaning(model)], **facts)


@commands.command()
def preflight(
    model: ModelOption,
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    limits: Annotated[
        str | None, typer.Option(metavar="NAME", help="Check the prompts of training_pool or a benchmark instead.")
    ] = None,
) -> None:
    """Check a model's tokenizer, template and weights before generation. Writes preflight/MODEL.json.

    With --limits, check that the longest prompt fits the model's context; writes preflight/limits/MODEL/NAME.json. Needs no
    GPU. Fails at the first property that does not hold, and if the template has changed.
    """
    set_threads(1)
    from stair.stages.preflight import stage

    if limits is not None:
        job = open_job(run, "preflight_limits", inputs, model=model, prompts=limits)
        stage.limits(job.config, job.paths, model, limits)
        job.record([job.paths.preflight_limits(model, limits)])
    else:
        job = open_job(run, "preflight_model", inputs, model=model)
        stage.run(job.config, job.paths, model)
        job.record([job.paths.preflight(model)])


@commands.command()
def rollouts(
    model: ModelOption,
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
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
    from stair.stages.rollouts import stage

    if card:
        from stair.stages.rollouts.card import write_card

        job = open_job(run, "data_card", inputs, model=model)
        write_card(job.config, job.paths, model)
        job.record([job.paths.data_card(model)])
    elif seal:
        job = open_job(run, "seal_rollouts", inputs, model=model)
        job.record([job.paths.rollouts(model)], **stage.seal(job.config, job.paths, model))
    else:
        from stair.records.gpus import own_gpus

        job = open_job(run, "rollout_shard", inputs, model=model)
        with own_gpus(job.config.gpus_for(job.config.rollout_engine(model))):
            stage.generate(job.config, job.paths, model, shard, of)


@commands.command()
def sessions(
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    model: Annotated[str | None, typer.Option(help="Build this model's training and validation sessions.")] = None,
    benchmark: Annotated[str | None, typer.Option(help="Build this benchmark's schedule.")] = None,
) -> None:
    """Build four-turn sessions. Writes sessions/."""
    from stair.stages.sessions import stage

    if (model is None) == (benchmark is None):
        raise ValueError("give --model or --benchmark")
    if model is not None:
        job = open_job(run, "training_sessions", inputs, model=model)
        paths, facts = job.paths, stage.training(job.config, job.paths, model)
        job.record(
            [paths.training_sessions(model), paths.validation_sessions(model), paths.dropped_records(model)], **facts
        )
    elif benchmark is not None:
        job = open_job(run, "evaluation_sessions", inputs, benchmark=benchmark)
        facts = stage.evaluation(job.config, job.paths, benchmark)
        job.record([job.paths.evaluation_sessions(benchmark)], **facts)


@commands.command()
def train(
    model: ModelOption,
    controller: Annotated[str, typer.Option(help="The controller's key.")],
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    threads: ThreadsOption = 1,
) -> None:
    """Train a controller on a model's sessions. Resumes from the newest checkpoint. Writes controllers/MODEL/CONTROLLER.

    With training.workers, several processes compute their shares of an update's sessions.
    """
    set_threads(threads)
    from stair.records.gpus import own_gpus
    from stair.records.leases import Lease
    from stair.records.manifest import manifest_path
    from stair.stages.training.workers import Workers, local_device

    settings, paths = open_run(run)
    folder = paths.controller(model, controller)
    if START not in os.environ and manifest_path(folder).is_file():
        print(f"{folder} is already trained; to train it again, delete this folder first")
        return
    count, gpus = settings.training.workers, settings.gpus_for("transformers")
    if "WORLD_SIZE" in os.environ:
        gpus = 0  # torchrun holds the GPUs of all its workers
    elif count > 1:
        with own_gpus(count * gpus):
            _become_workers(count)
    with own_gpus(gpus), Workers.joined(local_device(settings.transformers.device)) as workers:
        known = settings.controllers.get(controller)  # `open_job` refuses an unknown one
        rule = _TRAINING_RULES[known.kind] if known else "train_controller"
        job = open_job(run, rule, inputs, model=model, controller=controller)
        outputs = [job.paths.controller(model, controller)]
        if workers.any(workers.first and job.copied(outputs)):
            return
        from stair.stages.training import stage

        lease = Lease(paths.work("training", model, controller), "training") if workers.first else nullcontext()
        with lease:
            record = partial(job.record, outputs)
            stage.run(job.config, job.paths, model, controller, workers, record)


def _become_workers(count: int) -> None:
    """Replaces this process by workers of the same command, each on one of its GPUs."""
    os.environ.pop(SOCKET, None)  # the warm process would run them as one
    launcher = ["torchrun", "--standalone", "--no-python", "--nproc-per-node", str(count), "--"]
    os.execvp("torchrun", [*launcher, "stair", *sys.argv[1:]])


_TRAINING_RULES = {
    "stair": "train_controller",
    "bank_free": "train_controller",
    "lora": "train_lora",
    "lora_stair": "train_lora_stair",
}


@commands.command()
def evaluate(
    model: ModelOption,
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
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
        from stair.stages.evaluation.card import write_card

        job = open_job(run, "response_card", inputs, model=model)
        write_card(job.config, job.paths, model)
        job.record([job.paths.response_card(model)])
    else:
        rule = "seal_evaluation" if seal else "evaluation_shard"
        place = dict(model=model, benchmark=benchmark, condition=condition)
        job = open_job(run, rule, inputs, **place)
        _answer(job, shard, of, seal)


@commands.command()
def controls(
    model: ModelOption,
    benchmark: BenchmarkOption,
    condition: ConditionOption,
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    shard: ShardOption = 0,
    of: OfOption = 1,
    seal: Annotated[bool, typer.Option("--seal", help="Write the responses from the logs, without a model.")] = False,
    threads: ThreadsOption = 1,
) -> None:
    """Generate responses of the study with a shared T1 history: one shard of a condition, or the seal of all.

    Writes responses/MODEL/BENCHMARK/shared_t1/CONDITION.parquet. Every condition but t1 answers after the responses of t1.
    """
    set_threads(threads)
    rule = "seal_controls" if seal else "controls_shard"
    job = open_job(run, rule, inputs, model=model, benchmark=benchmark, condition=condition)
    _answer(job, shard, of, seal)


def _answer(job: OpenJob, shard: int, of: int, seal: bool) -> None:
    from stair.config.paths import shared_t1
    from stair.stages.evaluation import stage

    settings, paths, (model, benchmark, condition) = job.config, job.paths, job.wildcards.values()
    if job.rule in ("seal_controls", "controls_shard"):
        settings, paths = shared_t1(settings, paths)
    if condition not in settings.conditions or (model, benchmark) not in settings.evaluated(condition):
        raise ValueError(f"the run has no condition '{condition}' of {model} on {benchmark}")
    if seal:
        facts = stage.seal(settings, paths, model, benchmark, condition)
        job.record([paths.responses(model, benchmark, condition)], **facts)
    else:
        from stair.records.gpus import own_gpus

        with own_gpus(settings.gpus_for(settings.engine_for(model, benchmark))):
            stage.generate(settings, paths, model, benchmark, condition, shard, of)


@commands.command()
def replay(
    model: ModelOption,
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
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
    from stair.stages.replay import stage

    if design and seal:
        raise ValueError("give --design or --seal, not both")
    if design:
        job = open_job(run, "replay_design", inputs, model=model)
        stage.design(job.config, job.paths, model)
        job.record([job.paths.replay_problems(model), job.paths.replay_histories(model)])
    elif seal:
        job = open_job(run, "seal_replay", inputs, model=model)
        job.record([job.paths.replay_cells(model)], **stage.seal(job.config, job.paths, model))
    else:
        from stair.records.gpus import own_gpus
        from stair.records.shards import Shard

        job = open_job(run, "replay_shard", inputs, model=model)
        with own_gpus(job.config.gpus_for("transformers")):
            stage.measure(job.config, job.paths, model, Shard(shard, of))


@commands.command()
def runtime(
    model: ModelOption, inputs: InputsArgument = None, run: JobRunOption = Path(), threads: ThreadsOption = 1
) -> None:
    """Measure what reading a bank costs: transfer, prefill, decoding, memory. Writes runtime/MODEL.csv.

    Resumes from the finished measurements in the work log.
    """
    set_threads(threads)
    from stair.records.gpus import own_gpus
    from stair.stages.runtime import stage

    job = open_job(run, "measure_runtime", inputs, model=model)
    with own_gpus(job.config.gpus_for("transformers")):
        facts = stage.run(job.config, job.paths, model)
    job.record([job.paths.runtime(model)], **facts)


@commands.command()
def scores(
    model: ModelOption,
    benchmark: BenchmarkOption,
    condition: ConditionOption,
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    controls: Annotated[
        bool, typer.Option("--controls", help="A condition of the study with a shared T1 history.")
    ] = False,
    threads: Annotated[int, typer.Option(min=1, help="Worker processes.")] = 1,
) -> None:
    """Give verdicts on a condition's responses. Writes evaluation/MODEL/BENCHMARK/CONDITION.parquet.

    With --controls, writes shared_t1/MODEL/BENCHMARK/CONDITION.parquet.
    """
    from stair.stages.evaluation.scores import score_condition

    rule = "score_controls" if controls else "score_condition"
    job = open_job(run, rule, inputs, model=model, benchmark=benchmark, condition=condition)
    paths = job.paths.shared_t1 if controls else job.paths
    output = paths.scored(model, benchmark, condition)
    facts = score_condition(
        paths.benchmark(benchmark),
        paths.responses(model, benchmark, condition),
        output,
        name=f"{model}/{benchmark}/{condition}",
        workers=threads,
    )
    job.record([output], **facts)


@commands.command()
def check(inputs: InputsArgument = None, run: JobRunOption = Path()) -> None:
    """Check the run's data against every invariant of the protocol. Writes checks.csv; a failed check blocks the tables."""
    from stair.stages.checks.stage import run as run_checks

    job = open_job(run, "check", inputs)
    trained = [model for model in job.config.models if job.paths.rollouts(model) in job.inputs]
    checks = run_checks(job.config, job.paths, trained)
    job.record([job.paths.checks])
    for passed in checks:
        print(
            f"holds: {passed.name} ({passed.scope}, {passed.rows} rows)"
            + (f": {passed.detail}" if passed.detail else "")
        )


@commands.command()
def replay_statistics(
    model: ModelOption,
    part: Annotated[str, typer.Option(help="attention, geometry or read_prediction.")],
    inputs: InputsArgument = None,
    run: JobRunOption = Path(),
    threads: ThreadsOption = 1,
) -> None:
    """Analyze a measured replay on a CPU. Reads the measurements in replay/MODEL/states; writes replay/MODEL/PART.parquet."""
    set_threads(threads)
    from stair.stages.replay import stage

    job = open_job(run, "replay_statistics", inputs, model=model, part=part)
    stage.analyze(job.config, job.paths, model, part)
    job.record([job.paths.replay_statistics(model, part)])
