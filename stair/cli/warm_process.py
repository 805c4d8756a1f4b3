"""One process that has imported everything, from which a run's jobs fork: a job on this machine starts at once.

Importing torch and Transformers takes longer than many a job of a small run works. `stair reproduce` therefore starts this
process and names its socket in the environment; each `stair` command that finds it there hands its arguments, surroundings and
open files over, waits, and passes signals on. Without the process a command runs by itself, with the same result.

CUDA does not survive forks. So the imports may not start it; if one has, this process ends, and each command runs by itself.

What dies takes its part along: the process with its driver, a job with the process or with its client.
"""

from __future__ import annotations

import array
import json
import os
import selectors
import signal
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

from stair.cli.warm_client import PASSED_ON, end_with_parent
from stair.records.interruption import SIGNALS as STOPPING

MODULES = (
    "stair.cli.main",
    "stair.paper.figures.figure",
    "stair.paper.stage",
    "stair.paper.tables.uncertainty",
    "stair.stages.checks.stage",
    "stair.stages.data.report",
    "stair.stages.data.stage",
    "stair.engines.transformers",
    "stair.stages.evaluation.scores",
    "stair.stages.evaluation.stage",
    "stair.stages.preflight.stage",
    "stair.stages.replay.analyze",
    "stair.stages.rollouts.stage",
    "stair.stages.sessions.stage",
    "stair.tiny.acceptance",
    "stair.tiny.backbone_training",
    "stair.tiny.stage",
    "stair.stages.training.stage",
    "transformers.models.qwen3.modeling_qwen3",
    "transformers.models.qwen3_5.modeling_qwen3_5",
)
"""What is imported before the first job; all of it is what the jobs would import themselves."""

_WITH_DELTA_NET = ("stair.tiny.backbone_training", "transformers.models.qwen3_5.modeling_qwen3_5")
"""Modules that import the GPU kernels of Gated DeltaNet, where these are installed; that import starts CUDA."""

_POLL_SECONDS = 0.02


class _Jobs:
    """The jobs under way, each with its client's connection."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._connections: dict[int, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._parent = os.getppid()

    def serve(self) -> None:
        """Forks a job for every client until the driver is gone."""
        while os.getppid() == self._parent:
            for key, _ in self._selector.select(_POLL_SECONDS if self._connections else 1.0):
                if key.fileobj is self._listener:
                    self._begin()
                elif key.data in self._connections:  # a client says nothing more: it has died
                    with suppress(ProcessLookupError):
                        os.kill(key.data, signal.SIGKILL)
                    self._selector.unregister(key.fileobj)
            self._reap()

    def _begin(self) -> None:
        connection, _ = self._listener.accept()
        try:
            header, ancillary, _, _ = connection.recvmsg(4, socket.CMSG_SPACE(3 * array.array("i").itemsize))
            files = array.array("i")
            for level, kind, data in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    files.frombytes(data)
            length = struct.unpack("!I", header)[0]
            body = b""
            while len(body) < length:
                part = connection.recv(length - len(body))
                if not part:
                    raise ConnectionError
                body += part
        except (OSError, struct.error):
            connection.close()
            return
        # A signal that comes before the job handles signals waits; ignored as they are here, it would be lost.
        signal.pthread_sigmask(signal.SIG_BLOCK, PASSED_ON)
        process = os.getpid()
        job = os.fork()
        if job == 0:
            end_with_parent()
            if os.getppid() != process:  # it died before that call, and the client runs the command by itself
                os._exit(1)
            self._listener.close()
            self._selector.close()
            for other in self._connections.values():
                other.close()
            # The job says its number itself: no job works of which its client does not know.
            with suppress(OSError), connection:
                connection.sendall(struct.pack("!i", os.getpid()))
            _work(json.loads(body), list(files))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, PASSED_ON)
        for file in files:
            os.close(file)
        self._connections[job] = connection
        self._selector.register(connection, selectors.EVENT_READ, job)

    def _reap(self) -> None:
        while self._connections:
            job, status = os.waitpid(-1, os.WNOHANG)
            if job == 0:
                return
            connection = self._connections.pop(job)
            with suppress(KeyError):
                self._selector.unregister(connection)
            code = os.waitstatus_to_exitcode(status)
            with suppress(OSError), connection:
                connection.sendall(struct.pack("!i", 128 - code if code < 0 else code))


def _work(request: dict[str, Any], files: list[int]) -> None:
    """Runs a command in the forked process, which ends with it."""
    code = 1
    try:
        for target, file in enumerate(files):
            os.dup2(file, target)
            os.close(file)
        for number in PASSED_ON:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        # Those that ask to stop wait until the command listens to them.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, set(PASSED_ON) - set(STOPPING))
        os.chdir(str(request["folder"]))
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.argv = list(request["argv"])
        from stair.cli.main import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except KeyboardInterrupt:
        code = 130
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        import atexit

        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _forks_have_cuda() -> bool:
    """Whether a forked process could use CUDA, which only such a process can tell."""
    import torch

    child = os.fork()
    if child == 0:
        os._exit(int(torch.cuda._is_in_bad_fork()))
    return os.waitpid(child, 0)[1] == 0


def serve(descriptor: int) -> None:
    """The warm process: imports, and serves the listening socket that it was given."""
    import gc
    import importlib
    import warnings

    from stair.models import delta_kernels

    for number in PASSED_ON:
        signal.signal(number, signal.SIG_IGN)  # the driver ends this process; its jobs get signals by their clients
    from stair.cli.context import set_threads

    set_threads(1)
    # Python 3.12 and later warn of each fork beside a thread. The one here is that of Arrow's allocator, which survives forks.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    # Transformers asks for GPUs when it is imported. NVML answers without starting CUDA; jobs have their own environment.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    left_out = _WITH_DELTA_NET if delta_kernels.installed() else ()
    gc.disable()
    for module in MODULES:
        if module not in left_out:
            importlib.import_module(module)
    gc.enable()
    if not _forks_have_cuda():
        return
    gc.freeze()  # a collection in a job need not touch, and so copy, what all share
    _Jobs(socket.socket(fileno=descriptor)).serve()


if __name__ == "__main__":
    serve(int(sys.argv[1]))
