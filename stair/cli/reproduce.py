"""`stair reproduce`: runs Snakemake, compares the outputs with their manifests, shows the main table."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
from collections import Counter
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from stair.config.model import Config
from stair.config.paths import INPUTS_CHECKED, RunPaths, project_root
from stair.config.resolve import ConfigError, merge, resolve
from stair.pipeline.driver import refuse_second_driver, unlock
from stair.pipeline.input_checks import input_faults, refuse, start_faults
from stair.pipeline.job_list import config_words, setting_options
from stair.pipeline.jobs import STAGES, stage_files
from stair.pipeline.slurm import end_earlier_jobs, job_prefix, profile_folder, runs_on_slurm
from stair.pipeline.verify import Fault, Receipts, code_note, faults, of_earlier_rules, remedy
from stair.records.files import remove_unfinished
from stair.records.gpus import visible_gpus
from stair.records.interruption import end_with_parent
from stair.records.manifest import CONFIGURATION_CHANGED, name_in_run


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs with YAML values; a key inside a section has dots (evaluation.samples)."""
    parsed: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        names = key.split(".")
        if not equals or not all(re.fullmatch(r"[\w-]+", name) for name in names):
            raise ConfigError(f"--set takes KEY=VALUE, such as --set evaluation.samples=8, not '{setting}'")
        if key == "run":
            raise ConfigError(f"--set cannot choose the run; name it with --run {value}")
        try:
            changed = yaml.safe_load(value)
            for name in reversed(names):
                changed = {name: changed}
            parsed = merge(parsed, changed)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {key}: '{value}' is not YAML ({' '.join(str(error).split())})") from None
    return parsed


def reproduce(
    run: str,
    *,
    go: bool,
    target: str,
    cores: str | None,
    profile: str | None = None,
    settings: list[str],
) -> None:
    """Runs the workflow to a target, and names what it made. A whole run's outputs are compared with their manifests.

    Raises:
        ConfigError: the configuration or profile cannot be used, another process drives this run, a signal has ended
            Snakemake, or an output was changed after it was made.
        SystemExit: a job failed, or a stop was requested.
    """
    root = project_root()
    overrides = {**(parsed := parse_settings(settings)), "run": run}
    config = resolve(root, overrides)
    paths = RunPaths.of(config)
    refuse(input_faults(config, paths))
    goal, options, on_slurm = _target(config, paths, target), list[str](), False
    if profile is not None:
        folder = profile_folder(root, profile)
        options += ["--profile", str(folder)]
        on_slurm = runs_on_slurm(folder)
    if cores is not None:
        options += ["--cores", cores]
    if config.expensive and not go:
        whole = target == "all"
        more = " ".join(["", shlex.quote(run), *setting_options(parsed)])
        start = f"stair reproduce --go --run{more}{'' if whole else f' --target {target}'}"
        if whole and not settings:
            start = f"make reproduce RUN={run} GO=1"
        _explain(config, f"stair plan --run{more}", start)
        return
    refuse(start_faults(config, paths))
    _refuse_outputs(config, paths, of_earlier_rules(config, Receipts(paths.folder)))
    unlock(paths)
    print(f"The run {config.run}, in {paths.folder}", file=sys.stderr, flush=True)
    if on_slurm:
        end_earlier_jobs(job_prefix(paths))
        options += ["--slurm-jobname-prefix", job_prefix(paths)]
    elif gpus := len(visible_gpus()):
        options += ["--resources", f"gpu={gpus}"]  # no more jobs at a time than have a GPU
    remove_unfinished(paths.folder)
    # Last, because --config takes any number of values.
    tail = [*options, "--config", *config_words(overrides)]
    _snakemake(paths, ["snakemake", "--snakefile", str(root / "Snakefile"), goal, *tail])
    if target == "all":
        _check_finished(config, paths)
        _show(config, paths)
    elif target != "fetch":
        _name_made(config, paths, goal)


def _target(config: Config, paths: RunPaths, target: str) -> str:
    """A stage, or a file relative to the run's folder. Raises ConfigError if nothing makes it, as far as names tell."""
    if target in (stages := ("all", "fetch", *STAGES, "controls")):
        return target
    if (file := Path(target).absolute()).is_relative_to(paths.folder.absolute()):
        return file.relative_to(paths.folder.absolute()).as_posix()
    if "/" in target:
        made = {name_in_run(file, paths.folder) for stage in STAGES for file in stage_files(config, paths, stage)}
        if target not in made and (near := get_close_matches(target, made)):
            raise ConfigError(f"--target: no job makes '{target}' (did you mean {' or '.join(near)}?)")
        return target
    raise ConfigError(f"--target: there is no stage '{target}' (stages: {', '.join(stages)}; or the path of an output)")


def _check_finished(config: Config, paths: RunPaths) -> None:
    """Names damaged and stale outputs, for which Snakemake, which compares times, sees no reason; and other code.

    Raises ConfigError if there are any. A missing file that Snakemake has not made is needed by nothing.
    """
    receipts = Receipts(paths.folder)
    found = [fault for fault in faults(config, receipts, measured=False) if fault.state != "missing"]
    _refuse_outputs(config, paths, found, ran=True)
    if note := code_note(config, paths, receipts, long=False):
        print(f"note: {note}")


def _refuse_outputs(config: Config, paths: RunPaths, found: list[Fault], *, ran: bool = False) -> None:
    """Raises ConfigError if there are faults. `ran`: as of `remedy`."""
    if found:
        found.sort(key=lambda fault: fault.reason == CONFIGURATION_CHANGED)  # first those that say what has changed
        first = "; ".join(f"{fault.file} is {fault.state}: {fault.reason}" for fault in found[:3])
        more = f"; and {len(found) - 3} more (stair verify --run {paths.folder})" if len(found) > 3 else ""
        raise ConfigError(f"{first}{more}; to make them again: {remedy(config, paths, found, ran=ran)}")


def _explain(config: Config, plan: str, start: str) -> None:
    from stair.pipeline.plan import Machine, Planner, cost_lines

    print(
        "\n".join([*cost_lines(Planner(config, RunPaths.of(config)), Machine.here()), f"More, with the claims: {plan}"])
    )
    print(
        f"\nThe run '{config.run}' is marked as expensive and was not started. Its cost is above, with "
        f"{', '.join(model.label for model in config.models.values())} on "
        f"{', '.join(benchmark.label for benchmark in config.benchmarks.values())}.\n"
        f"To start it: {start}"
    )


def _snakemake(paths: RunPaths, command: list[str]) -> None:
    """Runs Snakemake as a child, which ends with this process; its jobs on this machine end with it.

    Raises:
        SystemExit: a job failed; or SIGTERM, SIGUSR1 or Ctrl-C came, and every job has flushed its finished work.
        ConfigError: another signal has ended it, or another process drives the run.
    """
    environment = {
        **os.environ,
        INPUTS_CHECKED: "1",
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    # In a session of its own: a terminal's Ctrl-C reaches this process alone.
    child = subprocess.Popen(command, env=environment, preexec_fn=end_with_parent, start_new_session=True)
    try:
        code = child.wait()
    except SystemExit:
        print("stair: stopping: jobs flush their finished work; a second signal ends them at once", file=sys.stderr)
        os.killpg(child.pid, signal.SIGINT)  # to Snakemake, which cancels a cluster's jobs, and to this machine's jobs
        child.wait()
        raise
    if code < 0:
        raise ConfigError(f"Snakemake was ended by {signal.Signals(-code).name}; run the same command again to resume")
    if code:
        refuse_second_driver(paths)  # of two starts at once, Snakemake's lock lets one alone begin
        raise SystemExit(code)


def _show(config: Config, paths: RunPaths) -> None:
    from stair.paper.layout import read_markdown
    from stair.paper.terminal import show

    main = paths.table("bank_runtime" if config.only_measures else "continuous_summary", ".md")
    written = f"{main} (also .csv, .tex and .html)"
    print()
    show(main)
    if (claims := paths.claims(".md")).is_file():
        if not read_markdown(
            claims.read_text(encoding="utf-8")
        ).rows:  # a model of the user's own: its gain is the result
            claims = paths.table("comparisons", ".md")
        print()
        show(claims, without=config.note)  # the main table has it
        written += f", {paths.claims()}, {paths.comparison('.md')}"
    print(f"\nMade: {written}; everything is in {paths.folder}")
    print(f"The whole run on one page: {paths.report}")


def _name_made(config: Config, paths: RunPaths, target: str) -> None:
    """Prints where the outputs of a target are."""
    if target not in (*STAGES, "controls"):
        print(f"Made: {paths.folder / target}")
        return
    files = stage_files(config, paths, "evaluation" if target == "controls" else target)
    places = Counter(paths.folder / Path(name_in_run(file, paths.folder)).parts[0] for file in files if file.exists())
    for place, count in places.items():
        print(f"Made: {place} ({count} files)" if place.is_dir() else f"Made: {place}")
