"""Measurements on small real models of both architectures: what is read, what is counted, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from stair.core import ReadSpecification
from stair.engines.transformers.passes import Passes
from stair.method import Attachment, Bank, Read, Reflector, Segment
from stair.method.bank import Resident
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.stages.runtime.measure import PrefixBank
from tests.conftest import LAYERS, TOKENS
from tests.runtime.runtime_cases import METHOD, history, measurer

Small = Callable[..., PreTrainedModel]
BOTH = pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
HISTORY = history()
LIMIT = 10


def logits(model: PreTrainedModel, bank: Bank, limit: int | None = None) -> torch.Tensor:
    """Behind a prompt that reads a bank."""
    attachment = Attachment(model, LAYERS)
    controller = Reflector.draw(LAYERS, model.config.num_attention_heads, model.config.head_dim, seed=0)
    read = Read(bank, controller, HISTORY.span, ReadSpecification(limit=limit))
    return Passes(model, attachment, 1, 8192, model.device).run([HISTORY.prompt], [read], keep=True).logits


@BOTH
def test_a_prefix_bank_reads_as_the_whole_bank_with_a_limit(small_model: Small, architecture: str) -> None:
    model = small_model(architecture)
    segment = measurer(model).construct(HISTORY)
    whole, prefix = Bank(LAYERS, [segment]), PrefixBank(segment, LIMIT)
    assert torch.equal(logits(model, prefix), logits(model, whole, limit=LIMIT))
    assert prefix.tokens == whole.tokens == 24
    assert prefix.nbytes * 24 == whole.nbytes * LIMIT
    # With the query at N + p, the read is another one.
    assert not torch.allclose(logits(model, Bank(LAYERS, prefix.segments)), logits(model, prefix), atol=1e-6)


@BOTH
def test_the_papers_rows(small_model: Small, architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, brought, bring = small_model(architecture), list[int](), Resident.extend

    def extend(resident: Resident, segments: Sequence[Segment]) -> None:
        before = resident.entries
        bring(resident, segments)
        brought.extend([resident.entries] if resident.entries > before else [])

    monkeypatch.setattr(Resident, "extend", extend)
    found = measurer(model).measure(HISTORY)
    assert brought == [10] * 3 + [24] * 6, "a warm-up and both repetitions of each row bring the bank to the device"
    names = ["construction", "native", "prefix-10", "prefix-64", "full"]
    assert [(one["row"], one["repetition"]) for one in found] == [(row, n) for row in names for n in (1, 2)]
    bank = measurer(model).construct(HISTORY)
    # A short bank is read in full.
    assert {one["row"]: one.get("entries") for one in found} == dict(zip(names, (None, 0, 10, 24, 24), strict=True))
    for one in found:
        assert (one["history"], one["bank_entries"], one["prompt_tokens"]) == ("s-0", 24, 20)
        if one["row"] == "construction":
            assert one["total_s"] > 0 and one["kv_bytes"] == bank.nbytes and "prefill_s" not in one
            continue
        assert one["kv_bytes"] == one["entries"] * bank.nbytes // bank.tokens
        assert (one["controlled_tokens"], one["readout_norm"] > 0) == ((7, True) if one["entries"] else (0, False))
        assert one["tokens"] == METHOD.tokens
        assert one["total_s"] == pytest.approx(one["transfer_s"] + one["prefill_s"] + one["decode_s"])
        assert min(one["transfer_s"], one["prefill_s"], one["decode_s"]) > 0
        assert one["peak_bytes"] is None, "a CPU's allocator counts nothing"


@BOTH
def test_end_tokens_do_not_end_the_fixed_decode(small_model: Small, architecture: str) -> None:
    others = tuple(set(range(TOKENS)) - set(HISTORY.response))  # an end token in the response would cut the bank
    found = measurer(small_model(architecture), stop_ids=others, tokens=9, prefixes=()).measure(HISTORY)
    assert {one["tokens"] for one in found if one["row"] != "construction"} == {9}


@BOTH
def test_a_construction_is_the_exact_token_replay_of_t1(small_model: Small, architecture: str) -> None:
    model = small_model(architecture)
    measured = measurer(model)
    segment = measured.construct(HISTORY)
    assert segment.tokens == HISTORY.entries
    states: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    ids = torch.tensor([[*HISTORY.first_prompt, *HISTORY.response[:-1]]])
    with (
        torch.no_grad(),
        Attachment(model, LAYERS).capturing(lambda i, keys, values: states.update({i: (keys, values)})),
    ):
        model(ids)
    start = len(HISTORY.first_prompt)
    for index in range(len(LAYERS)):
        for kept, seen in zip((segment.keys[index], segment.values[index]), states[index], strict=True):
            assert torch.allclose(kept, seen[0, start:].transpose(0, 1), atol=1e-5)
    with pytest.raises(ValueError, match="gives 24 entries, expected 23"):
        measured.construct(replace(HISTORY, entries=23))


def test_a_read_that_controls_nothing_is_refused(small_model: Small) -> None:
    measured = measurer(small_model())
    with pytest.raises(ValueError, match=r"prefix-10 of s-0: 0 tokens were controlled.*check the controller"):
        measured.measure(replace(HISTORY, span=(0, 0)))


@pytest.mark.parametrize(
    ("entries", "mebibytes"), [(2_048, 24.0), (8_192, 96.0), (32_768, 384.0), (80_700, 945.703125)]
)
def test_sizes_at_the_shape_of_qwen35_4b(entries: int, mebibytes: float) -> None:
    shape = CONFIGS["qwen3.5-4b"]
    states = torch.empty(2, 3, shape["num_key_value_heads"], entries, shape["head_dim"], dtype=torch.bfloat16)
    bank = PrefixBank(Segment(CONTROLLED_LAYERS, *states), entries)
    assert bank.nbytes == entries * 12_288 == mebibytes * 2**20
