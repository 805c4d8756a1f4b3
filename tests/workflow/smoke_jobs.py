"""The jobs of the smoke run and what follows from each, by hand: the expectation of the tests, not the graph's output.

A name is the rule and its wildcards, without the run's one model and one benchmark. A set has the jobs that run again with
everything that is made from their outputs.
"""

from __future__ import annotations

MODEL = "qwen3-4b-instruct"


def names(rule: str, *wildcards: str) -> set[str]:
    """One rule's jobs."""
    return {f"{rule} {each}" for each in wildcards}


# ---------------------------------------------------------------- after the scored rows

END = {"provenance", "report"}
REPORTED = {"comparison", "claims", *END}
"""After every number that a table or a figure reports."""
TEXT = {"table in_text", *REPORTED}
MAIN_TABLES = names(
    "table", "continuous_summary", "native_accuracy", "history_correctness_summary", "intervals", "comparisons",
    f"turns_{MODEL}", f"history_{MODEL}",
)  # fmt: skip
T1_TABLES = names("table", "shared_t1", "bank_prefix_accuracy", "shared_t1_intervals", "shared_t1_comparisons")
OWN_TABLES = names("table", "replay_design", "bank_runtime", "controller_configuration", "evaluation_decoding")
"""Tables without responses."""
ROW_FIGURES = names("figure", "overview", "historical_computation")
REPLAY_FIGURES = names("figure", "historical_computation", "attention", "neighborhood", "read_prediction")
GEOMETRY_FIGURES = names("figure", "historical_computation", "neighborhood")
DIAGRAMS = names("figure", "method", "training_scope")
TRAINING_FIGURE = f"figure training_{MODEL}"
TABLES = {*MAIN_TABLES, *OWN_TABLES, *ROW_FIGURES, *REPLAY_FIGURES, *TEXT}
"""All tables but the four of the study with a shared T1, whose conditions are other ones, and the figures with labels."""
ALL_TABLES = {*TABLES, *T1_TABLES}
ALL_FIGURES = {*ROW_FIGURES, *REPLAY_FIGURES, *DIAGRAMS, TRAINING_FIGURE}

CHECKED = {"check", *MAIN_TABLES, *T1_TABLES, *ROW_FIGURES, *TEXT}
"""After any new responses: every table of scored rows waits for the checks."""
SCORES = {
    *names("score_condition", "vanilla", "native", "stair"),
    *names("score_condition", *(f"shared_t1/{name}" for name in ("t1", "native", "stair", "bank_free", "stair_prefix-8"))),
    *MAIN_TABLES, *T1_TABLES, *ROW_FIGURES, *TEXT,
}  # fmt: skip

# ---------------------------------------------------------------- after responses

STATISTICS = {*names("replay_statistics", "attention", "geometry", "read_prediction"), *REPLAY_FIGURES, *TEXT}
MEASURED_REPLAY = {*names("replay_shard", "0", "1"), "seal_replay", *STATISTICS}
REPLAY = {"replay_design", "table replay_design", *MEASURED_REPLAY}
RUNTIME = {"measure_runtime", "table bank_runtime", *TEXT}


def answered(condition: str, shards: int = 1) -> set[str]:
    """A condition of the evaluation is generated again."""
    shard = names("evaluation_shard", *(f"{condition} {number}" for number in range(shards)))
    return {*shard, f"seal_evaluation {condition}", f"score_condition {condition}", *CHECKED}


def controlled(*conditions: str) -> set[str]:
    """Conditions of the study with a shared T1 are generated again."""
    keys = [f"shared_t1/{name}" for name in conditions]
    shards = names("evaluation_shard", *(f"{key} 0" for key in keys))
    return {*shards, *names("seal_evaluation", *keys), *names("score_condition", *keys), *CHECKED}


STAIR = answered("stair")
NATIVE = {*answered("native"), *REPLAY, *RUNTIME}
"""Histories that are replayed, and turns that the runtime study continues, are Native's."""
EVALUATION = {*answered("vanilla"), *NATIVE, *STAIR}
CONTROLS = controlled("t1", "native", "stair", "bank_free", "stair_prefix-8")
ANSWERS = {*EVALUATION, *CONTROLS}

# ---------------------------------------------------------------- after training

STAIR_CONTROLLER = {
    "train_controller stair", TRAINING_FIGURE, *DIAGRAMS, "table controller_configuration",
    *STAIR, *controlled("stair", "stair_prefix-8"), *RUNTIME,
}  # fmt: skip
BANK_FREE = {"train_controller bank_free", TRAINING_FIGURE, *controlled("bank_free")}
LORA = {"train_lora lora", TRAINING_FIGURE, *TEXT}
LORA_STAIR = {"train_lora_stair lora_stair", TRAINING_FIGURE, *END}
"""No condition of the run answers with it, and the text has no number of it."""
TRAINING = {*STAIR_CONTROLLER, *BANK_FREE, *LORA, *LORA_STAIR}
SESSIONS = {"training_sessions", *TRAINING}
ROLLOUTS = {*names("rollout_shard", "0", "1"), "seal_rollouts", *SESSIONS}

# ---------------------------------------------------------------- after data and models

POOL = {"training_pool", "data_report", *ROLLOUTS}
SCHEDULE = {"evaluation_sessions", *ANSWERS}
BENCHMARK = {"benchmark", *SCHEDULE, *POOL}
"""The training pool leaves its problems out."""
PREFLIGHT = {"preflight_model", *ROLLOUTS, *ANSWERS}

EVERY_JOB = {
    *names("raw", "math500", "training_pool"),
    "data_report",
    *BENCHMARK,
    *PREFLIGHT,
    *ALL_TABLES,
    *ALL_FIGURES,
    *END,
}

SHOWING = (
    "data_report", "check", "table", "figure", "comparison", "claims", "provenance", "report",
)  # fmt: skip
"""The rules that take the whole configuration and the whole code. Each of their jobs takes seconds on a CPU."""


def lasting(jobs: set[str]) -> set[str]:
    """Without the jobs that any change of the configuration or the code runs again."""
    return {job for job in jobs if job.split()[0] not in SHOWING}
