"""The output path (appendix B.3): W_O (g * z) is a product of its own behind the native path."""

from __future__ import annotations

import copy
import dataclasses

import peft
import pytest
import torch
from method_cases import LAYERS, Case, random_case
from torch import Tensor
from torch.nn import functional as F
from transformers import PreTrainedModel

from stair.method import Attachment, Bank, BankFree, Read, ReadSpecification, Receipt, Segment, differential_read
from stair.models.attention_modules import per_head, query_source

TOKENS = 19


@dataclasses.dataclass
class Seen:
    """What the first controlled layer computes: every tensor [1, tokens, channels]."""

    projected: Tensor
    """The output of q_proj."""
    queries: Tensor
    """Normalised, before RoPE, [1, tokens, heads, head_dim]."""
    entering: Tensor
    """The input of the output projection."""
    output: Tensor
    """The output of the attention block."""
    receipt: Receipt | None


def run(model: PreTrainedModel, case: Case, control: Read | None) -> Seen:
    """One forward; the hooks that look are registered after those of the control."""
    attention = model.get_decoder().layers[LAYERS[0]].self_attn
    attachment, found = Attachment(model, LAYERS), {}
    with attachment.controlling([control], torch.arange(TOKENS)[None]) as (receipt,):
        frozen = getattr(attention.o_proj, "base_layer", attention.o_proj)
        handles = [
            attention.q_proj.register_forward_hook(lambda _, args, out: found.update(projected=out)),
            query_source(attention).register_forward_hook(lambda _, args, out: found.update(queries=per_head(out, 16))),
            frozen.register_forward_hook(lambda _, args, out: found.update(entering=args[0])),
            attention.register_forward_hook(lambda _, args, out: found.update(output=out[0])),
        ]
        try:
            with torch.no_grad():
                model(case.ids, attention_mask=torch.ones_like(case.ids))
        finally:
            for handle in handles:
                handle.remove()
    return Seen(**found, receipt=receipt if control else None)


def bf16(model: PreTrainedModel, signal: float) -> tuple[PreTrainedModel, Case, Seen, Seen]:
    """The model in BF16 and its case, with g * z at `signal` times the attention; both forwards."""
    model = copy.deepcopy(model).to(torch.bfloat16)
    case = scaled(random_case(), 1.0)
    native = run(model, case, None)
    z = readout(model, case, native)
    factor = signal * float(native.entering[:, case.start :].float().norm() / z.float().norm())
    case = scaled(case, factor)
    return model, case, native, run(model, case, control(case))


def scaled(case: Case, factor: float) -> Case:
    """The case with a BF16 bank whose values, and so the readouts, are `factor` times as large."""
    segments = [Segment(LAYERS, each.keys, each.values * factor) for each in random_case().bank.segments]
    low = [Segment(LAYERS, each.keys.bfloat16(), each.values.bfloat16()) for each in segments]
    return dataclasses.replace(case, bank=Bank(LAYERS, low))


def control(case: Case, **options: object) -> Read:
    return Read(case.bank, case.reflector, (case.start, TOKENS), ReadSpecification(**options))


def readout(model: PreTrainedModel, case: Case, seen: Seen) -> Tensor:
    """g * z [1, controlled, channels] of the layer's own queries, by the same read; z without a gate."""
    rotary = Attachment(model, LAYERS).rotary
    queries = seen.queries[0, case.start :].transpose(0, 1)
    keys, values = case.bank.resident(queries.device, queries.dtype, rotary).layer(0)
    rotated = rotary(queries, torch.arange(case.start, TOKENS) + case.bank.tokens)
    z = differential_read(rotated[None], keys[None], values[None], case.reflector.normals[0].detach())
    z = z.transpose(1, 2).flatten(2)
    if model.config.model_type == "qwen3_5_text":
        gate = seen.projected.view(1, TOKENS, 4, 32)[..., 16:].flatten(2)
        z = z * torch.sigmoid(gate[:, case.start :])
    return z


@pytest.mark.parametrize("signal", [0.03, 0.003])
def test_in_bf16_the_projections_input_is_natives_and_its_output_a_twins_in_the_papers_order(
    model: PreTrainedModel, signal: float
) -> None:
    low, case, native, seen = bf16(model, signal)
    assert torch.equal(seen.entering, native.entering)
    z = readout(low, case, seen)
    assert z.dtype == torch.bfloat16
    weight = low.get_decoder().layers[LAYERS[0]].self_attn.o_proj.weight
    twin = native.output.clone()
    twin[0, case.start :] = native.output[0, case.start :] + F.linear(z[0], weight)
    assert torch.equal(seen.output, twin)
    assert not torch.equal(seen.output, native.output)


def test_the_readout_passes_through_the_weight_alone_and_the_native_path_keeps_its_bias(
    model: PreTrainedModel, case: Case
) -> None:
    attention = model.get_decoder().layers[LAYERS[0]].self_attn
    attention.o_proj.bias = torch.nn.Parameter(torch.randn(32), requires_grad=False)
    native, seen = run(model, case, None), run(model, case, control(case))
    z = readout(model, case, seen)
    assert torch.equal(seen.entering, native.entering)
    twin = native.output.clone()
    twin[0, case.start :] = native.output[0, case.start :] + F.linear(z[0], attention.o_proj.weight)
    assert torch.equal(seen.output, twin)


def test_under_lora_the_readout_passes_through_the_frozen_weight_alone(model: PreTrainedModel) -> None:
    """The adapted projection computes what it does without a read; W_O (g * z) is added behind it."""
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["o_proj"], init_lora_weights=False)
    low = copy.deepcopy(model).to(torch.bfloat16)
    wrapped = peft.get_peft_model(low, config, autocast_adapter_dtype=True).eval()
    case = scaled(random_case(), 1.0)
    attention = low.get_decoder().layers[LAYERS[0]].self_attn
    assert attention.o_proj.lora_A["default"].weight.dtype == torch.float32
    inputs: list[Tensor] = []
    attention.o_proj.lora_A["default"].register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
    native, seen = run(wrapped, case, None), run(wrapped, case, control(case))
    assert torch.equal(*inputs), "the adapter sees the native attention output"
    assert torch.equal(seen.entering, native.entering), "the frozen projection too"
    z = readout(low, case, seen)
    twin = native.output.clone()
    twin[0, case.start :] = native.output[0, case.start :] + F.linear(z[0], attention.o_proj.base_layer.weight)
    assert torch.equal(seen.output, twin)
    assert not torch.equal(seen.output, native.output)


def test_bank_free_scales_the_projections_input_and_adds_nothing_behind_it(model: PreTrainedModel, case: Case) -> None:
    controller = BankFree.zeros(LAYERS, 4, 16)
    with torch.no_grad():
        controller.scales[0] = torch.randn(4, 16)
    attention = model.get_decoder().layers[LAYERS[0]].self_attn
    native = run(model, case, None)
    seen = run(model, case, Read(None, controller, (case.start, TOKENS)))
    scaled_input = native.entering.clone()
    scaled_input[:, case.start :] *= 1.0 + controller.scales[0].detach().flatten()
    assert torch.equal(seen.entering, scaled_input)
    assert torch.equal(seen.output, attention.o_proj(scaled_input))


def test_the_receipts_norm_is_that_of_the_readouts_before_gate_and_projection(
    model: PreTrainedModel, case: Case
) -> None:
    """One layer's readouts; the other layer's normals are zero, so that it reads nothing."""
    with torch.no_grad():
        case.reflector.normals[1] = 0.0
    seen = run(model, case, control(case))
    z = readout(model, case, seen)
    if model.config.model_type == "qwen3_5_text":
        gate = seen.projected.view(1, TOKENS, 4, 32)[..., 16:].flatten(2)
        z = z / torch.sigmoid(gate[:, case.start :])
    assert seen.receipt is not None
    assert seen.receipt.readout_norm == pytest.approx(float(z.norm()), rel=1e-5)


@pytest.mark.parametrize("chunk", [TOKENS, 7, 1])
def test_a_rows_readout_is_the_same_bits_whatever_the_other_rows_are(model: PreTrainedModel, chunk: int) -> None:
    """FP32, rows of equal length: the same batch with other neighbours, in every layout of chunks."""
    cases = [random_case(TOKENS, start, seed=start) for start in (8, 2, 13)]
    attention = model.get_decoder().layers[LAYERS[0]].self_attn

    def outputs(controls: list[Read | None]) -> Tensor:
        attachment, found, cache = Attachment(model, LAYERS), [], None
        handle = attention.register_forward_hook(lambda _, args, out: found.append(out[0]))
        ids, positions = torch.cat([case.ids for case in cases]), torch.arange(TOKENS).repeat(3, 1)
        try:
            with attachment.controlling(controls, positions[:, :chunk]), torch.no_grad():
                for first in range(0, TOKENS, chunk):
                    part = slice(first, min(first + chunk, TOKENS))
                    if first:
                        attachment.positions = positions[:, part]
                    cache = model(
                        ids[:, part], attention_mask=torch.ones(3, part.stop), past_key_values=cache, use_cache=True
                    ).past_key_values
        finally:
            handle.remove()
        return torch.cat(found, 1)

    controls: list[Read | None] = [control(case) for case in cases]
    together, native = outputs(controls), outputs([None] * 3)
    for row in range(3):
        alone = outputs([each if number == row else None for number, each in enumerate(controls)])
        assert torch.equal(together[row], alone[row])
        assert not torch.equal(alone[row], native[row])


@pytest.mark.parametrize("name", ["qwen3-4b-instruct", "qwen3.5-4b"])
def test_the_benchmark_holds_the_bits_at_the_real_widths(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from benchmarks import addition
    from benchmarks.gpu.parts import BY_MODULE

    words = [*BY_MODULE["benchmarks.addition"].arguments("cpu"), "--models", name]
    monkeypatch.setattr("sys.argv", ["addition.py", *words])
    assert addition.main() == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(name)]
    assert len(rows) == 2
    for row in rows:
        before, behind = float(row[2]), float(row[3])
        assert row[-1] == "equal"
        assert behind < 0.7 * before
