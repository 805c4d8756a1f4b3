"""The warm process: it has imported everything, and a run's `stair` commands on this machine run in forks of it.

Importing torch and Transformers takes four seconds, longer than most jobs of the tiny run. The Snakemake that drives a run
starts this process and passes its socket in the environment. A command that finds the socket sends its arguments,
environment and open files, and waits; its job dies with it. Without the socket, the command runs by itself, with the same
result. There is none where a GPU is visible, because CUDA does not survive a fork, nor with `STAIR_WARM=0`. It needs Linux,
which kills a process with its parent.

Every `stair` command imports this module, so its head imports little.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
from collections.abc import Iterator, MutableMapping
from contextlib import ExitStack, contextmanager, suppress
from typing import NoReturn

from stair.records.interruption import end_with_parent

SOCKET = "STAIR_WARM_SOCKET"
"""Environment: the path of the socket."""

MODULES = (
    "matplotlib.backends.backend_pdf",
    "matplotlib.pyplot",
    "pyarrow.dataset",
    "stair.cli.main",
    "stair.engines.transformers",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.qwen3_5.modeling_qwen3_5",
)
"""The slow modules that jobs import when they work, besides those of their functions."""


# ---------------------------------------------------------------- the driver of a run


@contextmanager
def warm_process(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Runs a warm process for the commands that start with this environment, unless it has one or `STAIR_WARM=0`."""
    from stair.records.gpus import visible_gpus

    if sys.platform != "linux" or SOCKET in environment or environment.get("STAIR_WARM") == "0" or visible_gpus():
        yield
        return
    import subprocess
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="stair-") as folder:  # the path of a socket has at most some hundred characters
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path := os.path.join(folder, "warm"))
            listening.listen(64)  # commands wait in this queue while the process imports
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "stair.cli.warm", str(os.getpid())],
                stdin=listening.fileno(),
                env=environment,
                start_new_session=True,  # a terminal's Ctrl-C reaches the commands, whose jobs die with them
            )
        environment[SOCKET] = path
        try:
            yield
        finally:
            process.kill()
            process.wait()


def keep_warm() -> None:
    """Runs a warm process for the commands that this process starts, until it ends."""
    warm = ExitStack()
    warm.enter_context(warm_process(os.environ))
    atexit.register(warm.close)


# ---------------------------------------------------------------- a command


def run_in_warm_process() -> int | None:
    """Runs this command in a fork of the warm process. Returns its exit code, or None if there is no warm process any more."""
    if not (path := os.environ.get(SOCKET)):
        return None
    code = ""
    with socket.socket(socket.AF_UNIX) as connection, suppress(OSError):
        connection.connect(path)
        socket.send_fds(connection, [b" "], [0, 1, 2])
        connection.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv]).encode() + b"\n")
        code = connection.makefile().readline()
    return int(code) if code else None


# ---------------------------------------------------------------- the warm process


def _serve(driver: int) -> None:
    """Imports, and forks a handler for each command."""
    import gc
    import importlib
    import signal
    import warnings

    from stair.cli.context import set_threads
    from stair.cli.environment import prepare_environment, print_every_sign
    from stair.pipeline.jobs import JOBS, code_of

    _end_with(driver)
    prepare_environment()
    print_every_sign()
    set_threads(1)
    # Python 3.12 and later warn of each fork beside a thread. The one here is that of Arrow's allocator, which survives forks.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    gc.disable()
    for module in dict.fromkeys((*MODULES, *(row.run.partition(":")[0] for row in JOBS.values()))):
        importlib.import_module(module)
    for rule in JOBS:  # the fingerprints of the imported code: the forks run it, whatever changes on the disk meanwhile
        code_of(rule, {})
    gc.enable()
    gc.freeze()  # a collection in a job would copy the memory that all jobs share
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for handlers
    listening, serving = socket.socket(fileno=0), os.getpid()
    while True:
        connection, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _end_with(serving)
            _handle(connection)
        connection.close()


def _handle(connection: socket.socket) -> NoReturn:
    """Forks the job of one command and waits for it. The job dies with this process, and this process with the command."""
    import threading

    def watch() -> None:
        with suppress(OSError):
            connection.recv(1)  # the command sends nothing more, so this is its end
        os._exit(1)

    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    if not (request := connection.makefile().readline()):  # the command has been stopped
        os._exit(1)
    handler = os.getpid()
    if (job := os.fork()) == 0:
        _end_with(handler)
        connection.close()
        for target, file in enumerate(files):
            os.dup2(file, target)
            os.close(file)
        folder, environment, sys.argv = json.loads(request)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _work()
    threading.Thread(target=watch, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    with suppress(OSError):  # the command has just been stopped
        connection.sendall(b"%d\n" % (128 - code if code < 0 else code))
    os._exit(0)


def _end_with(parent: int) -> None:
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def _work() -> NoReturn:
    """Runs the command and ends as Python does, but without taking its modules apart, which takes 0.3 s."""
    import importlib
    import traceback

    code = 1
    try:
        importlib.import_module("stair.cli.main").main()  # that module imports this one
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
