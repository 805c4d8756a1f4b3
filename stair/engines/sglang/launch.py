"""What a server is started with: the environment, the command line, the ports."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from stair.config.sglang_arguments import decisive_arguments

SPARE = 8
"""Positions beyond the model's context that the server is told of: it keeps some for itself, and the client clamps."""

_CPU_PLUGIN = "sglang-plain-cpu"
"""What lets SGLang compute on a CPU (envs/sglang_plain_cpu)."""


@dataclass(frozen=True)
class Launch:
    """How servers of one engine are started.

    Args:
        environment: the folder of the server's Python environment (`make sglang-env`).
        version: the SGLang that must be in it.
        folder: the model.
        context: the model's context in tokens.
        dtype: working precision.
        device: cuda or cpu.
        attention: SGLang's attention backend.
        running: requests that the server decodes together at most.
        tensor_parallel: GPUs that share the model.
        memory_fraction: share of GPU memory for weights and cache; None leaves it to SGLang.
        cache_tokens: size of the key/value cache in tokens; None leaves it to SGLang.
        arguments: further arguments of `sglang.launch_server`.
    """

    environment: Path
    version: str
    folder: Path
    context: int
    dtype: str
    device: str
    attention: str
    running: int
    tensor_parallel: int = 1
    memory_fraction: float | None = None
    cache_tokens: int | None = None
    arguments: Sequence[str] = ()

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.environment / "bin" / "python"

    def check(self) -> None:
        """Holds the environment to version and device, and looks at the arguments, without starting anything.

        Raises:
            ValueError: as `check_environment` and `decisive_arguments`.
        """
        decisive_arguments(self.arguments)
        check_environment(self.environment, self.version, self.device)

    @property
    def promised(self) -> dict[str, Any]:
        """What a server must say of itself (`/server_info`), because responses are recorded under it."""
        return {
            "dtype": self.dtype,
            "attention_backend": self.attention,
            "sampling_backend": "pytorch",
            "enable_deterministic_inference": True,
            "tp_size": self.tensor_parallel,
        }

    def command(self, port: int, inner_port: int, identity: str) -> list[str]:
        """The command line. `identity` is a name of this very server, by which it is recognised."""
        words = [
            str(self.python.absolute()), "-m", "sglang.launch_server",
            "--model-path", str(self.folder.absolute()),
            "--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(inner_port),
            "--weight-version", identity,
            "--dtype", self.dtype, "--device", self.device,
            "--attention-backend", self.attention, "--sampling-backend", "pytorch",
            "--context-length", str(self.context + SPARE),
            "--max-running-requests", str(self.running),
            "--tensor-parallel-size", str(self.tensor_parallel),
            # Token ids in and out: the server needs no tokenizer.
            "--skip-tokenizer-init",
            # Without it, SGLang ignores seeds in silence.
            "--enable-deterministic-inference",
            # With it, penalties are counted a token late (docs/rollouts.md).
            "--disable-overlap-schedule",
            "--log-level", "info", "--log-level-http", "warning", "--decode-log-interval", "1000",
        ]  # fmt: skip
        if self.memory_fraction is not None:
            words += ["--mem-fraction-static", str(self.memory_fraction)]
        if self.cache_tokens is not None:
            words += ["--max-total-tokens", str(self.cache_tokens)]
        if self.device == "cpu":
            # An idle scheduler would otherwise look for requests without a pause, on a processor that others need.
            words.append("--sleep-on-idle")
        return [*words, *self.arguments]

    def surroundings(self) -> dict[str, str]:
        """The server's environment variables."""
        dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in dropped}
        variables |= {
            "PATH": f"{self.python.absolute().parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",  # by SPARE
        }
        # The server asks itself whether it is up; a proxy of the network would be asked instead.
        for name in ("no_proxy", "NO_PROXY"):
            variables[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))
        if self.device == "cpu":
            variables |= {"SGLANG_PLATFORM": "plain_cpu", "TORCH_COMPILE_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
            # A run's jobs have set it. Threads that wait for each other while processes share processors make every step slow.
            variables.setdefault("OMP_NUM_THREADS", "1")
        return variables

    def versions(self) -> dict[str, str]:
        """Versions of the environment's packages that can change a result."""
        names = ("sglang", "torch", "transformers", "triton", "flashinfer-python", "sglang-kernel")
        versions = {name: _installed(self.environment, name) for name in names}
        return {name: version for name, version in versions.items() if version is not None}


def check_environment(environment: Path, version: str, device: str) -> None:
    """Holds the server's environment to a version and a device (cpu or cuda), from what lies on disk.

    Raises:
        ValueError: there is no environment, another SGLang in it, or what is in it is for another device.
    """
    how = f"build one with `make sglang-env DEVICE={device}`, or name yours (sglang.environment)"
    if not (environment / "bin" / "python").exists():
        raise ValueError(f"there is no environment for SGLang's server at {environment}; {how}")
    installed = _installed(environment, "sglang")
    if installed != version:
        holds = f"SGLang {installed}" if installed else "no SGLang"
        raise ValueError(f"{environment} holds {holds}, but sglang.version is {version}; {how}")
    plain = _installed(environment, _CPU_PLUGIN) is not None
    if plain != (device == "cpu"):
        what = f"has {_CPU_PLUGIN}, which is for a CPU alone" if plain else f"lacks {_CPU_PLUGIN}"
        raise ValueError(f"{environment} {what}, but sglang.device is {device}; {how}")


def _installed(environment: Path, package: str) -> str | None:
    """A package's version in another environment, from what lies on disk."""
    folders = [str(path) for path in environment.glob("lib/python3*/site-packages")]
    for package_info in metadata.distributions(name=package, path=folders):
        return package_info.version
    return None


class HeldPort:
    """A free TCP port of this machine that nobody else is given while it is held.

    The socket is bound and does not listen, with SO_REUSEADDR: so the server, which binds with it too, can take the port,
    and the kernel gives it to no one who asks for any.

    Args:
        wanted: this port, if it is free; else another.
    """

    def __init__(self, wanted: int = 0) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            self._socket.bind(("127.0.0.1", wanted))
        except OSError:
            self._socket.bind(("127.0.0.1", 0))
        self.number: int = self._socket.getsockname()[1]

    def release(self) -> None:
        """Others may have it."""
        self._socket.close()
