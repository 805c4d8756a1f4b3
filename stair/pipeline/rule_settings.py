"""The settings of every rule, by its name: a change of any of them makes the rule's outputs stale.

Each function takes the configuration and those wildcards of the rule that it depends on. Most are in `settings.py` of the
rule's stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature

from stair.config.model import Config
from stair.config.setting_places import CONFIGURATION, Settings, conditions, under_controls
from stair.paper import settings as reporting
from stair.records.code_digest import modules_digest
from stair.records.manifest import CODE
from stair.stages.checks import settings as checks
from stair.stages.data import settings as data
from stair.stages.evaluation import settings as evaluation
from stair.stages.preflight import settings as preflight
from stair.stages.replay import settings as replay
from stair.stages.rollouts import settings as rollouts
from stair.stages.runtime import settings as runtime
from stair.stages.sessions import settings as sessions
from stair.stages.training import settings as training
from stair.tiny import settings as tiny


def _data_card(config: Config, model: str) -> Settings:
    """The data card of a model's training responses and the problems that they answer."""
    return rollouts.data_card(config, model) | data.training_pool(config, model)


def _provenance(config: Config) -> Settings:
    """The run in one file: which outputs the run has, and the code that sums them up."""
    return {
        "run": config.run,
        "models": list(config.models),
        "benchmarks": list(config.benchmarks),
        **{f"models.{key}.trained_here": model.tiny is not None for key, model in config.models.items()},
        **conditions(config, "models", "benchmarks"),
        **under_controls(conditions(config.shared_t1(), "models", "benchmarks")),
        **reporting.trained(config),
        **reporting.replayed(config),
        **reporting.analyzed(config),
        **reporting.timed(config),
        **reporting.shown_results(config),
        CODE: modules_digest("stair.pipeline.provenance", leave_out=CONFIGURATION),
    }


RULE_SETTINGS: dict[str, Callable[..., Settings]] = {
    "raw": tiny.raw,
    "backbone": tiny.backbone,
    "benchmark": data.benchmark,
    "training_pool": data.training_pool,
    "data_report": data.data_report,
    "preflight_model": preflight.preflight,
    "preflight_limits": preflight.limits,
    "rollout_shard": rollouts.rollouts,
    "seal_rollouts": rollouts.rollouts,
    "data_card": _data_card,
    "training_sessions": sessions.sessions,
    "evaluation_sessions": sessions.sessions,
    "train_controller": training.training,
    "train_lora": training.training,
    "train_lora_stair": training.training,
    "evaluation_shard": evaluation.evaluation,
    "seal_evaluation": evaluation.evaluation,
    "response_card": evaluation.response_card,
    "score_condition": evaluation.scores,
    "controls_shard": evaluation.controls,
    "seal_controls": evaluation.controls,
    "score_controls": evaluation.scores,
    "replay_design": replay.replay_design,
    "replay_shard": replay.replay,
    "seal_replay": replay.replay,
    "replay_statistics": replay.replay_statistics,
    "measure_runtime": runtime.runtime,
    "check": checks.checks,
    "table": reporting.table,
    "figure": reporting.figure,
    "comparison": reporting.comparison,
    "claims": reporting.claims,
    "provenance": _provenance,
    "report": reporting.report,
}
"""The function of each rule with params. The targets and the downloads from the hub have none."""


def settings_of(config: Config, rule: str, wildcards: Mapping[str, str]) -> Settings:
    """The settings of a job; wildcards that they do not depend on (shard, of, suffix) may be given."""
    function = RULE_SETTINGS[rule]
    taken = signature(function).parameters
    return function(config, **{name: value for name, value in wildcards.items() if name in taken})
