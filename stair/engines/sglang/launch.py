"""How a server is started: its environment, its command line, and its expected report."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from stair.config.sglang_arguments import decisive_arguments

_SPARE = 8
"""The server keeps some positions for itself, so its context is longer than the model's. The client limits lengths."""

_CPU_PLUGIN = "sglang-plain-cpu"
"""The package that lets SGLang compute on a CPU (envs/sglang_plain_cpu)."""


@dataclass(frozen=True)
class Launch:
    """How the server of an engine is started.

    Args:
        environment: the folder of the server's Python environment (`make sglang-env`).
        version: the SGLang that it must contain.
        folder: the model.
        context: the model's context in tokens.
        dtype: working precision.
        device: cuda or cpu.
        attention: SGLang's attention backend.
        running: the most requests that the server decodes together.
        tensor_parallel: GPUs that share the model.
        memory_fraction: share of GPU memory for weights and cache; None leaves it to SGLang.
        cache_tokens: size of the key/value cache in tokens; None leaves it to SGLang.
        arguments: further arguments of `sglang.launch_server`.
        start_seconds: the longest time that loading may take.
        stall_seconds: a server without a sign of life for this time is ended.
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
    start_seconds: float = 3600.0
    stall_seconds: float = 300.0

    @property
    def python(self) -> Path:
        return self.environment / "bin" / "python"

    def check(self) -> None:
        """Raises ValueError as `check_environment` and `decisive_arguments`, without starting anything."""
        decisive_arguments(self.arguments)
        check_environment(self.environment, self.version, self.device)

    @property
    def promised(self) -> dict[str, Any]:
        """The part of `/server_info` under which responses are recorded."""
        return {
            "version": self.version,
            "dtype": self.dtype,
            "attention_backend": self.attention,
            "sampling_backend": "pytorch",
            "enable_deterministic_inference": True,
            "tp_size": self.tensor_parallel,
        }

    def check_report(self, facts: Mapping[str, Any], needed: int) -> None:
        """Compares a server's `/server_info` with the launch.

        Args:
            facts: the report.
            needed: tokens of the longest response with its prompt. The server cuts off responses that its cache cannot hold.

        Raises:
            ValueError: another version, precision, backend or mode, or a cache that is too small.
        """
        for fact, wanted in self.promised.items():
            if facts.get(fact) != wanted:
                raise ValueError(
                    f"SGLang's server reports {fact} {facts.get(fact)}, expected {wanted}; check sglang.arguments and the "
                    f"environment {self.environment}"
                )
        room = facts.get("max_total_num_tokens")
        if isinstance(room, int) and room < needed + 2:  # the server keeps some of its cache for itself
            raise ValueError(
                f"the server's key/value cache holds {room} tokens, and one response of this run can need {needed}; give it "
                "more memory (sglang.memory_fraction, sglang.cache_tokens, sglang.tensor_parallel)"
            )

    def command(self, port: int, inner_port: int, identity: str) -> list[str]:
        """The command line. `identity` is the name by which this server is recognised."""
        words = [
            str(self.python.absolute()), "-m", "sglang.launch_server",
            "--model-path", str(self.folder.absolute()),
            "--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(inner_port),
            "--weight-version", identity,
            "--dtype", self.dtype, "--device", self.device,
            "--attention-backend", self.attention, "--sampling-backend", "pytorch",
            "--context-length", str(self.context + _SPARE),
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

    def surroundings(self, scratch: Path) -> dict[str, str]:
        """The server's environment variables; `scratch` is the folder of its temporary files."""
        dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in dropped}
        variables |= {
            "PATH": f"{self.python.absolute().parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "TMPDIR": str(scratch),
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN": "1",  # by _SPARE
        }
        if not os.access(os.path.expanduser("~"), os.W_OK):
            variables["HOME"] = str(scratch)  # libraries keep caches there
        # The server sends requests to itself, which must not go to a proxy.
        for name in ("no_proxy", "NO_PROXY"):
            variables[name] = ",".join(filter(None, [os.environ.get(name), "127.0.0.1", "localhost"]))
        if self.device == "cpu":
            variables |= {"SGLANG_PLATFORM": "plain_cpu", "TORCH_COMPILE_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
            # A run's jobs have set it. Threads that wait for each other make every step slow on shared processors.
            variables.setdefault("OMP_NUM_THREADS", "1")
        return variables

    def versions(self) -> dict[str, str]:
        """Versions of the environment's packages that can change a result."""
        names = ("sglang", "torch", "transformers", "triton", "flashinfer-python", "sglang-kernel")
        versions = {name: _installed(self.environment, name) for name in names}
        return {name: version for name, version in versions.items() if version is not None}


def check_environment(environment: Path, version: str, device: str) -> None:
    """Raises ValueError if there is no environment, it has another SGLang, or it is for another device (cpu or cuda)."""
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
    folders = [str(path) for path in environment.glob("lib/python3*/site-packages")]
    for package_info in metadata.distributions(name=package, path=folders):
        return package_info.version
    return None
