"""`stair reproduce`: drives Snakemake, removes stale locks, shows the main table."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import yaml

from stair.cli.context import DRIVEN_BY
from stair.cli.warm_client import SOCKET, end_with_parent
from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.config.resolve import ConfigError, resolve
from stair.config.site import read_site
from stair.graph.artifacts import Artifacts
from stair.graph.job_inputs import target_files
from stair.graph.origin import as_recorded, read_origin
from stair.graph.outputs import OUTPUTS
from stair.graph.resources import check_fits
from stair.graph.run import Run
from stair.graph.slurm_account import check_account
from stair.graph.start_command import setting_options
from stair.jobs.gpus import visible_gpus
from stair.jobs.interruption import Interrupted
from stair.jobs.shards import WITHDRAWN
from stair.records.files import remove_leftovers
from stair.workflow.cluster import Cluster, profile_folder, runs_on_slurm
from stair.workflow.driver_lease import driver_at_work, forget_killed_driver, stale_locks
from stair.workflow.input_checks import check_environments, check_inputs, check_writable

_LOOK_SECONDS = 0.2
_IDLE_SECONDS = 20.0
"""How long Snakemake may go on after its last job has ended when it was asked to stop."""


def project_root() -> Path:
    """The folder with the Snakefile: the current one, else the one that this package was installed from.

    Raises:
        ConfigError: there is none.
    """
    for folder in (Path.cwd(), Path(__file__).parents[2]):
        if (folder / "Snakefile").is_file() and (folder / "config.yaml").is_file():
            return folder
    raise ConfigError("there is no Snakefile in the current folder; run this command in the project's folder")


def parse_settings(settings: list[str]) -> dict[str, Any]:
    """KEY=VALUE pairs with YAML values, as `snakemake --config` takes them."""
    parsed = {}
    for setting in settings:
        key, equals, value = setting.partition("=")
        if not equals or not key.isidentifier():
            above, *inner = key.split(".")
            nested = "".join(f"{{{name}: " for name in inner) + value + "}" * len(inner)
            form = (
                f"; did you mean --set '{above}={nested}'?"
                if equals and all(map(str.isidentifier, (above, *inner)))
                else ""
            )
            raise ConfigError(f"--set takes KEY=VALUE with a top-level key, not '{setting}'{form}")
        if key == "run":
            raise ConfigError(f"--set cannot choose the run; name it with --run {value}")
        try:
            parsed[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigError(f"--set {key}: '{value}' is not YAML ({' '.join(str(error).split())})") from None
    return parsed


def reproduce(
    run: str, *, go: bool, target: str, cores: str | None, profile: str | None = None, settings: list[str]
) -> None:
    """Runs the workflow to a target.

    Raises:
        ConfigError: the configuration, the profile or the site cannot be used, another process drives a run in this folder, a
            signal has ended Snakemake, or a table's CSV was edited.
    """
    root = project_root()
    config = resolve(root, parse_settings(settings) | {"run": run})
    paths = RunPaths.of(config)
    check_inputs(config, paths)
    _check_target(target)
    command = ["snakemake", "--snakefile", str(root / "Snakefile"), target]
    cluster = None
    if profile is not None:
        folder = profile_folder(root, profile)
        command += ["--profile", str(folder)]
        if runs_on_slurm(folder):
            cluster = _cluster(root, Run(config, paths), cores)
            command += cluster.arguments
    if cores is not None:
        command += ["--cores", cores]
    # Last, because these take any number of values.
    tail = ["--config", f"run={run}", *settings]
    if cluster is None and (gpus := len(visible_gpus())):
        tail = ["--resources", f"gpu={gpus}", *tail]  # no more jobs at a time than have a GPU

    def words(*options: str) -> list[str]:
        """Snakemake's command now. Forced files become targets, so they are those that the target needs."""
        changed = _with_other_settings(config, paths, target)
        return [*command, *options, *(["--forcerun", *changed] if changed else []), *tail]

    if config.expensive and not go:
        whole = target == "all"
        more = " ".join(["", shlex.quote(run), *setting_options(parse_settings(settings))])
        start = f"stair reproduce --go --run{more}{'' if whole else f' --target {target}'}"
        if whole and not settings:
            start = f"make reproduce RUN={run} GO=1"
        _explain(config, words("--dry-run", "--quiet", "rules"), f"stair plan --run{more}", start)
        return
    check_environments(config, paths)
    check_writable(paths)
    if cluster is not None:
        check_account(cluster.site)
        cluster.end_jobs_of_killed_driver()
    _free_stale_lock(Path(config.results))
    remove_leftovers(paths.folder)
    _run_to_the_end(words, paths, cluster)
    if target == "all":
        _check_tables(config, paths)
        _show(config, paths)


def _check_target(target: str) -> None:
    stages = dict.fromkeys(["all", "fetch", *(output.target for output in OUTPUTS.values() if output.target)])
    if target not in stages and "/" not in target:
        raise ConfigError(
            f"--target: there is no stage '{target}' (stages: {', '.join(stages)}; or the path of an output)"
        )


def _cluster(root: Path, run: Run, cores: str | None) -> Cluster:
    """The site's cluster, on which every job of the run fits."""
    if cores is not None:
        raise ConfigError(
            "--cores limits jobs on this machine; with --profile slurm, `jobs` in the profile limits them"
        )
    cluster = Cluster(read_site(root), run)
    check_fits(run, cluster.site)
    return cluster


def _run_to_the_end(words: Callable[[], list[str]], paths: RunPaths, cluster: Cluster | None) -> None:
    """Runs Snakemake, and again after an end that the next start mends: lost responses, or a cluster that was silent."""
    withdrawn = _withdrawn(paths)
    try:
        while True:
            started = time.time()
            code = _snakemake(words(), cluster)
            # A seal found lost responses and withdrew its shards' markers; a seal behind it may find more.
            if code > 0 and (more := _withdrawn(paths) - withdrawn):
                withdrawn |= more
                print("stair: logs have lost responses; starting again to generate them", file=sys.stderr)
            elif code <= 0 or cluster is None or not cluster.outlast_silence(started):
                break
    finally:
        forget_killed_driver(paths)  # one that hung while it stopped was ended, and could not give its lease back
    if code < 0:
        raise ConfigError(f"Snakemake was ended by {signal.Signals(-code).name}; run the same command again to resume")
    if code:
        raise SystemExit(code)


def _check_tables(config: Config, paths: RunPaths) -> None:
    """Refuses CSVs that were edited: the comparison and the claims are made from them."""
    from stair.graph.integrity import damage

    files = (file for file in Artifacts(config, paths).by_file if file.suffix == ".csv")
    if edited := damage(config, paths, files):
        raise ConfigError(f"an output was changed after it was made: {edited}")


def _with_other_settings(config: Config, paths: RunPaths, target: str) -> list[str]:
    """Outputs that a target needs and whose settings have changed.

    Without the records in .snakemake, as in a copy, Snakemake does not see the change.
    """
    run = Run(config, paths)
    files = [Path(target)] if "/" in target else target_files(run, *(() if target == "all" else (target,)))
    return [
        str(artifact.files[0])
        for artifact in Artifacts(config, paths).behind(files)
        if (origin := read_origin(artifact.manifest)) and origin["settings"] != as_recorded(artifact.settings)
    ]


def _withdrawn(paths: RunPaths) -> set[Path]:
    """The completion markers that seals have withdrawn."""
    return set(paths.work().rglob(f"shard-*{WITHDRAWN}"))


def _explain(config: Config, command: list[str], plan: str, start: str) -> None:
    """Prints the jobs of an expensive run, without starting it, and the commands that plan and start it."""
    code = _snakemake(command)
    if code:
        raise SystemExit(code)
    from stair.planning.run_plan import make_plan
    from stair.planning.text import cost_lines

    print("\n".join(["", *cost_lines(make_plan(config)), f"More, by claims and prices: {plan}"]))
    print(
        f"\nThe run '{config.run}' is marked as expensive and was not started. It would run the jobs above, with "
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
                except ConfigError as error:  # this process ends all the same
                    print(f"stair: the run's jobs were not cancelled: {error}", file=sys.stderr)
            _stop(child)
            if cluster is not None:  # what Snakemake submitted meanwhile
                with suppress(ConfigError):
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


@contextmanager
def warm_process(environment: dict[str, str]) -> Iterator[None]:
    """Within it, jobs that are started with this environment fork from a process that has imported everything.

    A process that the environment names already serves them.
    """
    if Path(environment.get(SOCKET, "")).is_socket():
        yield
        return
    # Not below the run's folder: the path of a socket may have some hundred characters only.
    with TemporaryDirectory(prefix="stair-") as folder, socket.socket(socket.AF_UNIX) as listener:
        path = Path(folder) / "warm"
        listener.bind(str(path))
        listener.listen(64)
        process = subprocess.Popen(
            [sys.executable, "-m", "stair.cli.warm_process", str(listener.fileno())],
            env=environment,
            pass_fds=[listener.fileno()],
            start_new_session=True,  # Ctrl-C reaches the jobs through those who wait for them
            preexec_fn=end_with_parent,
        )
        # The process alone listens: should it die, those who wait for it are told, and run by themselves.
        listener.close()
        environment[SOCKET] = str(path)
        try:
            yield
        finally:
            process.kill()
            process.wait()


def _free_stale_lock(results: Path) -> None:
    """Removes the lock of a killed run; a living run keeps its lock.

    Raises:
        ConfigError: another process drives a run in this folder.
    """
    driver = driver_at_work(results)
    if driver is not None:
        raise ConfigError(f"another process drives a run in {Path.cwd()} ({driver}); wait for it or stop it")
    locks = stale_locks(results)
    for lock in locks:
        lock.unlink(missing_ok=True)
    if locks:
        print("The previous run was interrupted; resuming from its finished work.", file=sys.stderr)


def _show(config: Config, paths: RunPaths) -> None:
    """Prints the main table, the paper's claims, and the folder of the results."""
    from rich.console import Console

    from stair.reporting.claims.stage import layout
    from stair.reporting.layout import terminal
    from stair.reporting.stage import build

    main = "bank_runtime" if config.only_measures else "continuous_summary"
    console = Console()
    console.print()
    console.print(terminal(build(config, paths, main).layout, console.width))
    written = f"{paths.table(main, '.md')} (also .csv and .tex)"
    if paths.claims().is_file():
        console.print(terminal(layout(paths.claims(), config), console.width))
        written += f", {paths.claims()}, {paths.comparison('.md')}"
    console.print(f"Made: {written}; everything is in {paths.folder}")
    console.print(f"The whole run on one page: {paths.report}")
