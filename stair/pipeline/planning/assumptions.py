"""The figures that a plan assumes, each with its source."""

from __future__ import annotations

from typing import NamedTuple


class Assumption(NamedTuple):
    """A figure with its unit and source."""

    value: float
    unit: str
    source: str


_GPU = "benchmarks/gpu.md, one H200"
_DEFAULT = "default, not measured"

ASSUMPTIONS: dict[str, Assumption] = {
    "gpu_flops": Assumption(990e12, "operations/s", "H100, BF16, published"),
    "gpu_bandwidth": Assumption(3.35e12, "bytes/s", "H100, published"),
    "prefill_share": Assumption(0.33, "of gpu_flops", f"{_GPU}: 4,096 tokens of Qwen3-4B in 101 ms"),
    "prefill_share_hybrid": Assumption(0.15, "of gpu_flops", f"{_GPU}: Qwen3.5-4B in 233 ms, without its kernels"),
    "layer_step_seconds": Assumption(0.0012, "s", f"{_GPU}: Qwen3-4B launched by the host, 23.3 steps/s, 36 layers"),
    "layer_step_seconds_hybrid": Assumption(
        0.0022, "s", "one H100: Qwen3.5-4B launched by the host, 14.3 steps/s, 32 layers"
    ),
    "recorded_layer_seconds": Assumption(0.00028, "s", f"{_GPU}: 64 rows of Qwen3-4B, 6,265 tokens/s, 36 layers"),
    "server_share": Assumption(0.5, "of gpu_bandwidth", _DEFAULT),
    "server_memory": Assumption(7e10, "bytes/GPU", "SGLang's weights and cache on an 80 GB GPU"),
    "training_share": Assumption(
        0.21,
        "of gpu_flops",
        "one H100: sessions of Qwen3-4B, 4,444 TFLOP in 21.6 s at 16,384 tokens a response, with a mask behind prefixes",
    ),
    "training_share_hybrid": Assumption(
        0.08, "of gpu_flops", f"{_GPU}: Qwen3.5-4B and 9B, 596 TFLOP in 9.9 s, launches 2.3 s, without their kernels"
    ),
    "training_memory": Assumption(8e10, "bytes", "default: an 80 GB GPU, which decides how many layers run again"),
    "cpu_flops": Assumption(2e10, "operations/s", "docs/tiny.md, one core"),
    "cpu_layer_step_seconds": Assumption(0.0006, "s", "docs/tiny.md, one core"),
    "start_seconds": Assumption(30.0, "s", "default: imports and loading a published model"),
    "small_start_seconds": Assumption(0.4, "s", "docs/tiny.md: a job of a small model"),
    "cpu_job_seconds": Assumption(6.0, "s", "default: imports, in a run with published models"),
    "small_cpu_job_seconds": Assumption(0.4, "s", "docs/tiny.md: the same in the tiny run"),
    "grading_seconds": Assumption(0.01, "s/response", "default: grader/limits.md measures 0.0026 on short answers"),
    "problem_tokens": Assumption(150.0, "tokens", "default: a prompt without history"),
    "visible_share": Assumption(0.1, "of a response", "default: the part after </think>, which history shows"),
    "pool_records": Assumption(15_528.0, "records", "appendix C.1: 1,941 updates of eight sessions; without a table"),
    "file_rows": Assumption(1000.0, "rows", "default: a local file that was not read yet"),
    "replay_tokens": Assumption(800.0, "tokens", "default: the longest current turn, to which all are padded"),
    "small_replay_tokens": Assumption(60.0, "tokens", "default: the same in the tiny run"),
    "gpu_reserve": Assumption(2e9, "bytes", "default: CUDA and workspaces"),
    "bytes_a_token": Assumption(16.0, "bytes", "default: text, ids and work log of a response token"),
}

MEAN_TOKENS: dict[tuple[bool, str], Assumption] = {
    (False, "math500"): Assumption(
        1040, "tokens", "appendix A.1: histories of three turns, median 3,017 and 4,103, less the prompts"
    ),
    (False, "aime2025"): Assumption(6000, "tokens", _DEFAULT),
    (False, "amc23"): Assumption(3000, "tokens", _DEFAULT),
    (False, "gpqa_diamond"): Assumption(3000, "tokens", _DEFAULT),
    (False, "training_pool"): Assumption(3500, "tokens", _DEFAULT),
    (True, "math500"): Assumption(12_000, "tokens", _DEFAULT),
    (True, "aime2025"): Assumption(
        51_000, "tokens", "appendix C.4, shared T1: numbers of banks above 2K, 8K and 32K, and the median; 40K to 61K"
    ),
    (True, "amc23"): Assumption(20_000, "tokens", _DEFAULT),
    (True, "gpqa_diamond"): Assumption(16_000, "tokens", _DEFAULT),
    (True, "training_pool"): Assumption(16_000, "tokens", _DEFAULT),
}
"""Mean tokens of a response, by whether the model thinks; never more than the output limit."""

OTHER_TOKENS = {False: 3000.0, True: 16_000.0}
"""The same on other benchmarks."""


def assumed(name: str) -> float:
    return ASSUMPTIONS[name].value


def mean_tokens(thinking: bool, problems: str, limit: int) -> float:
    """Mean tokens of a response on a benchmark, or of a training response (`training_pool`)."""
    found = MEAN_TOKENS.get((thinking, problems))
    return min(float(limit), found.value if found else OTHER_TOKENS[thinking])
