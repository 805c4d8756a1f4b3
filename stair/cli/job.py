"""Jobs of the workflow: `stair job`, the shell line of every rule, and for people a command for each rule.

Both come from the rows of `stair.pipeline.jobs`: the inputs are checked, the row's function does the work, and the manifest
is written.
"""

from __future__ import annotations

import argparse
import ast
import os
import time
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any

import typer

from stair.cli.context import set_threads
from stair.cli.options import TINY, RunOption
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import load_run
from stair.pipeline.jobs import JOBS, code_of, gpus_of, imported, names_of

commands = typer.Typer()

_PACKAGE = Path(__file__).parents[1]


@commands.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}, hidden=True
)
def job(context: typer.Context) -> None:
    """Run one job of the workflow, as its rule calls it: in the run's folder, with its files."""
    parser = argparse.ArgumentParser(prog="stair job", description="The shell line of a rule (workflow/rules).")
    parser.add_argument("rule", choices=JOBS)
    parser.add_argument("wildcards", nargs="*", metavar="NAME=VALUE")
    parser.add_argument("--inputs", nargs="*", type=Path, default=[])
    parser.add_argument("--outputs", nargs="*", type=Path, default=[])
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args(context.args)
    row = JOBS[given.rule]
    wildcards = dict(word.partition("=")[::2] for word in given.wildcards)
    if not wildcards.keys() >= {*row.names, *(("shard", "of") if row.is_shard else ())}:
        parser.error(f"{given.rule} takes {' '.join(f'{name}=VALUE' for name in row.names) or 'no names'}")
    if not row.is_shard and not given.outputs:
        parser.error(f"{given.rule} needs --outputs")
    folder = Path().absolute()
    inputs, outputs = ([folder / file for file in files] for files in (given.inputs, given.outputs))
    run_job(load_run(folder), RunPaths(folder), given.rule, wildcards, inputs, outputs, given.threads)


def run_job(
    config: Config,
    paths: RunPaths,
    rule: str,
    wildcards: Mapping[str, str],
    inputs: Sequence[Path],
    outputs: Sequence[Path],
    threads: int,
) -> None:
    """Runs a job: checks its inputs, does its work, and writes the manifest of its outputs; a shard has none.

    Raises:
        ValueError: an input is missing or damaged, or the work failed; one line with the remedy.
    """
    start = time.monotonic()
    set_threads(threads)
    from stair.pipeline.job_inputs import checked_digests
    from stair.pipeline.reuse import copy_from_runs
    from stair.records.gpus import own_gpus
    from stair.records.manifest import SECONDS, Origin, write_manifest
    from stair.records.shards import Shard

    row, names = JOBS[rule], names_of(rule, wildcards)
    if row.folder:
        outputs = [outputs[0].parent]
    # Before the work, because files can change meanwhile.
    settings = row.settings(config, **names)
    origin = Origin.now(checked_digests(config, paths, inputs), settings, code_of(rule, settings))
    # A worker of one training, whose first process has copied or holds the GPUs.
    worker = row.stage == "training" and int(os.environ.get("WORLD_SIZE", "1")) > 1
    if row.reusable and not worker and (source := copy_from_runs(config, paths, rule, names, outputs, origin)):
        print(f"{' '.join((rule, *names.values()))}: reused from {source}")
        return
    more: dict[str, Any] = {"workers": threads} if row.stage == "scores" else {}
    if row.is_shard:
        more["shard"] = Shard(int(wildcards["shard"]), int(wildcards["of"]), origin.source)
    with own_gpus(0 if worker else gpus_of(config, rule, wildcards)):
        facts = imported(row.run)(config, paths, **names, **more)
    first = not worker or os.environ.get("RANK", "0") == "0"
    # Claims and comparison print their counts where the run is read-only, and write no file.
    if row.is_shard or not first or not os.access(outputs[0].parent, os.W_OK):
        return
    facts = {**(facts or {}), SECONDS: round(time.monotonic() - start, 1)}
    write_manifest(paths.folder, outputs, rule=rule, wildcards=names, origin=origin, **facts)
    if row.after:
        imported(row.after)(config, paths, **names)


# ---------------------------------------------------------------- a command for each rule


def add_job_commands() -> None:
    """Adds a command for each rule. Its help begins the docstring of the row's function, which is read without importing it."""
    for rule in JOBS:
        commands.command(rule.replace("_", "-"), help=_docstring(JOBS[rule].run))(_by_hand(rule))


_HELP = {
    "name": "A benchmark's key, or training_pool.",
    "model": "The model's key.",
    "benchmark": "The benchmark's key.",
    "condition": "The condition's key; shared_t1/NAME for one of `controls.conditions`.",
    "controller": "The controller's key.",
    "part": "attention, geometry or read_prediction.",
    "table": "The table's name.",
    "figure": "The figure's name.",
}


def _by_hand(rule: str) -> Callable[..., None]:
    row = JOBS[rule]
    options: dict[str, tuple[Any, Any]] = {"run": (RunOption, TINY)}
    options |= {name: (Annotated[str, typer.Option(help=_HELP[name])], Parameter.empty) for name in row.names}
    if row.is_shard:
        options["shard"] = Annotated[int, typer.Option(min=0, help="This shard's number, from 0.")], 0
        options["of"] = Annotated[int, typer.Option(min=1, help="The number of shards.")], 1
    threads = "Processes that give verdicts." if row.stage == "scores" else "Threads that torch computes with."
    options["threads"] = Annotated[int, typer.Option(min=1, help=threads)], 1

    def command(run: Path, threads: int, **wildcards: Any) -> None:
        from stair.pipeline.job_inputs import check_names, files_of
        from stair.records.manifest import manifest_path

        config, paths = load_run(run), RunPaths(run)
        given = {name: str(value) for name, value in wildcards.items()}
        names = names_of(rule, given)
        check_names(config, rule, names)
        if row.stage == "training":
            folder, files = paths.controller(**names), paths.controller_files(config, **names)
            if manifest_path(folder).is_file() and all(file.is_file() for file in files):
                imported(row.after)(config, paths, **names)  # a kill may have left checkpoints
                print(f"{folder} is already trained; to train it again, delete this folder first")
                return
        inputs, outputs = files_of(config, paths, rule, names)
        if not row.prints or not _up_to_date(config, paths, outputs):
            run_job(config, paths, rule, given, inputs, outputs, threads)
        if row.prints and outputs[0].is_file():
            imported(row.prints)(config, paths)
        elif outputs:
            some = f" and {len(outputs) - 3} more" if len(outputs) > 3 else ""
            print(f"Made: {', '.join(map(str, outputs[:3]))}{some}")

    command.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter(name, Parameter.KEYWORD_ONLY, annotation=annotation, default=default)
            for name, (annotation, default) in options.items()
        ]
    )
    command.__annotations__ = {name: annotation for name, (annotation, _) in options.items()}
    return command


def _up_to_date(config: Config, paths: RunPaths, outputs: Sequence[Path]) -> bool:
    from stair.pipeline.verify import Receipts, faults
    from stair.records.manifest import name_in_run

    receipts = Receipts(paths.folder)
    names = {name_in_run(file, paths.folder) for file in outputs}
    return names <= receipts.made.keys() and not any(
        fault.file in names for fault in faults(config, receipts, measured=False)
    )


def _docstring(function: str) -> str:
    module, _, name = function.partition(":")
    source = _PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py").read_text(encoding="utf-8")
    found = next(node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name)
    text = (ast.get_docstring(found) or "").partition("\n\n")[0]
    return text.replace("; returns facts for the manifest", "")
