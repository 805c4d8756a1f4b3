"""The estimate of a turn's memory, against what tensors take."""

from __future__ import annotations

import pytest
import torch

from benchmarks.training import peak_of_tensors
from stair.models.attention import NAME, needs_no_mask
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.sessions.renderer import Renderer
from stair.stages.training.teacher_forcing import RecordedTurn
from stair.stages.training.turn_memory import Turn, layers_to_recompute, turn_memory
from tests.conftest import random_model
from tests.training.training_cases import student_of, teacher_forcing

GIB = 2**30


SIXTEENTH: dict[str, dict[str, int]] = {
    "qwen3": dict(intermediate_size=608, num_attention_heads=8, head_dim=32),
    "qwen3_5": dict(
        intermediate_size=576, num_attention_heads=4, num_key_value_heads=1, head_dim=64, linear_num_key_heads=1,
        linear_num_value_heads=2, linear_key_head_dim=128, linear_value_head_dim=128,
    ),
}  # fmt: skip
"""The 4B models' layers at a sixteenth of their width."""


def estimated_over_measured(
    architecture: str,
    kind: str,
    recomputed: int,
    renderer: Renderer,
    *,
    turns: int = 2,
    response: int = 300,
    attention: str = NAME,
    **sizes: int,
) -> float:
    """Of a session in BF16, whose last turn needs most."""
    sizes = SIXTEENTH[architecture] | dict(hidden_size=160, max_position_embeddings=4096) | sizes
    model = random_model(architecture, torch.bfloat16, **sizes)
    model.set_attn_implementation(attention)
    known = len(renderer.prompt_ids([], "What is 1 + 2?"))
    ids = renderer.tokenizer("The sum of 3 and 4 is 7. " * response, add_special_tokens=False)["input_ids"][:response]
    session = [RecordedTurn("What is 1 + 2?", tuple(ids), 1.0) for _ in range(turns)]
    with student_of(model, kind, torch.float32) as student:
        forcing = teacher_forcing(student, renderer, recomputed=recomputed)
        measured = peak_of_tensors("cpu", lambda: forcing.run(session, lambda turn, parts: parts.loss.backward()))
    seen = response if architecture == "qwen3" else 0  # without a marker nothing of a thinking response is seen again
    turn = Turn((turns - 1) * (known + seen), known, response, (turns - 1) * response)
    estimate = turn_memory(
        model.config.to_dict(), turn, weights=0, layers=student.layers, trained=0, adapts=student.adapts,
        flash=needs_no_mask(model), recomputed=recomputed,
    )  # fmt: skip
    return sum(estimate.values()) / measured


@pytest.fixture
def no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's attention without its causal bias, which no CPU kernel takes; it has no part in the memory."""
    monkeypatch.setattr("stair.models.attention.causal_lower_right", lambda *_: None)


@pytest.mark.parametrize("recomputed", [0, 2, 4])
@pytest.mark.parametrize("kind", ["stair", "lora", "lora_stair"])
@pytest.mark.usefixtures("no_bias")
def test_the_estimate_is_what_tensors_take(kind: str, recomputed: int, renderer: Renderer) -> None:
    assert 0.9 < estimated_over_measured("qwen3", kind, recomputed, renderer) < 1.1


@pytest.mark.parametrize("recomputed", [0, 2, 4])
@pytest.mark.parametrize("kind", ["stair", "lora"])
def test_the_estimate_is_what_tensors_of_a_hybrid_take(kind: str, recomputed: int, thinking_renderer: Renderer) -> None:
    assert 0.9 < estimated_over_measured("qwen3_5", kind, recomputed, thinking_renderer) < 1.1


@pytest.mark.usefixtures("no_bias")
def test_a_chunk_of_the_objective_is_counted_where_it_weighs_most(renderer: Renderer) -> None:
    assert 0.9 < estimated_over_measured("qwen3", "stair", 4, renderer, vocab_size=20_000) < 1.1


@pytest.mark.usefixtures("no_bias")
def test_the_native_states_of_a_text_are_held_once(renderer: Renderer) -> None:
    """The teacher's pass frees a layer's states of the earlier turns when it has the new ones."""
    sizes = dict(num_hidden_layers=8, num_key_value_heads=4, head_dim=64)
    assert 0.9 < estimated_over_measured("qwen3", "stair", 8, renderer, turns=4, **sizes) < 1.1


@pytest.mark.parametrize("recomputed", [0, 4])
def test_masks_and_repeated_keys_are_counted(recomputed: int, renderer: Renderer) -> None:
    """Transformers' own SDPA has them behind a prefix."""
    ratio = estimated_over_measured("qwen3", "stair", recomputed, renderer, turns=3, attention="sdpa")
    assert 0.9 < ratio < 1.1


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
