"""The settings of the rules that train controllers."""

from __future__ import annotations

from stair.config.model import Config
from stair.config.resolve import ConfigError
from stair.config.setting_places import Settings, chosen, model_settings
from stair.models import delta_kernels
from stair.records.keys import PROTOCOL_VERSION

TRAINING_KEYS = ("sessions_per_update", "epochs", "cross_entropy", "kl", "validation_sessions", "validation_every")
"""Settings of the training that a controller or its curve depends on; the others only say how it is computed."""


def training(config: Config, model: str, controller: str) -> Settings:
    trained = config.controllers[controller]
    unused = {"models"} if trained.reads else {"models", "smoothing"}
    settings = trained.model_dump(mode="json", exclude=unused, exclude_none=True)
    return {
        **model_settings(config, model),
        **{f"controllers.{controller}.{key}": value for key, value in settings.items()},
        **chosen("training", config.training, *TRAINING_KEYS),
        f"prompts.{config.training_pool.prompt}": config.prompts[config.training_pool.prompt],
        "transformers.attention": config.transformers.attention,
        "protocol_version": PROTOCOL_VERSION,
    }


def check_recurrence(config: Config, model: str, *, hybrid: bool) -> None:
    """For a training on a GPU.

    Raises ConfigError for a hybrid without flash-linear-attention, unless `training.allow_torch_recurrence` is set.
    """
    if hybrid and not config.training.allow_torch_recurrence and "fla" not in delta_kernels.installed():
        raise ConfigError(
            f"training: {model} has linear attention, and flash-linear-attention is not installed, so training on a GPU would "
            "be slow and need far more memory; run `make env DEVICE=cuda`, or set training.allow_torch_recurrence: true"
        )
