"""Auxiliary positions beyond the model's context, as training counts them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from transformers import PreTrainedModel

from stair.sessions.renderer import Exchange, Renderer
from stair.stages.training.teacher_forcing import RecordedTurn
from tests.conftest import random_model
from tests.training.training_cases import KINDS, gradient_of, kept, session, student_of, teacher_forcing, training

Make = Callable[..., tuple[PreTrainedModel, Renderer]]
READING = ("stair", "lora_stair")


def largest_and_listed(renderer: Renderer, turns: Sequence[RecordedTurn], context: int) -> tuple[int, int]:
    """Twin: every auxiliary position of a session's reads, listed; the largest, and how many the context lacks."""
    history: list[Exchange] = []
    positions: list[int] = []
    bank = 0
    for turn in turns:
        prompt = renderer.prompt_ids(history, turn.user)
        header = list(renderer.user_header)
        start = max(place for place in range(len(prompt)) if prompt[place : place + len(header)] == header)
        if bank:
            positions += [*range(bank), *(bank + place for place in range(start, len(prompt)))]
        bank += kept(tuple(turn.response_ids), renderer)
        history.append(Exchange(turn.user, renderer.visible_answer(turn.response_ids)))
    return max(positions), sum(position >= context for position in positions)


@pytest.fixture(params=["qwen3", "qwen3_5"])
def make(request: pytest.FixtureRequest, renderer: Renderer, thinking_renderer: Renderer) -> Make:
    """Gives a model of a chosen context, with the renderer of its mode."""

    def made(context: int) -> tuple[PreTrainedModel, Renderer]:
        model = random_model(request.param, torch.float64, max_position_embeddings=context)
        return model, renderer if request.param == "qwen3" else thinking_renderer

    return made


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_counts_the_positions_of_its_sessions(make: Make, kind: str) -> None:
    model, renderer = make(16)
    sessions = [session(renderer, seed) for seed in (1, 2)]
    found = [largest_and_listed(renderer, turns, 16) for turns in sessions]
    assert all(count > 10 and largest > 40 for largest, count in found)
    with student_of(model, kind) as student:
        record = training(student, renderer, kind).update(0, sessions)
    assert record.beyond_context == (sum(count for _, count in found) if kind in READING else None)


def test_the_last_position_of_the_context_does_not_count(make: Make) -> None:
    _, renderer = make(16)
    turns = session(renderer)
    largest, _ = largest_and_listed(renderer, turns, 16)
    for context, expected in ((largest, 1), (largest + 1, 0)):
        model, renderer = make(context)
        with student_of(model, "stair") as student:
            assert teacher_forcing(student, renderer).run(turns, lambda turn, parts: None).beyond_context == expected


def test_positions_beyond_the_context_are_not_clamped(make: Make) -> None:
    """Models that differ in their context alone give the same objective and gradient, bit for bit."""
    found = []
    for context in (16, 4096):
        model, renderer = make(context)
        with student_of(model, "stair") as student:
            found.append(gradient_of(teacher_forcing(student, renderer), session(renderer)))
    (value, gradient), (other_value, other_gradient) = found
    assert gradient.norm() > 1e-3
    assert value == other_value
    assert torch.equal(gradient, other_gradient)
