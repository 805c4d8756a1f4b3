"""Control and capture on both architectures, against the equations and the native model."""

from __future__ import annotations

import dataclasses

import peft
import pytest
import torch
from method_cases import LAYERS, Case, random_bank, random_case
from torch import Tensor
from transformers import PreTrainedModel
from transformers.models.qwen3.modeling_qwen3 import apply_rotary_pos_emb

from stair.method import Attachment, BankFree, Read, ReadSpecification, Reflector, Segment


def read_of(case: Case, **options: object) -> Read:
    return Read(case.bank, case.reflector, (case.start, case.ids.shape[1]), ReadSpecification(**options))


def column_positions(tokens: int) -> Tensor:
    return torch.arange(tokens)[None]


@torch.no_grad()
def logits(model: PreTrainedModel, ids: Tensor, **inputs: object) -> Tensor:
    return model(ids, attention_mask=inputs.pop("attention_mask", torch.ones_like(ids)), **inputs).logits


def controlled(model: PreTrainedModel, case: Case, control: Read | None = None) -> Tensor:
    with Attachment(model, LAYERS).controlling([control or read_of(case)], column_positions(case.ids.shape[1])):
        return logits(model, case.ids)


def hook_count(model: PreTrainedModel) -> int:
    return sum(len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules())


def test_outputs_before_the_span_are_bit_identical_and_the_last_prompt_token_is_controlled(
    model: PreTrainedModel, case: Case
) -> None:
    native, found = logits(model, case.ids), controlled(model, case)
    assert torch.equal(found[:, : case.start], native[:, : case.start])
    assert (found[:, case.start :] - native[:, case.start :]).abs().amax(-1).min() > 1e-3
    last_alone = dataclasses.replace(read_of(case), span=(18, 19))
    found = controlled(model, case, last_alone)
    assert torch.equal(found[:, :-1], native[:, :-1])
    assert (found[:, -1] - native[:, -1]).abs().max() > 1e-3


def rotate(model: PreTrainedModel, x: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
    """Transformers' own rotation; Qwen3.5's modelling file keeps the channels past rotary_dim as they are."""
    if model.config.model_type == "qwen3_5_text":  # one row for each axis of an image
        positions = positions.expand(3, 1, -1)
    cos, sin = model.model.rotary_emb(x, positions)
    width = cos.shape[-1]
    turned, _ = apply_rotary_pos_emb(x[..., :width], x[..., :width], cos, sin)
    turned = torch.cat((turned, x[..., width:]), -1)
    return turned, turned


def test_a_detached_controller_leaves_no_trace(model: PreTrainedModel, case: Case) -> None:
    native, before = logits(model, case.ids), hook_count(model)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    attachment = Attachment(model, LAYERS)
    assert hook_count(model) == before
    with (
        attachment.controlling([read_of(case)], column_positions(19)),
        attachment.capturing(lambda *_: None),
    ):
        assert hook_count(model) > before
        logits(model, case.ids)
    assert hook_count(model) == before
    assert torch.equal(logits(model, case.ids), native)
    with pytest.raises(RuntimeError), attachment.controlling([read_of(case)], column_positions(19)):
        raise RuntimeError("in the middle of a forward")
    assert hook_count(model) == before
    assert torch.equal(logits(model, case.ids), native)
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in weights.items())


def test_a_batch_row_equals_the_row_alone(model: PreTrainedModel) -> None:
    """Left-padded rows with banks, spans and controllers of their own, a native row and a bank-free row among them."""
    cases = [
        random_case(19, 8, seed=1),
        random_case(12, 5, seed=2),
        random_case(16, 3, seed=3),
        random_case(9, 2, seed=4),
    ]
    bank_free = BankFree.zeros(LAYERS, 4, 16)
    with torch.no_grad():
        bank_free.scales += 0.3
    controls: list[Read | None] = [read_of(cases[0]), read_of(cases[1], variant="direct", limit=11), None]
    controls.append(Read(None, bank_free, (2, 9)))
    width = 21
    ids = torch.zeros(4, width, dtype=torch.long)
    positions = torch.full((4, width), -1)
    for row, case in enumerate(cases):
        tokens = case.ids.shape[1]
        ids[row, -tokens:] = case.ids
        positions[row, -tokens:] = torch.arange(tokens)
    attachment = Attachment(model, LAYERS)
    with attachment.controlling(controls, positions) as receipts:
        together = logits(model, ids, attention_mask=(positions >= 0).long(), position_ids=positions.clamp_min(0))
    for row, (case, control) in enumerate(zip(cases, controls, strict=True)):
        tokens = case.ids.shape[1]
        if control is None:
            alone = logits(model, case.ids)
            assert (receipts[row].controlled_tokens, receipts[row].readout_norm) == (0, 0.0)
        else:
            with attachment.controlling([control], column_positions(tokens)) as (receipt,):
                alone = logits(model, case.ids)
            assert receipts[row].controlled_tokens == tokens - control.span[0] == receipt.controlled_tokens
            assert receipts[row].readout_norm == pytest.approx(receipt.readout_norm, rel=1e-4)
            assert receipt.readout_norm > 0.1
        torch.testing.assert_close(together[row, -tokens:], alone[0], atol=1e-4, rtol=1e-3)
    assert receipts[0].bank_tokens == 37


@pytest.mark.parametrize("chunk", [1, 5])
def test_chunked_prefill_equals_whole(model: PreTrainedModel, case: Case, chunk: int) -> None:
    whole = controlled(model, case)
    attachment = Attachment(model, LAYERS)
    cache, parts = None, []
    with attachment.controlling([read_of(case)], column_positions(19)[:, :chunk]) as (receipt,):
        for start in range(0, 19, chunk):
            stop = min(start + chunk, 19)
            if start > 0:
                attachment.positions = column_positions(19)[:, start:stop]
            with torch.no_grad():
                out = model(
                    case.ids[:, start:stop], attention_mask=torch.ones(1, stop), past_key_values=cache, use_cache=True
                )
            cache = out.past_key_values
            parts.append(out.logits)
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-4, rtol=1e-3)
    assert receipt.controlled_tokens == 11


def test_decoding_after_prefill_is_native_over_the_changed_prefix(model: PreTrainedModel, case: Case) -> None:
    """Prefill controlled, decode with nothing attached: equal to one forward where the span ends at the prompt's end."""
    more = torch.cat((case.ids, torch.tensor([[5, 9, 33]])), 1)
    attachment = Attachment(model, LAYERS)
    with attachment.controlling([read_of(case)], column_positions(22)):
        whole = logits(model, more)
    with attachment.controlling([read_of(case)], column_positions(19)), torch.no_grad():
        cache = model(case.ids, attention_mask=torch.ones(1, 19), use_cache=True).past_key_values
    for step in range(3):
        with torch.no_grad():
            out = model(more[:, [19 + step]], attention_mask=torch.ones(1, 20 + step), past_key_values=cache)
        torch.testing.assert_close(out.logits[:, -1], whole[:, 19 + step], atol=1e-4, rtol=1e-3)


def test_generation_within_control_names_the_way_and_the_way_works(model: PreTrainedModel, case: Case) -> None:
    """`generate` decodes within the context: refused. Prefill controlled, then `generate` with the cache: STAIR's answer."""
    attachment = Attachment(model, LAYERS)
    with (
        pytest.raises(ValueError, match=r"\[1, 1\].*\[1, 19\].*close .*past_key_values"),
        attachment.controlling([read_of(case)], column_positions(19)),
    ):
        model.generate(case.ids, max_new_tokens=3, do_sample=False)
    with attachment.controlling([read_of(case)], column_positions(19)), torch.no_grad():
        prefill = model(case.ids, use_cache=True)
    first = torch.cat((case.ids, prefill.logits[:, -1:].argmax(-1)), 1)
    found = model.generate(first, past_key_values=prefill.past_key_values, max_new_tokens=3, do_sample=False)
    expected = case.ids
    for _ in range(4):
        with attachment.controlling([read_of(case)], column_positions(expected.shape[1])):
            expected = torch.cat((expected, logits(model, expected)[:, -1:].argmax(-1)), 1)
    assert found.tolist() == expected.tolist()


def test_capture_gives_keys_before_rotation_and_values(model: PreTrainedModel, case: Case) -> None:
    calls: list[tuple[int, Tensor, Tensor]] = []
    attachment = Attachment(model, LAYERS)
    with attachment.capturing(lambda *call: calls.append(call)), torch.no_grad():
        states = model(case.ids, attention_mask=torch.ones_like(case.ids), output_hidden_states=True).hidden_states
    assert [index for index, _, _ in calls] == [0, 1]
    for index, keys, values in calls:
        layer = model.model.layers[LAYERS[index]]
        hidden = layer.input_layernorm(states[LAYERS[index]])
        expected = layer.self_attn.k_proj(hidden).view(1, 19, 2, 16)
        if model.config.model_type != "llama":
            expected = layer.self_attn.k_norm(expected)
        assert torch.equal(keys, expected)
        assert torch.equal(values, layer.self_attn.v_proj(hidden).view(1, 19, 2, 16))


def test_capture_sees_what_control_changed(model: PreTrainedModel, case: Case) -> None:
    """The student path captures while it reads: the second controlled layer's states carry the first one's readout."""

    def captured(control: bool) -> list[Tensor]:
        calls: list[Tensor] = []
        attachment = Attachment(model, LAYERS)
        rows = [read_of(case) if control else None]
        with (
            attachment.controlling(rows, column_positions(19)),
            attachment.capturing(lambda index, keys, values: calls.append(keys)),
        ):
            logits(model, case.ids)
        return calls

    native, changed = captured(False), captured(True)
    assert torch.equal(native[0], changed[0])
    assert torch.equal(native[1][:, : case.start], changed[1][:, : case.start])
    assert (native[1][:, case.start :] - changed[1][:, case.start :]).abs().max() > 1e-3


def test_variants_do_what_they_say(model: PreTrainedModel, case: Case) -> None:
    native, stair = logits(model, case.ids), controlled(model, case)

    def found(**options: object) -> Tensor:
        return controlled(model, case, read_of(case, **options))

    assert torch.equal(found(variant="zero"), native)
    others = {
        "direct": found(variant="direct"),
        "limit": found(limit=9),
        "permuted": found(permutation_seed=0),
        "permuted otherwise": found(permutation_seed=1),
        "random": controlled(
            model, case, dataclasses.replace(read_of(case), controller=Reflector.draw(LAYERS, 4, 16, 9))
        ),
        "stair": stair,
        "native": native,
    }
    names = list(others)
    for place, name in enumerate(names):
        for other in names[place + 1 :]:
            assert (others[name] - others[other])[:, case.start :].abs().max() > 1e-3, (name, other)
    assert torch.equal(found(limit=37), stair)
    assert torch.equal(found(permutation_seed=0), others["permuted"])


def test_an_empty_bank_reads_zero(model: PreTrainedModel, case: Case) -> None:
    native = logits(model, case.ids)
    empty = Segment(LAYERS, torch.zeros(2, 2, 0, 16), torch.zeros(2, 2, 0, 16))
    for bank in (None, type(case.bank)(LAYERS), type(case.bank)(LAYERS, [empty])):
        control = Read(bank, case.reflector, (case.start, 19))
        with Attachment(model, LAYERS).controlling([control], column_positions(19)) as (receipt,):
            assert torch.equal(logits(model, case.ids), native)
        assert (receipt.bank_tokens, receipt.readout_norm) == (0, 0.0)


def loss_and_gradient(model: PreTrainedModel, case: Case, checkpointing: bool) -> tuple[float, Tensor, float]:
    case.reflector.zero_grad()
    if checkpointing:
        model.train()
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.disable_input_require_grads()
    try:
        with Attachment(model, LAYERS).controlling([read_of(case)], column_positions(19)) as (receipt,):
            out = model(case.ids, attention_mask=torch.ones_like(case.ids), use_cache=False).logits
            loss = out.log_softmax(-1)[0, -3:, 7].sum()
            loss.backward()
    finally:
        model.gradient_checkpointing_disable()
        model.eval()
    assert case.reflector.normals.grad is not None
    return float(loss), case.reflector.normals.grad.clone(), receipt.readout_norm


def test_gradients_reach_the_normals_and_survive_activation_checkpointing(model: PreTrainedModel, case: Case) -> None:
    loss, gradient, norm = loss_and_gradient(model, case, checkpointing=False)
    again = loss_and_gradient(model, case, checkpointing=True)
    assert gradient.abs().amax(-1).min() > 1e-7
    assert all(parameter.grad is None for parameter in model.parameters())
    assert again[0] == pytest.approx(loss, rel=1e-5)
    assert again[2] == pytest.approx(norm, rel=1e-5)
    torch.testing.assert_close(again[1], gradient, atol=1e-5, rtol=1e-3)


def test_the_gradient_is_the_slope(model: PreTrainedModel, case: Case) -> None:
    model.double()
    _, gradient, _ = loss_and_gradient(model, doubled(case), checkpointing=False)
    direction = torch.randn(gradient.shape, generator=torch.Generator().manual_seed(0))
    step, losses = 1e-3, []
    for sign in (1, -1):
        moved = Reflector(LAYERS, case.reflector.normals + sign * step * direction)
        losses.append(loss_and_gradient(model, dataclasses.replace(doubled(case), reflector=moved), False)[0])
    slope = (losses[0] - losses[1]) / (2 * step)
    assert slope == pytest.approx(float((gradient * direction).sum()), rel=2e-3)


def doubled(case: Case) -> Case:
    return dataclasses.replace(case, bank=random_bank(23, 14, seed=1, dtype=torch.float64))


def test_control_works_on_a_model_that_peft_wrapped(model: PreTrainedModel, case: Case) -> None:
    """With LoRA at zero nothing changes; with LoRA on, captured states carry its term."""
    expected = controlled(model, case)
    config = peft.LoraConfig(r=2, lora_alpha=4, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    wrapped = peft.get_peft_model(model, config).eval()
    torch.testing.assert_close(controlled(wrapped, case), expected, atol=1e-5, rtol=1e-4)
    native: list[Tensor] = []
    adapted: list[Tensor] = []
    attachment = Attachment(wrapped, LAYERS)
    with attachment.capturing(lambda index, keys, values: native.append(values)):
        logits(wrapped, case.ids)
    with torch.no_grad():
        for name, parameter in wrapped.named_parameters():
            if "lora_B" in name and "v_proj" in name:
                parameter += 0.1
    with attachment.capturing(lambda index, keys, values: adapted.append(values)):
        logits(wrapped, case.ids)
    assert (native[0] - adapted[0]).abs().max() > 1e-3


def test_a_bank_filled_in_inference_mode_serves_training(model: PreTrainedModel, case: Case) -> None:
    with torch.inference_mode():
        kept = [Segment(LAYERS, segment.keys.clone(), segment.values.clone()) for segment in case.bank.segments]
        bank = type(case.bank)(LAYERS, kept)
        controlled(model, dataclasses.replace(case, bank=bank))
    _, gradient, _ = loss_and_gradient(model, dataclasses.replace(case, bank=bank), checkpointing=False)
    assert gradient.abs().max() > 0


def test_misuse_is_named(model: PreTrainedModel, case: Case) -> None:
    attachment = Attachment(model, LAYERS)
    with pytest.raises(ValueError, match="controlled layer 9 does not exist"):
        Attachment(model, [9])
    if model.config.model_type == "qwen3_5_text":
        with pytest.raises(ValueError, match=r"layer 2 is not a full-attention layer.*1, 3, 5"):
            Attachment(model, [2])
    with (
        pytest.raises(ValueError, match="not for an attachment"),
        Attachment(model, [1]).controlling([read_of(case)], column_positions(19)),
    ):
        pass
    with (
        pytest.raises(ValueError, match=r"\(heads, head_dim\)"),
        attachment.controlling([Read(None, Reflector.draw(LAYERS, 2, 16, 0), (0, 1))], column_positions(19)),
    ):
        pass
    with pytest.raises(ValueError, match="1 rows"), attachment.controlling([None], torch.zeros(2, 3, dtype=torch.long)):
        pass
    with attachment.controlling([None], column_positions(19)):  # what went wrong has left nothing open
        with (
            pytest.raises(ValueError, match="controlling already"),
            attachment.controlling([None], column_positions(19)),
        ):
            pass
        with pytest.raises(ValueError, match="1 rows"):
            attachment.positions = torch.zeros(2, 3, dtype=torch.long)
        with pytest.raises(ValueError, match="positions"):
            logits(model, case.ids[:, :5])
    with pytest.raises(ValueError, match="control span"):
        dataclasses.replace(read_of(case), span=(4, 2))
