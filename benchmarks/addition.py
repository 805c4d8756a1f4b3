"""How much of a readout BF16 rounds away, by where the output path adds it (appendix B.3).

    python -m benchmarks.addition                    # both architectures, real widths, CPU; a minute
    python -m benchmarks.addition --device cuda

A model of four layers with random weights prefills one prompt natively and with a bank. The bank's
values are scaled so that g * z has the given share of the attention; both are Frobenius norms before
the output projection, over the control span. Lost is |change - W_O (g * z)| / |W_O (g * z)| against
FP64: of the attention output, and of the residual stream behind it. That stream is random and as
large as the attention output. The orders:

    input     W_O (a + g * z): added to the input of the output projection
    output    W_O a + W_O (g * z), each in BF16: the paper's order, as `stair.method` computes it
    fp32      the same sum in FP32, rounded once; behind the residual addition, rounded there alone

Ends with status 1 unless the input of the projection is native's and its output that of the paper's
order, bit for bit.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoConfig, AutoModelForCausalLM

from benchmarks.figures import Bar, Figures
from stair.method import Attachment, Bank, Read, Reflector, Segment, differential_read
from stair.models.published import CONFIGS

MODELS = ("qwen3-4b-instruct", "qwen3.5-4b")
LAYER = 3  # the first controlled layer, full attention in both architectures
SIGNALS = (0.1, 0.03, 0.003)
# What does not reach the attention of layer 3 is small.
SMALL: dict[str, Any] = {"num_hidden_layers": 4, "vocab_size": 1024, "intermediate_size": 1024}


@dataclass
class Layer:
    """What the controlled layer computes in one prefill of one row."""

    queries: Tensor
    """[tokens, heads, head_dim], normalised, before RoPE."""
    projected: Tensor
    """[tokens, channels]: the output of q_proj, which holds the gate."""
    attention: Tensor
    """[tokens, heads * head_dim]: the input of the output projection."""
    output: Tensor
    """[tokens, hidden]."""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    options.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    options.add_argument("--signals", nargs="+", type=float, default=list(SIGNALS), help="|g * z| / |attention|")
    options.add_argument("--entries", type=int, default=512, help="of the bank")
    options.add_argument("--tokens", type=int, default=128, help="of the prompt; its second half is controlled")
    options.add_argument("--threads", type=int, default=1, help="CPU threads")
    Figures.add_argument(options)
    chosen = options.parse_args()
    if chosen.device == "cuda" and not torch.cuda.is_available():
        options.error("--device cuda: there is no CUDA device here")
    torch.set_num_threads(chosen.threads)
    print("lost, in %                     attention output          residual stream")
    print("model              signal    input  output    fp32    input  output    fp32   bits")
    figures, same = Figures(chosen.json), []
    for name in chosen.models:
        with figures.case(name):
            same.append(measure(name, chosen, figures))
    figures.finish()
    return 0 if all(same) else 1


@torch.inference_mode()
def measure(name: str, chosen: argparse.Namespace, figures: Figures) -> bool:
    """Print a line a signal; return whether every bit is where it has to be."""
    torch.manual_seed(0)
    config = {**CONFIGS[name], **SMALL}
    with torch.device(chosen.device):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config), dtype=torch.bfloat16).eval()
    attachment = Attachment(model, [LAYER])
    facts, weight = attachment.architecture, model.model.layers[LAYER].self_attn.o_proj.weight
    ids = torch.randint(0, facts.vocabulary, (1, chosen.tokens), device=chosen.device)
    reflector = Reflector.draw([LAYER], facts.query_heads, facts.head_dim, seed=0).to(chosen.device)
    keys, values = torch.randn(2, 1, facts.kv_heads, chosen.entries, facts.head_dim)
    keys = keys.bfloat16()
    span = (chosen.tokens // 2, chosen.tokens)
    native = prefill(model, attachment, ids, None)
    attention, before = native.attention[slice(*span)], native.output[slice(*span)]
    residual = torch.randn(before.shape, device=before.device)
    residual = (residual * (before.float().norm() / residual.norm())).bfloat16()
    unit = readout(attachment, native, Bank([LAYER], [Segment([LAYER], keys, values.bfloat16())]), reflector, span)
    strength = float(unit.float().norm() / attention.float().norm())
    bits = True
    for signal in chosen.signals:
        scaled = (values * (signal / strength)).bfloat16()
        bank = Bank([LAYER], [Segment([LAYER], keys, scaled)])
        controlled = prefill(model, attachment, ids, Read(bank, reflector, span))
        z = readout(attachment, native, bank, reflector, span)
        exact_change, wide = z.double() @ weight.double().T, z.float() @ weight.float().T
        exact = before.float() + wide
        outputs = {
            "input": F.linear(attention + z, weight),
            "output": controlled.output[slice(*span)],
            "fp32": exact.bfloat16(),
        }
        at_output = [lost(each - before.double(), exact_change) for each in (one.double() for one in outputs.values())]
        # The residual addition takes the FP32 sum as it is.
        streams = [residual + outputs["input"], residual + outputs["output"], (residual.float() + exact).bfloat16()]
        behind = [lost(each.double() - (residual + before).double(), exact_change) for each in streams]
        same = torch.equal(controlled.attention, native.attention) and torch.equal(
            outputs["output"], before + F.linear(z, weight)
        )
        bits = bits and same
        cells = "  ".join(f"{100 * share:6.1f}" for share in (*at_output, *behind))
        print(f"{name:18} {100 * signal:5.1f}%  {cells}   {'equal' if same else 'DIFFERENT'}", flush=True)
        where = f"{name}, g * z at {100 * signal:g}% of the attention"
        for order, share in zip(outputs, at_output, strict=True):
            figures.add(f"{where}: lost, {order}", 100 * share, "%")
        figures.add(f"{where}: tensors whose bits differ from the twin's", float(not same), "", Bar(0))
    return bits


def lost(change: Tensor, exact: Tensor) -> float:
    return float((change - exact).norm() / exact.norm())


def prefill(model: Any, attachment: Attachment, ids: Tensor, control: Read | None) -> Layer:
    """One forward. Hooks of the control come first, so that these see what the layer really has."""
    attention = model.model.layers[LAYER].self_attn
    captured: dict[str, Tensor] = {}
    with attachment.controlling([control], torch.arange(ids.shape[1])[None]):
        handles = [
            attention.q_proj.register_forward_hook(lambda _, args, out: captured.update(projected=out[0])),
            attention.q_norm.register_forward_hook(lambda _, args, out: captured.update(queries=out[0])),
            attention.o_proj.register_forward_hook(lambda _, args, out: captured.update(attention=args[0][0])),
            attention.register_forward_hook(lambda _, args, out: captured.update(output=out[0][0])),
        ]
        model(ids, attention_mask=torch.ones_like(ids), use_cache=False, logits_to_keep=1)
    for handle in handles:
        handle.remove()
    return Layer(**captured)


def readout(attachment: Attachment, layer: Layer, bank: Bank, reflector: Reflector, span: tuple[int, int]) -> Tensor:
    """g * z [controlled, heads * head_dim] of the layer's queries; without a gate z."""
    part, facts = slice(*span), attachment.architecture
    queries = layer.queries[part].transpose(0, 1)
    keys, values = bank.resident(queries.device, queries.dtype, attachment.rotary).layer(0)
    rotated = attachment.rotary(queries, torch.arange(*span) + bank.tokens)
    z = differential_read(rotated[None], keys[None], values[None], reflector.normals[0])[0]
    z = z.transpose(0, 1).flatten(1)
    if not facts.gated:
        return z
    both = layer.projected[part].view(-1, facts.query_heads, 2 * facts.head_dim)
    return z * torch.sigmoid(both[..., facts.head_dim :].flatten(1))


if __name__ == "__main__":
    sys.exit(main())
