"""Further arguments of SGLang's server. Each can change a response as far as this project knows, so each enters its key."""

from __future__ import annotations

from collections.abc import Sequence

OWN_OPTIONS = (
    "--model-path", "--host", "--port", "--nccl-port", "--dtype", "--device", "--attention-backend",
    "--prefill-attention-backend", "--decode-attention-backend", "--sampling-backend", "--context-length",
    "--max-running-requests", "--tensor-parallel-size", "--tp-size", "--skip-tokenizer-init",
    "--enable-deterministic-inference", "--disable-overlap-schedule", "--log-level", "--log-level-http",
    "--decode-log-interval", "--mem-fraction-static", "--max-total-tokens", "--sleep-on-idle", "--watchdog-timeout",
)  # fmt: skip
"""Arguments that keys of the configuration set, or that results depend on."""


def decisive_arguments(arguments: Sequence[str], tensor_parallel: int = 1) -> str:
    """The further arguments as one text in an order of its own; empty without any.

    Raises:
        ValueError: the configuration sets one under another key, or one must stay as it is.
    """
    groups: list[str] = []
    for word in arguments:
        if not word.startswith("--"):
            if not groups:
                raise ValueError(f"sglang.arguments: '{word}' is no option; options begin with --")
            groups[-1] += f" {word}"
            continue
        groups.append(word)
        option = word.split("=")[0]
        # The server takes the beginning of an option's name for the whole.
        if any(own.startswith(option) for own in OWN_OPTIONS):
            raise ValueError(
                f"sglang.arguments: {option} is set by the run (keys of sglang and of the model), or must stay as it is; take "
                "it out"
            )
    if tensor_parallel > 1:
        groups.append(f"--tensor-parallel-size {tensor_parallel}")
    return " ".join(sorted(groups))
