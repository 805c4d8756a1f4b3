"""Batches behind a shared prefix beside a stock eager model over the whole prompt, on both architectures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from stair.models.prefix import Prefix
from stair.sessions.renderer import Exchange, Renderer
from stair.stages.replay.measurement.categories import Labelled, label
from stair.stages.replay.measurement.naive import measure_whole
from stair.stages.replay.measurement.probe import MeasuredStates, Probe, Turns
from tests.conftest import random_model

MEASURED = (1,)
HISTORY = [
    Exchange("What is 2 + 3?", "The sum of 2 and 3 is 5, so \\boxed{5}. " * 3),
    Exchange("What is 1 + 1? Think, then answer.", "It is \\boxed{2}.\n"),
    Exchange("What is 7 + 5?", "The sum of 7 and 5 is not 13, as one may think, so \\boxed{12}."),
]
PROBLEMS = ["What is 7 + 8?", "What?", "The sum of 4 and 2 is wanted, and then the sum of 3 and 5."]
SHAPE = {"rows": 4, "columns": 64}
# Stock eager attention takes its softmax in FP32, also in an FP64 model, and so does Gated DeltaNet all it computes.
TOLERANCE = {torch.float32: 1e-5, torch.float64: 2e-6}

architectures = pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5", "llama"])
precisions = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["fp32", "fp64"])
Models = Callable[..., PreTrainedModel]


def prompts(renderer: Renderer, depth: int) -> list[Labelled]:
    return [label(renderer, HISTORY[:depth], problem) for problem in PROBLEMS]


def distances(measured: MeasuredStates, expected: MeasuredStates, row: int, other: int = 0) -> dict[str, float]:
    """Relative distances; masses by their largest difference."""
    result = {}
    for name in (one.name for one in fields(MeasuredStates)):
        pair: tuple[Tensor, Tensor] = getattr(measured, name)[row].double(), getattr(expected, name)[other].double()
        assert pair[0].shape == pair[1].shape, name
        difference = pair[0] - pair[1]
        result[name] = float(difference.abs().max() if name == "masses" else difference.norm() / pair[1].norm())
    return result


@architectures
@precisions
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_cell_equals_a_stock_eager_model_over_the_whole_prompt(
    renderer: Renderer, small_model: Models, architecture: str, dtype: torch.dtype, depth: int
) -> None:
    model, labelled = small_model(architecture, dtype), prompts(renderer, depth)
    eager = random_model(architecture, dtype, attn_implementation="eager")
    ids, kinds = labelled[0].history
    prefix = Prefix.empty(model)
    for turns in range(1, depth + 1):
        prefix = prefix.extended(prompts(renderer, turns)[0].history[0])
    assert prefix.ids == ids
    measured = Probe(model, MEASURED).measure(prefix, kinds, Turns.pad([one.turn for one in labelled], **SHAPE))
    assert measured.masses.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert (measured.masses.sum(-1) - 1).abs().max() < TOLERANCE[dtype]
    for row, prompt in enumerate(labelled):
        expected = measure_whole(eager, prompt, MEASURED)
        assert max(distances(measured, expected, row).values()) < TOLERANCE[dtype]


@architectures
def test_in_bf16_the_error_is_at_most_twice_that_of_a_stock_eager_model(renderer: Renderer, architecture: str) -> None:
    model = random_model(architecture, torch.bfloat16)
    eager = random_model(architecture, torch.bfloat16, attn_implementation="eager")
    exact = random_model(architecture, torch.bfloat16, attn_implementation="eager").double()
    labelled = prompts(renderer, 2)
    ids, kinds = labelled[0].history
    turns = Turns.pad([one.turn for one in labelled], **SHAPE)
    measured = Probe(model, MEASURED).measure(Prefix.empty(model).extended(ids), kinds, turns)
    errors: dict[str, list[float]] = {}
    for row, prompt in enumerate(labelled):
        truth = measure_whole(exact, prompt, MEASURED)
        stock = distances(measure_whole(eager, prompt, MEASURED), truth, 0)
        for name, error in distances(measured, truth, row).items():
            errors.setdefault(name, []).append(error / max(stock[name], 1e-6))
    assert measured.reads is not None and measured.masses.dtype == measured.reads.dtype == torch.float32
    assert (measured.masses.sum(-1) - 1).abs().max() < 1e-5
    assert {name: max(ratios) for name, ratios in errors.items() if max(ratios) > 2} == {}


@architectures
@precisions
def test_reads_by_category_sum_to_the_attention_output_before_the_residual(
    renderer: Renderer, small_model: Models, architecture: str, dtype: torch.dtype
) -> None:
    model, labelled = small_model(architecture, dtype), prompts(renderer, 2)
    ids, kinds = labelled[0].history
    outputs: list[Tensor] = []
    handle = model.base_model.layers[1].self_attn.o_proj.register_forward_hook(lambda _, args, out: outputs.append(out))
    turns = Turns.pad([one.turn for one in labelled], **SHAPE)
    prefix = Prefix.empty(model).extended(ids)
    measured = Probe(model, MEASURED).measure(prefix, kinds, turns)
    assert measured.reads is not None
    handle.remove()
    expected = (turns.weights[:3, None].to(dtype) @ outputs[-1][:3])[:, 0]
    difference = measured.reads[:, 0].sum(1) - expected
    limit = 1e-5 if dtype == torch.float32 else 1e-12
    assert (difference.norm(dim=-1) / expected.norm(dim=-1)).max() < limit


@architectures
@precisions
@pytest.mark.parametrize("depth", [0, 2])
def test_results_do_not_depend_on_who_shares_the_batch(
    renderer: Renderer, small_model: Models, architecture: str, dtype: torch.dtype, depth: int
) -> None:
    model, labelled = small_model(architecture, dtype), prompts(renderer, depth)
    ids, kinds = labelled[0].history
    prefix, probe = Prefix.empty(model).extended(ids), Probe(model, MEASURED)
    turns = [one.turn for one in labelled]
    alone = probe.measure(prefix, kinds, Turns.pad(turns[:1], **SHAPE))
    for order, row in (([0, 1, 2], 0), ([2, 1, 1, 0], 3), ([1, 0], 1)):
        shared = probe.measure(prefix, kinds, Turns.pad([turns[number] for number in order], **SHAPE))
        assert len(shared.masses) == len(order)
        assert max(distances(shared, alone, row).values()) < TOLERANCE[dtype]


@architectures
def test_a_prefix_stays_as_it_is(renderer: Renderer, small_model: Models, architecture: str) -> None:
    model = small_model(architecture)
    labelled = prompts(renderer, 1)
    prefix = Prefix.empty(model).extended(labelled[0].history[0])
    before = [state.clone() for pair in prefix.states if pair is not None for state in pair]
    Probe(model, MEASURED).measure(prefix, labelled[0].history[1], Turns.pad([one.turn for one in labelled], **SHAPE))
    longer = prefix.extended(prompts(renderer, 2)[0].history[0])
    after = [state for pair in prefix.states if pair is not None for state in pair]
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))
    assert len(prefix.ids) < len(longer.ids)
    assert prefix.extended(prefix.ids) is prefix


@architectures
def test_one_token_at_a_time_gives_the_same_prefix(small_model: Models, architecture: str) -> None:
    model, ids = small_model(architecture), list(range(20, 40))
    whole = Prefix.empty(model).extended(ids)
    steps = Prefix.empty(model)
    for end in range(1, len(ids) + 1):
        steps = steps.extended(ids[:end])
    for one, other in zip(steps.states, whole.states, strict=True):
        assert one is not None and other is not None
        for part, expected in zip(one, other, strict=True):
            assert (part - expected).norm() / expected.norm() < 1e-5


@architectures
def test_the_model_is_left_as_it_was(renderer: Renderer, small_model: Models, architecture: str) -> None:
    model, labelled = small_model(architecture), prompts(renderer, 0)
    Probe(model, MEASURED).measure(Prefix.empty(model), [], Turns.pad([labelled[0].turn], **SHAPE))
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def test_the_last_blocks_output_is_the_one_before_the_final_norm(renderer: Renderer, small_model: Models) -> None:
    model, prompt = small_model("qwen3"), prompts(renderer, 0)[0]
    measured = Probe(model).measure(Prefix.empty(model), [], Turns.pad([prompt.turn], **SHAPE))
    with torch.inference_mode():
        given = model(torch.tensor([prompt.ids]), output_hidden_states=True).hidden_states
    start, end = prompt.body
    means = [state[0, start:end].mean(0) for state in given]
    assert torch.allclose(measured.embedding[0], means[0], atol=1e-6)
    assert torch.allclose(measured.block_outputs[0, 2], means[3], atol=1e-4)
    assert not torch.allclose(measured.block_outputs[0, 3], means[4], atol=1e-1)


def test_a_prefix_that_another_one_does_not_begin_is_refused(renderer: Renderer, small_model: Models) -> None:
    ids, _ = prompts(renderer, 1)[0].history
    with pytest.raises(ValueError, match="do not begin with"):
        Prefix.empty(small_model("qwen3")).extended(ids).extended([*ids[:-1], 0, 1])
