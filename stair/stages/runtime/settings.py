"""The settings of the runtime study."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, model_settings
from stair.records.keys import PROTOCOL_VERSION


def runtime(config: Config, model: str) -> Settings:
    study = config.runtime
    assert study is not None
    sampling = config.models[model].sampling_for(study.benchmark).model_dump()
    own = {
        **chosen(f"models.{model}", config.models[model], "dtype"),
        **{f"runtime.{key}": value for key, value in study.model_dump(mode="json", exclude={"models"}).items()},
        **{f"models.{model}.evaluation_sampling.{key}": value for key, value in sampling.items()},
        **chosen("transformers", config.transformers, "device", "attention", "prefill_chunk", "cache_block"),
        "protocol_version": PROTOCOL_VERSION,
    }
    if study.synthetic is not None:
        return own
    prompt, controller = config.benchmarks[study.benchmark].prompt, config.controllers[study.controller]
    return {
        **own,
        **model_settings(config, model),
        f"prompts.{prompt}": config.prompts[prompt],
        **chosen(f"controllers.{study.controller}", controller, "kind", "layers", "smoothing"),
    }
