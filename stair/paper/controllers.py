"""The facts of STAIR's controllers that figures show, from the controllers' own files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeVar

from stair.config.model import Config
from stair.config.paths import RunPaths
from stair.paper.exhibits import diagram_models, stair_controller
from stair.records.tensor_files import tensor_facts

Facts = TypeVar("Facts")


@dataclass(frozen=True)
class Controlled:
    """A model with a trained controller."""

    model: str
    layers: tuple[int, ...]
    """Controlled layers, counted from zero."""
    query_heads: int
    kv_heads: int
    head_dim: int
    gated: bool
    """Whether a sigmoid gate acts before the output projection."""
    parameters: int
    """Trained parameters: the directions of all layers and heads."""


def read_controlled(model: str, folder: Path) -> Controlled:
    """The facts in the header of a controller's `controller.safetensors`.

    Raises:
        ValueError: the file does not hold reflector normals together with their model's configuration.
    """
    from safetensors import safe_open

    path = folder / "controller.safetensors"
    with safe_open(path, framework="np") as file:
        shapes = [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 (no mapping)
    header = tensor_facts(path)
    configuration = header.get("configuration")
    if header.get("kind") != "reflector" or configuration is None:
        raise ValueError(
            f"{path} holds {header.get('kind', 'no controller')!r} "
            f"{'with' if configuration else 'without'} its model's configuration; expected 'reflector' with it; "
            "train the controller again"
        )
    keys = ("query_heads", "kv_heads", "head_dim", "gated")
    return Controlled(
        model,
        tuple(header["layers"]),
        **{key: configuration[key] for key in keys},
        parameters=sum(prod(shape) for shape in shapes),
    )


def of_models(config: Config, paths: RunPaths, read: Callable[[str, Path], Facts]) -> list[Facts]:
    """What `read` gives for every model that a diagram shows, from the folder of STAIR's controller."""
    controller = stair_controller(config)
    assert controller is not None, "a run without STAIR has no diagrams"
    return [read(model, paths.controller(model, controller)) for model in diagram_models(config)]
