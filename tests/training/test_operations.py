"""Counted operations beside those that torch counts."""

from __future__ import annotations

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from stair.sessions.renderer import Renderer
from stair.stages.training.operations import Span, pass_operations, turn_operations, utilisation
from stair.stages.training.student import last_hidden
from stair.stages.training.teacher_forcing import checkpointed
from tests.conftest import random_model
from tests.training.training_cases import KINDS, session, student_of, teacher_forcing


@pytest.mark.parametrize("recomputed", [0, 3, 4])
def test_a_turn_has_the_operations_that_torch_counts(recomputed: int) -> None:
    """Eager attention computes the hidden half of the scores too, and its backward pass has twice its operations."""
    model, tokens, first = random_model("qwen3", attn_implementation="eager"), 63, 2
    config = model.config.to_dict()
    ids = torch.randint(0, 300, (1, tokens), generator=torch.Generator().manual_seed(0))
    span = Span(0, tokens)
    parts = turn_operations(config, span, span, 0, layers=(first,), adapts=False, recomputed=recomputed)
    of_layers, of_attention = pass_operations(config, span)
    assert parts["teacher"] == parts["student forward"] == of_layers + of_attention

    def counted(parameters: float, attention: float) -> float:
        return parameters + attention * 2 * tokens / (tokens + 1)

    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        last_hidden(model, ids, 0)
    assert counter.get_total_flops() == counted(of_layers, of_attention)

    model.get_decoder().layers[first].register_forward_pre_hook(
        lambda _, args: (args[0].detach().requires_grad_(), *args[1:])
    )
    with checkpointed(model, recomputed):
        hidden = last_hidden(model, ids, 0)
        with FlopCounterMode(display=False) as counter:
            hidden.sum().backward()
    of_layers, of_attention = pass_operations(config, span, slice(first, None))
    assert parts["backward"] == of_layers + 2.5 * of_attention
    again = pass_operations(config, span, slice(first, max(first, recomputed)))
    last = 2 * config["hidden_size"] * config["intermediate_size"] * tokens * max(0, recomputed - first)
    assert parts["again"] == sum(again) - last
    assert counter.get_total_flops() == pytest.approx(counted(of_layers, 2.0 * of_attention) + counted(*again) - last)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
def test_a_session_has_about_the_operations_that_torch_counts(
    architecture: str, kind: str, renderer: Renderer, thinking_renderer: Renderer
) -> None:
    """Torch counts the reads of the bank, an adapter and the recurrence too."""
    model = random_model(architecture, attn_implementation="eager", intermediate_size=768)
    chosen = renderer if architecture == "qwen3" else thinking_renderer
    with student_of(model, kind, torch.float32) as student, FlopCounterMode(display=False) as counter:
        counts = teacher_forcing(student, chosen).run(session(chosen), lambda turn, parts: parts.loss.backward())
    assert 0.8 < counts.operations / counter.get_total_flops() < 1.02


def test_utilisation_is_the_share_of_published_operations() -> None:
    assert utilisation(247.25, "NVIDIA H100 80GB HBM3") == pytest.approx(0.25)
    assert utilisation(10.0, "another GPU") is None
