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
from typing import Any

from stair.records.interruption import end_with_parent

SOCKET = "STAIR_WARM_SOCKET"
"""Environment: the path of the socket."""

MODULES = (
    "matplotlib.backends.backend_pdf",
    "matplotlib.pyplot",
    "pyarrow.dataset",
    "stair.cli.main",
    "stair.paper.figures.historical_computation",
    "stair.paper.tables.in_text",
    "stair.paper.tables.uncertainty",
    "stair.pipeline.job_inputs",
    "stair.engines.transformers",
    "stair.stages.replay.analysis.geometry",
    "stair.stages.replay.analysis.read_prediction",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.qwen3_5.modeling_qwen3_5",
)
"""The modules that jobs import when they work, besides those of their functions."""


# ---------------------------------------------------------------- the driver of a run


@contextmanager
def warm_process(environment: MutableMapping[str, str]) -> Iterator[None]:
    """Runs a warm process for the commands that start with this environment, unless it has one or `STAIR_WARM=0`."""
    from stair.records.gpus import visible_gpus

    if sys.platform != "linux" or SOCKET in environment or environment.get("STAIR_WARM") == "0" or visible_gpus():
        yield
        return
    import subprocess
    import time
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="stair-") as folder:  # the path of a socket has at most some hundred characters
        path = os.path.join(folder, "warm")
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "stair.cli.warm", path, str(os.getpid())],
            env=environment,
            start_new_session=True,  # a terminal's Ctrl-C reaches the commands, whose jobs die with them
        )
        try:
            while process.poll() is None and not os.path.exists(path):
                time.sleep(0.01)
            environment[SOCKET] = path
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
    """Runs this command in a fork of the warm process. Returns its exit code, or None without a warm process."""
    if not (path := os.environ.get(SOCKET)):
        return None
    request = {"argv": sys.argv, "folder": os.getcwd(), "environment": dict(os.environ)}
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(path)
            socket.send_fds(connection, [b" "], [0, 1, 2])
            connection.sendall(json.dumps(request).encode() + b"\n")
            answers = connection.makefile()
            begun = answers.readline()
        except OSError:
            begun = ""
        if not begun:  # the process has ended
            return None
        code = ""
        with suppress(OSError):
            code = answers.readline()
    if not code:
        print("stair: error: the process of this job has ended; run the workflow again to resume", file=sys.stderr)
    return int(code or 1)


# ---------------------------------------------------------------- the warm process


def _handle(connection: socket.socket, server: int) -> None:
    """Forks the job of one command, waits for it, and kills it when the command is gone."""
    import threading

    _end_with(server)
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    request = json.loads(connection.makefile().readline())
    handler = os.getpid()
    job = os.fork()
    if job == 0:
        _end_with(handler)
        connection.close()
        _work(request, files)

    connection.sendall(b"begun\n")

    def watch() -> None:
        with suppress(OSError):
            connection.recv(1)  # the command sends nothing more, so this is its end
        os._exit(1)  # the job dies with this process

    threading.Thread(target=watch, daemon=True).start()
    code = os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])
    connection.sendall(b"%d\n" % (128 - code if code < 0 else code))


def _end_with(parent: int) -> None:
    end_with_parent()
    if os.getppid() != parent:
        os._exit(1)


def _work(request: dict[str, Any], files: list[int]) -> None:
    import importlib
    import traceback

    code = 1
    try:
        for target, file in enumerate(files):
            os.dup2(file, target)
            os.close(file)
        os.chdir(request["folder"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = request["argv"]
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


def _serve(path: str, parent: int) -> None:
    """Imports, and forks a handler for each command."""
    import gc
    import importlib
    import socketserver
    import warnings

    from stair.cli.context import set_threads
    from stair.cli.environment import prepare_environment, print_every_sign
    from stair.pipeline.jobs import JOBS, code_of

    _end_with(parent)
    prepare_environment()
    print_every_sign()
    serving = os.getpid()

    class Server(socketserver.ForkingMixIn, socketserver.UnixStreamServer):
        max_children = 10**6
        request_queue_size = 64

        def finish_request(self, request: Any, client_address: Any) -> None:
            _handle(request, serving)

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(path, socketserver.BaseRequestHandler)
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
    server.serve_forever()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
