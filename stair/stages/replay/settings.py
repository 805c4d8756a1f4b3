"""The settings of the rules of the crossed replay: its design, its measurements and their statistics."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.setting_places import Settings, chosen, source
from stair.records.keys import PROTOCOL_VERSION
from stair.records.manifest import CODE, source_digest


def replay_design(config: Config, model: str) -> Settings:
    """The histories and current problems of a model's replay."""
    replay = config.replay
    assert replay is not None
    keys = (
        "benchmark",
        "condition",
        "seed",
        "depth",
        "batch_problems",
        "history_coverage",
        "problem_coverage",
        "groups",
    )
    prompt = config.benchmarks[replay.benchmark].prompt
    return {
        **source(f"models.{model}", config.models[model]),
        **chosen(f"models.{model}", config.models[model], "thinking"),
        f"prompts.{prompt}": config.prompts[prompt],
        **chosen("replay", replay, *keys),
    }


def replay(config: Config, model: str) -> Settings:
    """The measurements of a model's replay."""
    assert config.replay is not None
    return {
        **replay_design(config, model),
        **chosen(f"models.{model}", config.models[model], "dtype"),
        "replay.layers": list(config.replay.layers),
        "transformers.attention": config.transformers.attention,
        "protocol_version": PROTOCOL_VERSION,
    }


_ANALYSES = {
    "attention": ("reported_layer", "seed", "resamples"),
    "geometry": (
        "reported_layer",
        "neighborhoods",
        "folds",
        "history_pairs",
        "shuffles",
        "exclude_fixed_points",
        "whitening",
        "seed",
        "resamples",
    ),
    "read_prediction": ("read_dimension", "seed", "resamples"),
}
"""The keys that each part of the replay's analysis uses."""


def replay_statistics(config: Config, model: str, part: str) -> Settings:
    """A part of the replay's analysis: its keys and its code."""
    assert config.replay is not None and config.replay.analysis is not None
    keys = _ANALYSES[part]
    layers = list(config.replay.layers)
    # Attention needs the first layer alone, to give its number an interval.
    shown: dict[str, Settings] = {
        "attention": {"replay.layers.0": layers[0]},
        "read_prediction": {"replay.layers": layers},
    }
    return {
        **shown.get(part, {}),
        **chosen("replay.analysis", config.replay.analysis, *keys),
        CODE: source_digest("stair.stages.replay", "stair.statistics", "stair.records"),
    }
