"""Further arguments of SGLang's server: those that can change a response, those that cannot, those that the run sets."""

from __future__ import annotations

from collections.abc import Sequence

OWN_OPTIONS = [
    "--model-path",
    "--host",
    "--port",
    "--nccl-port",
    "--weight-version",
    "--dtype",
    "--device",
    "--attention-backend",
    "--sampling-backend",
    "--context-length",
    "--max-running-requests",
    "--tensor-parallel-size",
    "--skip-tokenizer-init",
    "--enable-deterministic-inference",
    "--disable-overlap-schedule",
    "--log-level",
    "--log-level-http",
    "--decode-log-interval",
    "--mem-fraction-static",
    "--max-total-tokens",
    "--sleep-on-idle",
]
"""Arguments that keys of the configuration set, or that results depend on."""

_OTHER_NAMES = ["--model", "--tp-size", "--tp", "--prefill-attention-backend", "--decode-attention-backend"]

NEUTRAL_OPTIONS = [
    "--chunked-prefill-size",
    "--max-prefill-tokens",
    "--schedule-policy",
    "--schedule-conservativeness",
    "--max-queued-requests",
    "--cuda-graph-max-bs",
    "--cuda-graph-bs",
    "--disable-cuda-graph",
    "--disable-radix-cache",
    "--watchdog-timeout",
    "--skip-server-warmup",
    "--base-gpu-id",
    "--enable-metrics",
    "--log-requests",
]
"""Further options that decide how fast a server is, not what a batch-invariant one answers."""


def decisive_arguments(arguments: Sequence[str], tensor_parallel: int = 1) -> str:
    """The further server arguments that can change a response, as one text; empty without any.

    Raises:
        ValueError: the configuration sets one under another key, or one must stay as it is.
    """
    groups: list[list[str]] = []
    for word in arguments:
        if word.startswith("--") or not groups:
            groups.append([word])
        else:
            groups[-1].append(word)
    decisive = []
    for group in groups:
        option = group[0].split("=")[0]
        if not option.startswith("--"):
            raise ValueError(f"sglang.arguments: '{option}' is no option; options begin with --")
        # The server takes the beginning of an option's name for the whole.
        if option in _OTHER_NAMES or any(own.startswith(option) for own in OWN_OPTIONS):
            raise ValueError(
                f"sglang.arguments: {option} is set by the run (keys of sglang and of the model), or must stay as it is; take "
                "it out"
            )
        if option not in NEUTRAL_OPTIONS:
            decisive.append(" ".join(group))
    if tensor_parallel > 1:
        decisive.append(f"--tensor-parallel-size {tensor_parallel}")
    return " ".join(sorted(decisive))
