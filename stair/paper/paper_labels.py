"""The paper's labels of tables, parts, models, benchmarks and conditions."""

from __future__ import annotations

from collections.abc import Iterable

POOLED = "tab:history-correctness-summary"
SHARED_T1 = "tab:shared-t1"
BANK_PREFIXES = "tab:bank-prefix-accuracy"
SHARED = (SHARED_T1, BANK_PREFIXES)
"""The tables of the study with a shared T1 history."""
BANK_RUNTIME = "tab:bank-runtime"
RUNTIME_TEXT = "app:component-runtime"
"""The appendix that describes the runtime measurements and the study with a shared T1 history."""
REPLAY_TEXT = "app:replay-construction"
"""The appendix that says how the replay was made."""
GAINS_TEXT = "sec:continuous-results"
POOL_TEXT = "app:method-gradients"
TRAINING_TEXT = "app:training-settings"
"""The parts whose text gives numbers of gains, of training problems and of the training."""
HISTORICAL_COMPUTATION = "fig:historical-computation"
NEIGHBORHOOD = "fig:appendix-neighborhood"
READ_PREDICTION = "fig:appendix-read-prediction"

HISTORY_TABLES = {
    "qwen3-4b-instruct": "tab:history-qwen3",
    "qwen3.5-4b": "tab:history-qwen35-4b",
    "qwen3.5-9b": "tab:history-qwen35-9b",
}
TURNS_TABLES = {
    "qwen3-4b-instruct": "tab:turns-qwen3_4b_instruct",
    "qwen3.5-4b": "tab:turns-qwen35_4b_thinking",
    "qwen3.5-9b": "tab:turns-qwen35_9b_thinking",
}
"""The labels of tables that each model has."""


def _numbered(kind: str, labels: Iterable[str]) -> dict[str, str]:
    return {label: f"{kind} {number}" for number, label in enumerate(labels, start=1)}


PRINTED_AT = {
    **_numbered(
        "Table",
        (
            POOLED,
            "tab:continuous-summary",
            SHARED_T1,
            "tab:lora-comparison",
            "tab:replay-design",
            "tab:native-accuracy",
            *HISTORY_TABLES.values(),
            "tab:controller-configuration",
            "tab:evaluation-decoding",
            BANK_PREFIXES,
            BANK_RUNTIME,
            TURNS_TABLES["qwen3-4b-instruct"],
            "tab:lora-turns",
            TURNS_TABLES["qwen3.5-4b"],
            TURNS_TABLES["qwen3.5-9b"],
        ),
    ),
    **_numbered(
        "Figure",
        (
            "fig:overview",
            HISTORICAL_COMPUTATION,
            "fig:method",
            "fig:appendix-attention",
            NEIGHBORHOOD,
            READ_PREDICTION,
            "fig:method-training",
        ),
    ),
    GAINS_TEXT: "section 4.2",
    REPLAY_TEXT: "appendix A.1",
    POOL_TEXT: "appendix B.4",
    TRAINING_TEXT: "appendix C.1",
    RUNTIME_TEXT: "appendix C.4",
}
"""Where the paper prints what has a label: a numbered table or figure, or a part of the text."""

CONDITIONS = {
    "vanilla": "Vanilla",
    "native": "Native",
    "stair": "STAIR",
    "lora": "LoRA",
    "lora_stair": "LoRA + STAIR",
    "native_again": "Native again",
    "stair_null": "STAIR times zero",
    "random_reflector": "Random-reflector",
    "direct_read": "Direct reflected-read",
    "bank_free": "Bank-free",
    "kv_permutation": "K-V pairing permutation",
    "stair_prefix-2048": "STAIR 2K",
    "stair_prefix-8192": "STAIR 8K",
    "stair_prefix-32768": "STAIR 32K",
    "stair_prefix-full": "STAIR Full",
}
"""The paper's labels of conditions, for those that a configuration does not name."""

MODELS = {"qwen3-4b-instruct": "Qwen3-4B-Instruct-2507", "qwen3.5-4b": "Qwen3.5-4B", "qwen3.5-9b": "Qwen3.5-9B"}
"""The labels of the paper's models, as its values are spelled. A small model in place of one of them has its key."""

REPOSITORIES = {
    "qwen3-4b-instruct": "Qwen/Qwen3-4B-Instruct-2507",
    "qwen3.5-4b": "Qwen/Qwen3.5-4B",
    "qwen3.5-9b": "Qwen/Qwen3.5-9B",
}
"""Where the paper's backbones come from, of training and evaluation (appendix C.1)."""

BENCHMARKS = {"math500": "MATH-500", "aime2025": "AIME 2025", "amc23": "AMC23", "gpqa_diamond": "GPQA-Diamond"}
"""The labels of the paper's benchmarks."""

POOLED_BENCHMARKS = ("math500", "aime2025", "amc23")
"""The mathematical benchmarks, whose responses of all three models the paper pools (section 2.3)."""

FULL_BANK = "stair_prefix-full"
"""The key under which the full bank stands among the prefixes; its rows are those of `stair`."""

MODEL_KEYS, BENCHMARK_KEYS, CONDITION_KEYS = (
    {label: key for key, label in labels.items()} for labels in (MODELS, BENCHMARKS, CONDITIONS)
)

PRINTED = {
    "Qwen3-4B-Instruct-2507": "Qwen3-4B Instruct",
    "K-V pairing permutation": "K--V pairing permutation",
}
"""Labels that the paper's tables print otherwise than its values are spelled."""

REPEATS = {"native_again": "native", "stair_null": "native"}
"""Repeat conditions, each with the condition that it repeats, for rows without a configuration."""


def printed_at(artifact: str) -> str:
    """Where the paper prints an artifact's numbers, as people say it; an artifact that the paper lacks has its own name."""
    return PRINTED_AT.get(artifact, artifact)


def evaluated_as(condition: str) -> str:
    """The condition whose rows a condition's numbers come from: the full bank among the prefixes is `stair`."""
    return "stair" if condition == FULL_BANK else condition
