"""What is trained: the reflector's normals (section 3.2), the bank-free control's scales (appendix C.4), a LoRA adapter (C.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from stair.method.storage import digest_tensors, read_tensors, write_tensors
from stair.models.architecture import Architecture

ADAPTER_FILES = ("adapter_config.json", "adapter_model.safetensors")
_CONTROLLER_FILE = "controller.safetensors"
# What of an architecture has to be equal: models of other widths may have equal heads.
_CONFIGURATION = (
    "name", "layers", "hidden_size", "query_heads", "kv_heads", "head_dim", "rotary_dim", "rope_theta", "gated",
)  # fmt: skip


class Controller(nn.Module):
    """One parameter [layers, query_heads, head_dim] in float32 over the zero-based controlled `layers`.

    `configuration` is that of its model, None where none was saved; `metadata` is what else was saved, as strings.
    """

    kind: ClassVar[str]
    weight_name: ClassVar[str]

    def __init__(self, layers: Sequence[int], weights: Tensor) -> None:
        super().__init__()
        if weights.dim() != 3 or weights.shape[0] != len(layers):
            raise ValueError(f"{self.kind} weights {list(weights.shape)} do not fit {len(layers)} layers")
        self.layers = tuple(int(layer) for layer in layers)
        self.configuration: dict[str, Any] | None = None
        self.metadata: dict[str, str] = {}
        self.register_parameter(self.weight_name, nn.Parameter(weights.detach().clone().to(torch.float32)))

    @property
    def weights(self) -> nn.Parameter:
        """The parameter, whatever its name."""
        return self.get_parameter(self.weight_name)

    @property
    def digest(self) -> str:
        """SHA-256 over kind, layers and the weights' dtype, shape and bytes, as they are now."""
        return digest_tensors(f"{self.kind} {list(self.layers)}", {self.weight_name: self.weights})

    def save(self, path: str | Path, *, architecture: Architecture | None = None, **metadata: str) -> None:
        """Write the weights as safetensors; its header holds kind, layers, `metadata` and the configuration.

        The configuration is that of `architecture`, else the one that the controller was loaded with.
        Raises ValueError when the controller does not fit `architecture`.
        """
        configuration = self.configuration
        if architecture is not None:
            self.check(architecture)
            configuration = _configuration(architecture)
        facts = {"kind": self.kind, "layers": self.layers, "configuration": configuration, "metadata": metadata}
        write_tensors(path, {self.weight_name: self.weights}, facts)

    @classmethod
    def load(cls, path: str | Path, architecture: Architecture | None = None) -> Self:
        """Read what `save` wrote. Raises ValueError for another kind of file, or weights that do not fit `architecture`."""
        tensors, header = read_tensors(path)
        if set(tensors) == {cls.weight_name} and not header:
            raise ValueError(
                f"{path} was written by an earlier version of the project; train it again (delete its folder)"
            )
        if header.get("kind") != cls.kind or set(tensors) != {cls.weight_name}:
            raise ValueError(f"{path} holds {header.get('kind', 'no controller')!r}, not {cls.kind!r}")
        try:
            controller = cls(header["layers"], tensors[cls.weight_name])
            controller.configuration, controller.metadata = header["configuration"], header["metadata"]
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged: {error}") from None
        if architecture is not None:
            try:
                controller.check(architecture)
            except ValueError as error:
                raise ValueError(f"{path}: {error}") from None
        return controller

    def check(self, architecture: Architecture) -> None:
        """Raise ValueError unless layers, heads and channels are this architecture's, and so is the configuration if known."""
        architecture.check_controlled_layers(self.layers)
        expected = (architecture.query_heads, architecture.head_dim)
        if tuple(self.weights.shape[1:]) != expected:
            raise ValueError(
                f"this {self.kind} is for (heads, head_dim) {tuple(self.weights.shape[1:])}, the model has {expected}"
            )
        ours, theirs = self.configuration or {}, _configuration(architecture)
        for key in ours and (*_CONFIGURATION, "rope_scaling"):
            if ours.get(key) != theirs.get(key):
                raise ValueError(
                    f"this {self.kind} belongs to a model with {key} {ours.get(key)!r}, this one has {theirs.get(key)!r}"
                )


def _configuration(architecture: Architecture) -> dict[str, Any]:
    facts = {key: getattr(architecture, key) for key in _CONFIGURATION}
    scaling = architecture.rope_scaling
    return facts if scaling is None else {**facts, "rope_scaling": asdict(scaling)}


class Reflector(Controller):
    """The raw normals n of Eq. 5. Normalisation happens in the read, so that scaling a normal changes nothing."""

    kind = "reflector"
    weight_name = "normals"
    normals: nn.Parameter

    @classmethod
    def draw(cls, layers: Sequence[int], query_heads: int, head_dim: int, seed: int) -> Self:
        """Draw every coordinate from N(0, 1 / head_dim) (appendix B.5), on the CPU, from a generator of its own."""
        generator = torch.Generator().manual_seed(seed)
        normals = torch.randn(len(layers), query_heads, head_dim, generator=generator) * head_dim**-0.5
        return cls(layers, normals)


class BankFree(Controller):
    """Scales s: the input of the output projection becomes a (1 + s), per head and channel, in the control span."""

    kind = "bank_free"
    weight_name = "scales"
    scales: nn.Parameter

    @classmethod
    def zeros(cls, layers: Sequence[int], query_heads: int, head_dim: int) -> Self:
        """Return the scales that training starts from: all zero, the native model."""
        return cls(layers, torch.zeros(len(layers), query_heads, head_dim))


def load_controller(path: str | Path, architecture: Architecture | None = None) -> Reflector | BankFree:
    """Read a controller of whichever kind the file says; a folder's is `controller.safetensors`.

    Errors as in `Controller.load`; ValueError too for a folder without a controller.
    """
    path = Path(path)
    if path.is_dir():
        if not (path / _CONTROLLER_FILE).is_file():
            other = "; load_adapter reads its adapter" if (path / ADAPTER_FILES[0]).is_file() else ""
            raise ValueError(f"{path} holds no controller: there is no {_CONTROLLER_FILE}{other}")
        path /= _CONTROLLER_FILE
    kind = read_tensors(path)[1].get("kind")
    if kind == BankFree.kind:
        return BankFree.load(path, architecture)
    return Reflector.load(path, architecture)


def load_adapter(model: Any, folder: str | Path) -> Any:
    """Return `model` with the adapter of a controller's folder, every parameter frozen. Attach controls after this.

    The adapter has the model's precision, in which training computes its products, too.
    PEFT puts its layers into the model itself; the returned wrapper has `disable_adapter()` for the native model.
    Raises ValueError when the folder holds no adapter or one that does not fit the model.
    """
    from peft import PeftModel

    for name in ADAPTER_FILES:
        if not (Path(folder) / name).is_file():
            other = "; load_controller reads its controller" if (Path(folder) / _CONTROLLER_FILE).is_file() else ""
            raise ValueError(f"{folder} holds no adapter: there is no {name}{other}")
    try:
        adapted = PeftModel.from_pretrained(model, str(folder), autocast_adapter_dtype=False)
    except (RuntimeError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: the adapter does not fit the model: {str(error).splitlines()[0]}") from error
    adapted.requires_grad_(False)
    return adapted.eval()
