"""The estimate of a turn's memory, against what tensors take."""

from __future__ import annotations

import pytest
import torch

from benchmarks.training import peak_of_tensors
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.sessions.renderer import Renderer
from stair.stages.training.objective import ObjectiveParts
from stair.stages.training.teacher_forcing import RecordedTurn
from stair.stages.training.turn_memory import Turn, layers_to_recompute, turn_memory
from tests.conftest import random_model
from tests.training.training_cases import session, student_of, teacher_forcing

GIB = 2**30


@pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
@pytest.mark.parametrize(("vocabulary", "recomputed"), [(320, 0), (320, 2), (320, 4), (20_000, 4)])
def test_the_estimate_is_what_tensors_take(
    architecture: str, vocabulary: int, recomputed: int, renderer: Renderer, thinking_renderer: Renderer
) -> None:
    """At both ends: a turn whose layers weigh most, and one whose vocabulary does."""
    sizes = dict(
        hidden_size=128, intermediate_size=384, head_dim=32, vocab_size=vocabulary, max_position_embeddings=4096
    )
    if architecture == "qwen3_5":  # as many heads in the recurrence as the real ones have for their width
        sizes |= dict(
            linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=32, linear_value_head_dim=32
        )
    model = random_model(architecture, **sizes)
    chosen = renderer if architecture == "qwen3" else thinking_renderer
    response = 1200 if vocabulary == 320 else 300
    ids = chosen.tokenizer("The sum of 3 and 4 is 7. " * response, add_special_tokens=False)["input_ids"][:response]
    turns = [RecordedTurn("What is 1 + 2?", tuple(ids), 1.0) for _ in range(2)]
    with student_of(model, "stair", torch.float32) as student:
        forcing = teacher_forcing(student, chosen, recomputed=recomputed)
        measured = peak_of_tensors("cpu", lambda: forcing.run(turns, lambda turn, parts: parts.loss.backward()))
    history = len(chosen.prompt_ids([], "What is 1 + 2?")) + (response if architecture == "qwen3" else 0)
    turn = Turn(history, 20, response, response)
    estimate = turn_memory(
        model.config.to_dict(), turn, weights=0, layers=(1, 3), trained=128 * 2, adapts=False, width=4, flash=False,
        recomputed=recomputed,
    )  # fmt: skip
    assert 0.75 < sum(estimate.values()) / measured < 1.5, (measured, estimate)


def test_the_native_states_of_a_text_are_held_once(renderer: Renderer) -> None:
    """The teacher's pass frees a layer's states of the earlier turns when it has the new ones."""
    model = random_model("qwen3", num_hidden_layers=8, num_key_value_heads=4, head_dim=64, max_position_embeddings=4096)
    response, known = 300, len(renderer.prompt_ids([], "What is 1 + 2?"))
    ids = renderer.tokenizer("The sum of 3 and 4 is 7. " * response, add_special_tokens=False)["input_ids"][:response]
    turns = [RecordedTurn("What is 1 + 2?", tuple(ids), 1.0) for _ in range(4)]
    with student_of(model, "stair", torch.float32) as student:
        forcing = teacher_forcing(student, renderer, recomputed=8)
        measured = peak_of_tensors("cpu", lambda: forcing.run(turns, lambda turn, parts: parts.loss.backward()))
    turn = Turn(3 * (known + response), known, response, 3 * response)
    estimate = turn_memory(
        model.config.to_dict(), turn, weights=0, layers=(1, 3), trained=64 * 4 * 2, adapts=False, width=4, flash=False,
        recomputed=8,
    )  # fmt: skip
    assert 0.9 < sum(estimate.values()) / measured < 1.1, (measured, estimate)


@pytest.mark.parametrize("recomputed", [0, 4])
def test_an_adapters_copies_of_a_bf16_model_are_counted(recomputed: int, renderer: Renderer) -> None:
    """Its matrices are FP32, and each projection's input is kept in FP32 for them."""
    model = random_model(
        "qwen3", torch.bfloat16, hidden_size=128, intermediate_size=384, head_dim=32, max_position_embeddings=4096
    )
    ids = renderer.tokenizer("The sum of 3 and 4 is 7. " * 400, add_special_tokens=False)["input_ids"][:400]
    turns = [RecordedTurn("What is 1 + 2?", tuple(ids), 1.0) for _ in range(2)]
    with student_of(model, "lora", torch.float32) as student:
        trained = sum(each.numel() for each in student.parts()["adapter"].values())
        forcing = teacher_forcing(student, renderer, recomputed=recomputed)
        measured = peak_of_tensors("cpu", lambda: forcing.run(turns, lambda turn, parts: parts.loss.backward()))
    turn = Turn(len(renderer.prompt_ids([], "What is 1 + 2?")) + 400, 20, 400, 400)
    estimate = turn_memory(
        model.config.to_dict(), turn, weights=0, layers=(), trained=trained, adapts=True, width=2, flash=False,
        recomputed=recomputed,
    )  # fmt: skip
    assert 0.75 < sum(estimate.values()) / measured < 1.5, (measured, estimate)


def test_a_full_length_session_of_the_4b_models_fits_an_80_gb_gpu() -> None:
    """Four responses at their limits: the paper's longest sessions."""
    instruct = Turn(history=3 * (16_384 + 300), prompt=300, response=16_384, bank=3 * 16_384)
    hybrid = Turn(history=3 * 2_300, prompt=300, response=32_768, bank=3 * 32_768)
    for model, turn, weights in (("qwen3-4b-instruct", instruct, 4_022_468_096), ("qwen3.5-4b", hybrid, 4_206_000_000)):
        for trained, layers in ((12_288, CONTROLLED_LAYERS), (4_141_056, CONTROLLED_LAYERS)):
            parts = turn_memory(
                CONFIGS[model], turn, weights=weights, layers=layers, trained=trained, adapts=trained > 12_288
            )
            assert sum(parts.values()) < 60 * GIB, (model, {name: value / GIB for name, value in parts.items()})


@pytest.mark.parametrize("model", ["qwen3-4b-instruct", "qwen3.5-4b"])
def test_only_layers_that_do_not_fit_run_again(model: str) -> None:
    turn = Turn(history=6_000, prompt=300, response=4_000, bank=9_000)
    sizes = dict(weights=0, trained=0, layers=CONTROLLED_LAYERS, adapts=False)
    counts = [layers_to_recompute(CONFIGS[model], turn, free * GIB, **sizes) for free in (0, 4, 8, 12, 16, 200)]
    layers = CONFIGS[model]["num_hidden_layers"]
    assert counts[0] == layers and counts[-1] == 0
    assert counts == sorted(counts, reverse=True) and len(set(counts)) > 3
    for free, count in zip((8, 12, 16), counts[2:5], strict=True):
        for layers_again, fits in ((count, True), (count - 1, False)):
            parts = turn_memory(CONFIGS[model], turn, **sizes, recomputed=layers_again)
            assert (sum(parts.values()) - parts["native keys and values"] <= 0.8 * free * GIB) == fits


def test_a_session_that_does_not_fit_is_named_with_the_remedy(renderer: Renderer) -> None:
    def supervise(turn: RecordedTurn, parts: ObjectiveParts) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.\nMore of it.")

    said = (
        r"^a session whose responses have 10, 7, 11, 8 tokens does not fit the device's memory \(CUDA out of memory\. Tried "
        r"to allocate 3\.00 GiB\.\); training\.checkpoint_activations: true"
    )
    with (
        student_of(random_model("qwen3"), "stair", torch.float32) as student,
        pytest.raises(ValueError, match=said),
    ):
        teacher_forcing(student, renderer).run(session(renderer), supervise)
