"""The trained parts of a frozen backbone: normals or scales at controlled layers, an adapter on all tokens, or both."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from stair.core import SMOOTHING, ReadSpecification
from stair.method import Attachment, Bank, BankFree, Read, Reflector
from stair.method.storage import share
from stair.models.architecture import describe
from stair.models.attention import no_padding
from stair.records.seeds import seed_of

if TYPE_CHECKING:  # a machine with a GPU trains and measures without pydantic too
    from stair.config.training import Adapter, ControllerSettings


@dataclass(frozen=True)
class Student:
    """A backbone and its trained parts.

    Args:
        model: the backbone, frozen and in eval mode, with an adapter's layers if there is one.
        attachment: hooks on the controlled layers; None for an adapter alone.
        controller: normals or scales in FP32; None for an adapter alone.
        adapted: PEFT's wrapper of the model; None without an adapter.
        smoothing: epsilon of the reference distribution.
    """

    model: Any
    attachment: Attachment | None
    controller: Reflector | BankFree | None
    adapted: Any = None
    smoothing: float = SMOOTHING

    @classmethod
    def new(cls, model: Any, settings: ControllerSettings, *seed: str) -> Student:
        """The initial student: normals drawn from N(0, 1 / head_dim), scales of zero, an adapter whose product is zero.

        Initial values are a function of the seed's names alone. The adapter is attached first, so that hooks see its terms.
        """
        facts = describe(model.config.to_dict())
        device = next(model.parameters()).device
        adapted = None
        if settings.adapter is not None:
            adapted = _adapter(model, settings.adapter, settings.seed, "adapter", *seed)
        if not settings.controls:
            return cls(model, None, None, adapted)
        layers = settings.controlled_layers
        facts.check_controlled_layers(layers)
        controller: Reflector | BankFree
        if settings.reads:
            draw = seed_of(settings.seed, "initial values", *seed)
            controller = Reflector.draw(layers, facts.query_heads, facts.head_dim, draw)
        else:
            controller = BankFree.zeros(layers, facts.query_heads, facts.head_dim)
        return cls(model, Attachment(model, layers), controller.to(device), adapted, settings.smoothing)

    @property
    def reads(self) -> bool:
        """Whether it reads a bank, so that turns must be captured."""
        return isinstance(self.controller, Reflector)

    @property
    def adapts(self) -> bool:
        """Whether an adapter changes every token, history and T1 included."""
        return self.adapted is not None

    @property
    def layers(self) -> tuple[int, ...]:
        """The controlled layers; none for an adapter alone."""
        return () if self.controller is None else self.controller.layers

    def parts(self) -> dict[str, dict[str, nn.Parameter]]:
        """The trained parameters by part (`controller`, `adapter`) and name, in an order of their own."""
        parts: dict[str, dict[str, nn.Parameter]] = {}
        if self.controller is not None:
            parts["controller"] = dict(self.controller.named_parameters())
        if self.adapted is not None:
            parts["adapter"] = {
                name: parameter for name, parameter in self.model.named_parameters() if parameter.requires_grad
            }
        return parts

    @contextmanager
    def native(self) -> Iterator[None]:
        """The backbone alone: no adapter; controls are off outside `controlling` anyway."""
        with torch.no_grad(), self.adapted.disable_adapter() if self.adapted is not None else nullcontext():
            yield

    @contextmanager
    def controlling(self, bank: Bank | None, span: tuple[int, int], positions: Tensor) -> Iterator[None]:
        """Controls the forward passes inside at the span's positions; keep it open until the end of their backward passes."""
        if self.controller is None or self.attachment is None:
            yield
            return
        read = Read(bank, self.controller, span, ReadSpecification(smoothing=self.smoothing))
        with self.attachment.controlling([read], positions):
            yield

    def save(self, folder: Path, base: str, **metadata: str) -> None:
        """Writes the trained parts: `controller.safetensors`, and PEFT's adapter files, whose configuration names `base`."""
        if self.controller is not None:
            facts = describe(self.model.config.to_dict())
            self.controller.save(folder / "controller.safetensors", architecture=facts, **metadata)
        if self.adapted is not None:
            self.adapted.save_pretrained(folder)
            share(folder / "adapter_model.safetensors")
            path = folder / "adapter_config.json"
            settings = json.loads(path.read_text(encoding="utf-8"))
            # PEFT keeps the projections as a set in random order, but equal adapters need equal files.
            settings |= {"base_model_name_or_path": base, "target_modules": sorted(settings["target_modules"])}
            settings["peft_version"] = version("peft")
            path.write_text(json.dumps(settings, indent=2, sort_keys=True) + "\n", encoding="utf-8")


class _Product(nn.Linear):
    """One of an adapter's two products, in the precision of its input, with parameters in FP32."""

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight.to(input.dtype))


def _adapter(model: Any, settings: Adapter, *seed: str) -> Any:
    """PEFT's LoRA on a model: first matrices drawn as PEFT draws them, second ones zero; FP32 where the model is in BF16."""
    from peft import LoraConfig, get_peft_model
    from peft.tuners.lora import LoraLayer

    adapted = get_peft_model(
        model,
        LoraConfig(
            r=settings.rank,
            lora_alpha=settings.alpha,
            lora_dropout=0.0,
            target_modules=list(settings.projections),
            bias="none",
            task_type="CAUSAL_LM",
        ),
    ).eval()
    for name, parameter in model.named_parameters():
        if "lora_A" in name:
            generator = torch.Generator().manual_seed(seed_of(*seed, name))
            drawn = torch.empty(parameter.shape, dtype=torch.float32)
            nn.init.kaiming_uniform_(drawn, a=math.sqrt(5), generator=generator)
            parameter.data.copy_(drawn)
    for layer in model.modules():
        if isinstance(layer, LoraLayer):
            # PEFT would widen each projection's input to the parameters' precision, and the result too.
            layer.cast_input_dtype_enabled = False
            for product in (*layer.lora_A.values(), *layer.lora_B.values()):
                product.__class__ = _Product
    return adapted


def last_hidden(model: Any, ids: Tensor, start: int, cache: Any = None) -> Tensor:
    """The last hidden states `[tokens - start, hidden]` of one row `ids` [1, tokens] from position `start` on.

    `cache` has keys and values of leading tokens, which are not processed again; None processes all tokens.
    """
    known = cache.get_seq_length() if cache is not None else 0
    output = model.get_decoder()(
        input_ids=ids[:, known:],
        # With a cache, Transformers neither needs a mask nor searches the positions.
        attention_mask=no_padding(model, ids) if cache is None else None,
        position_ids=torch.arange(known, ids.shape[1], device=ids.device)[None],
        past_key_values=cache,
        use_cache=False,
    )
    hidden: Tensor = output.last_hidden_state
    return hidden[0, start - known :]
