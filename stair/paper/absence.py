"""Why a run's configuration gives no responses of a model, benchmark and condition."""

from __future__ import annotations

from stair.config.model import Config
from stair.core import SHARED_T1, condition_key
from stair.paper import paper_labels


def lacking(config: Config, study: str, model: str = "", benchmark: str = "", condition: str = "") -> str:
    """The first of these that a study of the run does not have, by the configuration; empty if it has all.

    Args:
        model, benchmark, condition: keys; an empty one is not asked for. A condition of the study with a shared T1 history may
            be a family of seeds.
    """
    models, benchmarks, conditions = paper_labels.MODELS, paper_labels.BENCHMARKS, paper_labels.CONDITIONS
    if model and model not in config.models:
        return f"the run has no model {models.get(model, model)}"
    if benchmark and benchmark not in config.benchmarks:
        return f"the run has no benchmark {benchmarks.get(benchmark, benchmark)}"
    if not condition:
        return ""
    name = conditions.get(condition, condition)
    where = f"{models.get(model, model)} on {benchmarks.get(benchmark, benchmark)}"
    if study == SHARED_T1:
        if config.controls is None:
            return "the run has no study with a shared T1 history"
        condition = paper_labels.evaluated_as(condition)
        members = [key for key, item in config.controls.conditions.items() if item.name(key).averaged == condition]
        if any((model, benchmark) in config.evaluated(condition_key(study, key)) for key in members):
            return ""
        return f"the study with a shared T1 history does not have {name} for {where}"
    if condition not in config.conditions:
        return f"the run has no condition {name}"
    if (model, benchmark) not in config.evaluated(condition):
        return f"the run does not evaluate {name} for {where}"
    return ""
