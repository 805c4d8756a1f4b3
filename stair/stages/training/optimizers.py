"""The optimiser: AdamW, with a constant rate for normals and scales, and warm-up and cosine for an adapter."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from stair.config.resolve import ConfigError
from stair.config.training import ControllerSettings, Optimizer
from stair.stages.training.student import Student


def check_warmup(controller: str, settings: ControllerSettings, updates: int) -> None:
    """Raises ConfigError if an adapter's warm-up is as long as its schedule."""
    if settings.adapter is not None and settings.adapter.warmup_updates >= updates:
        raise ConfigError(
            f"controllers.{controller}.adapter.warmup_updates: a warm-up of {settings.adapter.warmup_updates} updates is as "
            f"long as the whole training ({updates} updates)"
        )


def schedule(update: int, warmup: int, updates: int) -> float:
    """The share of the peak learning rate in update `update`, counted from 0 (appendix C.1).

    Linear from zero over the warm-up, then half a cosine that would reach zero one update after the last, as in
    Transformers' `get_cosine_schedule_with_warmup`.
    """
    if update < warmup:
        return update / warmup
    return 0.5 * (1.0 + math.cos(math.pi * (update - warmup) / (updates - warmup)))


class Optimizers:
    """AdamW over the student's trained parameters, a group a part with settings of its own.

    `updates` is the length of the adapter's schedule.
    """

    def __init__(self, student: Student, settings: ControllerSettings, updates: int) -> None:
        self._adapter, self._updates = settings.adapter, updates
        groups = []
        for part, named in student.parts().items():
            chosen = settings.adapter.optimizer if part == "adapter" and settings.adapter else settings.optimizer
            assert chosen is not None
            groups.append({"part": part, "params": list(named.values()), **_options(chosen)})
        self._adam = torch.optim.AdamW(groups)
        self.parameters: dict[str, nn.Parameter] = {
            f"{part}.{name}": each for part, named in student.parts().items() for name, each in named.items()
        }
        """All trained parameters by part and name."""

    def step(self, update: int) -> None:
        """One step from the present gradients; `update` counts from 0."""
        if self._adapter is not None:
            share = schedule(update, self._adapter.warmup_updates, self._updates)
            for group in self._adam.param_groups:
                if group["part"] == "adapter":
                    group["lr"] = self._adapter.optimizer.learning_rate * share
        self._adam.step()
        self._adam.zero_grad(set_to_none=True)

    def state(self) -> dict[str, Tensor]:
        """Parameters and moments by name: the whole state of the next update."""
        tensors = {}
        for name, parameter in self.parameters.items():
            tensors[name] = parameter.detach()
            tensors |= {f"{name}.{key}": value for key, value in self._adam.state.get(parameter, {}).items()}
        return tensors

    def load(self, state: dict[str, Tensor]) -> None:
        """Restores a result of `state`. Raises KeyError or RuntimeError for the state of another training."""
        for name, parameter in self.parameters.items():
            parameter.data.copy_(state[name])
            if f"{name}.step" in state:
                self._adam.state[parameter] = {
                    # Clones: the optimiser writes into its state.
                    key: state[f"{name}.{key}"].clone().to("cpu" if key == "step" else parameter.device)
                    for key in ("step", "exp_avg", "exp_avg_sq")
                }


def _options(settings: Optimizer) -> dict[str, Any]:
    return {
        "lr": settings.learning_rate,
        "betas": settings.betas,
        "eps": settings.eps,
        "weight_decay": settings.weight_decay,
    }


def gradients(parameters: dict[str, nn.Parameter]) -> Tensor:
    """All gradients as one vector, with zeros for missing ones."""
    each = [p.grad if p.grad is not None else torch.zeros_like(p) for p in parameters.values()]
    return torch.cat([gradient.flatten() for gradient in each])


def set_gradients(parameters: dict[str, nn.Parameter], vector: Tensor) -> None:
    place = 0
    for parameter in parameters.values():
        parameter.grad = vector[place : place + parameter.numel()].view_as(parameter).to(parameter.dtype, copy=True)
        place += parameter.numel()
