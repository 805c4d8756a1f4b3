"""How a server is started: its environment, its command line, its variables, and its expected report."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from stair.config.engines import SGLangSettings
from stair.config.paths import anchored

_SPARE = 8
"""The server keeps some positions for itself, so its context is longer than the model's. The client limits lengths."""

_CPU_PLUGIN = "sglang-plain-cpu"
"""The package that lets SGLang compute on a CPU (envs/sglang_plain_cpu)."""


@dataclass(frozen=True)
class ServerLaunch:
    """How the server of a model is started."""

    settings: SGLangSettings
    folder: Path
    """The model."""
    dtype: str
    context: int
    """The model's context in tokens."""

    @property
    def python(self) -> Path:
        return anchored(self.settings.environment_folder).absolute() / "bin" / "python"

    @property
    def promised(self) -> dict[str, Any]:
        """The part of `/server_info` under which responses are recorded."""
        return {
            "model_path": str(self.folder.absolute()),
            "version": self.settings.version,
            "dtype": self.dtype,
            "attention_backend": self.settings.attention,
            "sampling_backend": "pytorch",
            "enable_deterministic_inference": True,
            "tp_size": self.settings.tensor_parallel,
        }

    def check_report(self, facts: Mapping[str, Any]) -> None:
        """Raises ValueError if `/server_info` has another model, version, precision, backend or mode."""
        for fact, wanted in self.promised.items():
            if facts.get(fact) != wanted:
                raise ValueError(
                    f"SGLang's server reports {fact} {facts.get(fact)}, expected {wanted}; check sglang.arguments and the "
                    f"environment {self.settings.environment_folder}"
                )

    def command(self, port: int, inner_port: int) -> list[str]:
        settings = self.settings
        words = [
            str(self.python), "-m", "sglang.launch_server",
            "--model-path", str(self.folder.absolute()),
            "--host", "127.0.0.1", "--port", str(port), "--nccl-port", str(inner_port),
            "--dtype", self.dtype, "--device", settings.device,
            "--attention-backend", settings.attention, "--sampling-backend", "pytorch",
            "--context-length", str(self.context + _SPARE),
            "--max-running-requests", str(settings.concurrency),
            "--tensor-parallel-size", str(settings.tensor_parallel),
            "--watchdog-timeout", str(settings.stall_seconds),
            # Token ids in and out: the server needs no tokenizer.
            "--skip-tokenizer-init",
            # Without it, SGLang ignores seeds in silence.
            "--enable-deterministic-inference",
            # With it, penalties are counted a token late (docs/rollouts.md).
            "--disable-overlap-schedule",
            "--log-level", "info", "--log-level-http", "warning", "--decode-log-interval", "1000",
        ]  # fmt: skip
        if settings.memory_fraction is not None:
            words += ["--mem-fraction-static", str(settings.memory_fraction)]
        if settings.cache_tokens is not None:
            words += ["--max-total-tokens", str(settings.cache_tokens)]
        if settings.device == "cpu":
            # An idle scheduler would otherwise look for requests without a pause, on a processor that others need.
            words.append("--sleep-on-idle")
        return [*words, *settings.arguments]

    def surroundings(self, scratch: Path) -> dict[str, str]:
        """The server's environment variables; `scratch` is the folder of its temporary files."""
        dropped = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        variables = {name: value for name, value in os.environ.items() if name not in dropped}
        variables |= {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', '')}",
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
        if self.settings.device == "cpu":
            variables |= {"SGLANG_PLATFORM": "plain_cpu", "TORCH_COMPILE_DISABLE": "1", "CUDA_VISIBLE_DEVICES": ""}
            # A run's jobs have set it. Threads that wait for each other make every step slow on shared processors.
            variables.setdefault("OMP_NUM_THREADS", "1")
        return variables

    def versions(self) -> dict[str, str | None]:
        """Versions of the environment's packages that can change a result."""
        names = ("sglang", "torch", "transformers", "triton", "flashinfer-python", "sglang-kernel")
        return {name: _installed(anchored(self.settings.environment_folder), name) for name in names}


def check_environment(settings: SGLangSettings) -> None:
    """Raises ValueError if there is no environment, it has another SGLang, or it is for another device (cpu or cuda)."""
    environment, device = anchored(settings.environment_folder), settings.device
    how = f"build one with `make sglang-env DEVICE={device}`, or name yours (sglang.environment)"
    if not (environment / "bin" / "python").exists():
        raise ValueError(f"there is no environment for SGLang's server at {environment}; {how}")
    installed = _installed(environment, "sglang")
    if installed != settings.version:
        holds = f"SGLang {installed}" if installed else "no SGLang"
        raise ValueError(f"{environment} holds {holds}, but sglang.version is {settings.version}; {how}")
    plain = _installed(environment, _CPU_PLUGIN) is not None
    if plain != (device == "cpu"):
        what = f"has {_CPU_PLUGIN}, which is for a CPU alone" if plain else f"lacks {_CPU_PLUGIN}"
        raise ValueError(f"{environment} {what}, but sglang.device is {device}; {how}")


def _installed(environment: Path, package: str) -> str | None:
    folders = [str(path) for path in environment.glob("lib/python3*/site-packages")]
    for package_info in metadata.distributions(name=package, path=folders):
        return package_info.version
    return None
