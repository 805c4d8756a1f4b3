"""`stair reproduce`: drives Snakemake, removes stale locks, shows the main table."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import psutil
import yaml

from stair.cli.context import DRIVEN_BY
from stair.cli.warm import SOCKET, end_with_parent, warm_process
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.config.root import project_root
from stair.config.site import read_site
from stair.pipeline.cluster import Cluster, check_names, profile_folder, runs_on_slurm
from stair.pipeline.driver import unlock
from stair.pipeline.input_checks import check_environments, check_inputs, check_writable
from stair.pipeline.job_list import ListedJob, list_jobs
from stair.pipeline.jobs import STAGES
from stair.pipeline.resources import check_fits
from stair.pipeline.restore import made_first
from stair.pipeline.run import Run
from stair.records.files import remove_leftovers
from stair.records.gpus import visible_gpus
from stair.records.interruption import Interrupted
from stair.records.slurm import SlurmError
from stair.records.start_command import config_words, setting_options

_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 20.0
"""How long Snakemake may run after its last job has ended when it was asked to stop."""


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs with YAML values, as `snakemake --config` takes them."""
    parsed: dict[str, Any] = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            raise ConfigError(
                f"--set takes KEY=VALUE with a top-level key, such as --set 'evaluation={{samples: 8}}', not '{setting}'"
            )
        if key == "run":
            raise ConfigError(f"--set cannot choose the run; name it with --run {value}")
        try:
            _update(parsed, {key: yaml.safe_load(value)})
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {key}: '{value}' is not YAML ({' '.join(str(error).split())})") from None
    return parsed


def _update(settings: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, dict) and isinstance(settings.get(key), dict):
            _update(settings[key], value)
        else:
            settings[key] = value


def reproduce(
    run: str,
    *,
    go: bool,
    target: str,
    cores: str | None,
    profile: str | None = None,
    settings: list[str],
) -> None:
    """Runs the workflow to a target.

    Raises:
        ConfigError: the configuration, profile or site cannot be used, another process drives this run, a signal has
            ended Snakemake, or an output was changed after it was made.
    """
    root = project_root()
    overrides = parse_settings(settings) | {"run": run}
    config = resolve(root, overrides)
    paths = RunPaths.of(config)
    check_inputs(config, paths)
    program, goal, command = ["snakemake", "--snakefile", str(root / "Snakefile")], _target(target, paths), []
    cluster = None
    if profile is not None:
        folder = profile_folder(root, profile)
        command += ["--profile", str(folder)]
        if runs_on_slurm(folder):
            cluster = _cluster(root, Run(config, paths), overrides, target, cores)
            command += cluster.arguments
    if cores is not None:
        command += ["--cores", cores]
    # Last, because these take any number of values.
    tail = ["--config", *config_words(overrides)]
    if cluster is None and (gpus := len(visible_gpus())):
        tail = ["--resources", f"gpu={gpus}", *tail]  # no more jobs at a time than have a GPU
    if config.expensive and not go:
        whole = target == "all"
        more = " ".join(["", shlex.quote(run), *setting_options(parse_settings(settings))])
        start = f"stair reproduce --go --run{more}{'' if whole else f' --target {target}'}"
        if whole and not settings:
            start = f"make reproduce RUN={run} GO=1"
        _explain(config, list_jobs(root, overrides, fresh=True), f"stair plan --run{more}", start)
        return
    check_environments(config, paths)
    check_writable(paths)
    # A driver has the lock before it submits: if no driver lives after this list, nobody waits for the jobs in it.
    left = cluster.jobs() if cluster is not None else []
    unlock(paths)
    if cluster is not None:
        check_names(cluster.site)
        cluster.end_jobs_of_killed_driver(left)
    remove_leftovers(paths.folder)
    if paths.archive.is_file() and (first := made_first(list_jobs(root, overrides, targets=(goal,)), paths.folder)):
        _run_to_the_end([*program, *first, *command, *tail], cluster)
    _run_to_the_end([*program, goal, *command, *tail], cluster)
    if target == "all":
        _check_finished(config, paths)
        _show(config, paths)


def _target(target: str, paths: RunPaths) -> str:
    """A stage, or a file relative to the run's folder. Raises ConfigError if there is no such stage."""
    if target in (stages := ("all", "fetch", *STAGES)):
        return target
    if (file := Path(target).absolute()).is_relative_to(paths.folder.absolute()):
        return file.relative_to(paths.folder.absolute()).as_posix()
    if "/" in target:
        return target
    raise ConfigError(f"--target: there is no stage '{target}' (stages: {', '.join(stages)}; or the path of an output)")


def _cluster(root: Path, run: Run, overrides: dict[str, Any], target: str, cores: str | None) -> Cluster:
    """The site's cluster, on which every job of the run fits."""
    if cores is not None:
        raise ConfigError(
            "--cores limits jobs on this machine; with --profile slurm, `jobs` in the profile limits them"
        )
    site = read_site(root)
    jobs = list_jobs(root, overrides, targets=(_target(target, run.paths),))
    check_fits(run, site, jobs)
    return Cluster(site, run.paths)


def _run_to_the_end(command: list[str], cluster: Cluster | None) -> None:
    code = _snakemake(command, cluster)
    if code < 0:
        raise ConfigError(f"Snakemake was ended by {signal.Signals(-code).name}; run the same command again to resume")
    if code:
        raise SystemExit(code)


def _check_finished(config: Config, paths: RunPaths) -> None:
    """Refuses outputs that differ from their manifests where Snakemake, which compares times, sees no difference."""
    from stair.pipeline.verify import check_finished

    if faults := check_finished(config, paths):
        raise ConfigError("an output is not that of this run: " + "; ".join(faults))


def _explain(config: Config, jobs: Sequence[ListedJob], plan: str, start: str) -> None:
    from stair.pipeline.planning.run_plan import cost_lines, make_plan

    print("\n".join([*cost_lines(make_plan(config, jobs)), f"More, with the claims: {plan}"]))
    print(
        f"\nThe run '{config.run}' is marked as expensive and was not started. All its jobs are above, with "
        f"{', '.join(model.label for model in config.models.values())} on "
        f"{', '.join(benchmark.label for benchmark in config.benchmarks.values())}.\n"
        f"To start it: {start}"
    )


def _snakemake(command: list[str], cluster: Cluster | None = None) -> int:
    """Runs Snakemake as a child that ends with this process. Jobs of a cluster outlive it.

    Raises:
        Interrupted: SIGTERM, SIGUSR1 or Ctrl-C came; every job has flushed its finished work.
    """
    environment = dict(os.environ)
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    if cluster is None:
        environment[DRIVEN_BY] = f"{socket.gethostname()}:{os.getpid()}"
    else:  # sbatch gives this environment to the jobs
        for name in (DRIVEN_BY, SOCKET):
            environment.pop(name, None)
    with warm_process(environment) if cluster is None else nullcontext():
        # In a session of its own: a terminal's Ctrl-C reaches this process alone, which ends the others in good order.
        child = subprocess.Popen(command, env=environment, preexec_fn=_begin_child, start_new_session=True)
        try:
            return child.wait()
        except Interrupted:
            print("stair: stopping: jobs flush their finished work; a second signal ends them at once", file=sys.stderr)
            if cluster is not None:
                try:
                    cluster.cancel()
                except SlurmError as error:  # this process ends all the same
                    print(f"stair: the run's jobs were not cancelled: {error}", file=sys.stderr)
            _stop(child)
            if cluster is not None:  # what Snakemake submitted meanwhile
                with suppress(SlurmError):
                    cluster.cancel()
            raise


def _begin_child() -> None:
    """In the child: it dies with its parent, and Slurm's warning, which it does not know, does not kill it."""
    end_with_parent()
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Has Snakemake start no more jobs, asks those that run to stop, and waits until all have ended."""
    child.send_signal(signal.SIGTERM)
    signalled: set[int] = set()
    idle = 0.0
    while child.poll() is None:
        jobs = [process for process in _descendants(child.pid) if _is_job(process)]
        for job in jobs:
            if job.pid not in signalled:
                signalled.add(job.pid)
                with suppress(psutil.Error):
                    job.terminate()
        # Its own handling of the signal takes a lock that it may hold.
        idle = 0.0 if jobs else idle + _LOOK_SECONDS
        if idle > _IDLE_SECONDS:
            child.kill()
        time.sleep(_LOOK_SECONDS)


def _descendants(process: int) -> list[psutil.Process]:
    try:
        return psutil.Process(process).children(recursive=True)
    except psutil.Error:
        return []


def _is_job(process: psutil.Process) -> bool:
    """Whether a process is a `stair` command: the workers and servers that a command starts are its own affair."""
    try:
        return any(Path(word).name == "stair" for word in process.cmdline()[:3])
    except psutil.Error:
        return False


def _show(config: Config, paths: RunPaths) -> None:
    from rich.console import Console

    from stair.paper.claims.stage import layout
    from stair.paper.stage import build
    from stair.paper.terminal import terminal

    main = "bank_runtime" if config.only_measures else "continuous_summary"
    console = Console(soft_wrap=True)
    written = f"{paths.table(main, '.md')} (also .csv and .tex)"
    console.print()
    console.print(terminal(build(config, paths, main).layout, console.width))
    if paths.claims().is_file():
        console.print()
        console.print(terminal(layout(paths.claims(), config), console.width))
        written += f", {paths.claims()}, {paths.comparison('.md')}"
    console.print(f"\nMade: {written}; everything is in {paths.folder}")
    console.print(f"The whole run on one page: {paths.report}")
