"""With FlashAttention2, or SDPA without a mask, generation, replay and training compute what they compute with SDPA."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from transformers import PreTrainedModel

from stair.engines.transformers import TransformersEngine
from stair.models import attention
from stair.models.prefix import Prefix
from stair.sessions.renderer import Renderer
from stair.stages.replay.measurement.probe import Probe, Turns
from tests.conftest import LAYERS, TOKENS
from tests.engines.engine_cases import request, various
from tests.flash_attention import flash_model, use_flash_attention
from tests.replay.test_probe import SHAPE, TOLERANCE, distances, prompts
from tests.training.training_cases import gradient_of, session, student_of, teacher_forcing

Models = Callable[..., PreTrainedModel]
pairs = pytest.mark.parametrize(
    ("architecture", "implementation"),
    [("qwen3", "flash_attention_2"), ("qwen3_5", attention.NAME), ("llama", attention.NAME)],
)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    calls = use_flash_attention(monkeypatch)
    behind = attention.causal_lower_right

    def counted(*lengths: int) -> torch.Tensor:
        calls["behind a prefix"] += 1
        return behind(*lengths)

    monkeypatch.setattr(attention, "causal_lower_right", counted)
    return calls


@pytest.mark.parametrize(
    ("architecture", "implementation", "prefill"),
    [
        ("qwen3", "flash_attention_2", 1),
        ("qwen3_5", "flash_attention_2", 3),
        ("llama", "flash_attention_2", 3),
        ("qwen3", attention.NAME, 1),
        ("qwen3_5", attention.NAME, 1),
    ],
)
def test_generation(
    calls: Counter[str], small_model: Models, architecture: str, implementation: str, prefill: int
) -> None:
    long = [request(f"long {length}", length, 20) for length in (150, 70, 129)]
    requests = [*various(torch.float64, count=5), *long]
    found = {}
    for name, model in (
        ("flash", flash_model(architecture, torch.float64, implementation)),
        ("sdpa", small_model(architecture, torch.float64)),
    ):
        engine = TransformersEngine(
            model, tokens=TOKENS, layers=LAYERS, batch_width=4, prefill_width=prefill, cache_block=32, prefill_chunk=64
        )
        found[name] = {done.key: done for done in engine.run(requests)}
    for key, flash in found["flash"].items():
        sdpa = found["sdpa"][key]
        assert flash.response_ids == sdpa.response_ids
        if flash.bank is not None:
            torch.testing.assert_close(flash.bank.keys, sdpa.bank.keys)
            torch.testing.assert_close(flash.bank.values, sdpa.bank.values)
    # One prompt alone needs no mask. Padded prompts have one.
    assert (
        set(calls)
        == {
            ("flash_attention_2", 1): {"flash_attn_func", "flash_attn_with_kvcache"},
            ("flash_attention_2", 3): {"flash_attn_varlen_func", "flash_attn_with_kvcache"},
            (attention.NAME, 1): {"behind a prefix"},
        }[implementation, prefill]
    )


@pairs
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_a_replayed_cell(
    calls: Counter[str], renderer: Renderer, small_model: Models, architecture: str, implementation: str, depth: int
) -> None:
    labelled = prompts(renderer, depth)
    ids, kinds = labelled[0].history
    turns = Turns.pad([one.turn for one in labelled], **SHAPE)
    flash, sdpa = (
        Probe(model, (1,)).measure(Prefix.empty(model).extended(ids), kinds, turns)
        for model in (flash_model(architecture, attention=implementation), small_model(architecture))
    )
    for row in range(len(labelled)):
        assert max(distances(flash, sdpa, row, row).values()) < TOLERANCE[torch.float32]
    whole_rows_alone = implementation == attention.NAME and depth == 0
    assert set(calls) == (set() if whole_rows_alone else _EXPECTED[implementation]), "rows of one shape need no mask"


_EXPECTED = {"flash_attention_2": {"flash_attn_func"}, attention.NAME: {"behind a prefix"}}


@pairs
@pytest.mark.parametrize("kind", ["stair", "lora_stair"])
def test_a_sessions_gradient(
    calls: Counter[str], renderer: Renderer, small_model: Models, architecture: str, implementation: str, kind: str
) -> None:
    turns = session(renderer)
    found = []
    for model in (flash_model(architecture, torch.float64, implementation), small_model(architecture, torch.float64)):
        with student_of(model, kind) as student:
            found.append(gradient_of(teacher_forcing(student, renderer), turns))
    (flash, flash_gradient), (sdpa, sdpa_gradient) = found
    assert flash == pytest.approx(sdpa, rel=1e-6)
    assert (flash_gradient - sdpa_gradient).norm() / sdpa_gradient.norm() < 1e-5
    # A hybrid processes whole texts.
    whole_rows_alone = implementation == attention.NAME and architecture == "qwen3_5"
    assert set(calls) == (set() if whole_rows_alone else _EXPECTED[implementation])
