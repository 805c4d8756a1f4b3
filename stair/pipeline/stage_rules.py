"""The stages of the workflow: the rules of each, and where their jobs report progress."""

from __future__ import annotations

STAGES: dict[str, tuple[str, ...]] = {
    "backbones": ("backbone",),
    "data": ("raw", "benchmark", "training_pool", "data_report"),
    "preflight": ("preflight_model", "preflight_limits"),
    "rollouts": ("rollout_shard", "seal_rollouts", "data_card"),
    "sessions": ("training_sessions", "evaluation_sessions"),
    "training": ("train_controller", "train_lora", "train_lora_stair"),
    "evaluation": ("evaluation_shard", "seal_evaluation", "response_card"),
    "controls": ("controls_shard", "seal_controls"),
    "scores": ("score_condition", "score_controls"),
    "replay": ("replay_design", "replay_shard", "seal_replay", "replay_statistics"),
    "runtime": ("measure_runtime",),
    "check": ("check",),
    "tables": ("table",),
    "figures": ("figure",),
    "comparison": ("comparison",),
    "claims": ("claims",),
    "provenance": ("provenance",),
    "report": ("report",),
}
"""The targets of the workflow in their order, but for `fetch` and `all`, and the rules that each asks for."""

STAGE_OF = {rule: stage for stage, rules in STAGES.items() for rule in rules}

PROGRESS = {
    "backbone": "backbone/{model}",
    "rollout_shard": "rollouts/{model}/{shard}",
    "train_controller": "training/{model}/{controller}",
    "train_lora": "training/{model}/{controller}",
    "train_lora_stair": "training/{model}/{controller}",
    "evaluation_shard": "evaluation/{model}/{benchmark}/{condition}/{shard}",
    "controls_shard": "controls/{model}/{benchmark}/{condition}/{shard}",
    "replay_shard": "replay/{model}/{shard}",
    "measure_runtime": "runtime/{model}",
}
"""The name of the progress file of a job, for rules whose jobs report how far they are. A shard's folder below `work` is
its name without the shard."""
