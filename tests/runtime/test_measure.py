"""Measurements on small real models of both architectures: what is read, what is counted, and what is refused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from transformers import PreTrainedModel

from stair.config.runtime import Variant
from stair.core import ReadSpecification
from stair.engines.transformers.passes import Passes
from stair.method import Attachment, Bank, Read, Reflector, Segment
from stair.models.published import CONFIGS, CONTROLLED_LAYERS
from stair.stages.runtime.measure import Measurer, PrefixBank
from stair.stages.runtime.study_units import Unit
from tests.conftest import LAYERS, TOKENS
from tests.runtime.runtime_cases import METHOD, history, measurer

Small = Callable[..., PreTrainedModel]
BOTH = pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5"])
HISTORY = history()
LIMIT = 10


def unit(variant: Variant | str, entries: int, row: str = "full") -> Unit:
    return Unit("row", HISTORY.name, row, variant, entries, HISTORY.entries)  # type: ignore[arg-type]


def logits(model: PreTrainedModel, bank: Bank, limit: int | None = None) -> torch.Tensor:
    """Behind a prompt that reads a bank."""
    attachment = Attachment(model, LAYERS)
    controller = Reflector.draw(LAYERS, model.config.num_attention_heads, model.config.head_dim, seed=0)
    read = Read(bank, controller, HISTORY.span, ReadSpecification(limit=limit))
    return Passes(model, attachment, 1, 8192, model.device).run([HISTORY.prompt], [read], keep=True).logits


@BOTH
def test_a_prefix_bank_reads_as_the_whole_bank_with_a_limit(small_model: Small, architecture: str) -> None:
    model = small_model(architecture)
    segments = measurer(model).random_segments((7, 8, 9))
    whole, prefix = Bank(LAYERS, segments), PrefixBank(LAYERS, segments, LIMIT)
    assert torch.equal(logits(model, prefix), logits(model, whole, limit=LIMIT))
    assert prefix.tokens == whole.tokens == 24
    assert prefix.nbytes * 24 == whole.nbytes * LIMIT
    # With the query at N + p, the read is another one.
    assert not torch.allclose(logits(model, Bank(LAYERS, prefix.segments)), logits(model, prefix), atol=1e-6)


@BOTH
def test_fast_and_printed_read_the_same(small_model: Small, architecture: str) -> None:
    model = small_model(architecture)
    measured = measurer(model)
    bank = measured.construct(HISTORY)
    found = {}
    for variant in ("fast-serial", "fast-overlapped", "printed-serial", "printed-overlapped"):
        record = measured.measure(unit(variant, LIMIT), HISTORY, [bank])
        assert len(record["repetitions"]) == METHOD.repetitions
        for one in record["repetitions"]:
            assert one["controlled_tokens"] == 7
            assert one["kv_bytes"] == LIMIT * bank.nbytes // bank.tokens
            assert one["tokens"] == METHOD.decode
            assert (one["transfer_s"] is None) == variant.endswith("overlapped")
            assert one["total_s"] >= (one["transfer_s"] or 0.0) + one["prefill_s"] + one["decode_s"] - 1e-9
            assert one["prefill_s"] > 0
            assert one["decode_s"] > 0
            assert one["peak_bytes"] > 1 << 20
        found[variant] = record["repetitions"][0]["readout_norm"]
    assert min(found.values()) > 0
    assert max(found.values()) == pytest.approx(min(found.values()), rel=1e-3)


@BOTH
def test_native_controls_nothing(small_model: Small, architecture: str) -> None:
    record = measurer(small_model(architecture)).measure(unit("", 0, "native"), HISTORY, [])
    for one in record["repetitions"]:
        assert (one["controlled_tokens"], one["readout_norm"], one["kv_bytes"]) == (0, 0.0, 0)
        assert 0 <= one["transfer_s"] < one["prefill_s"]
        assert one["tokens"] == METHOD.decode


@BOTH
def test_end_tokens_do_not_end_the_fixed_decode(small_model: Small, architecture: str) -> None:
    measured = measurer(small_model(architecture), stop_ids=tuple(range(TOKENS)), decode=9)
    record = measured.measure(unit("", 0, "native"), HISTORY, [])
    assert {one["tokens"] for one in record["repetitions"]} == {9}


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
    record = measured.measure(Unit("construction", HISTORY.name, "", "", 0, HISTORY.entries), HISTORY, [])
    assert [one["construction_s"] > 0 and one["prefill_s"] is None for one in record["repetitions"]] == [True, True]
    with pytest.raises(ValueError, match="gives 24 entries, expected 23"):
        measured.construct(replace(HISTORY, entries=23))


def test_a_read_that_controls_nothing_is_refused(small_model: Small) -> None:
    measured = measurer(small_model())
    nowhere = replace(HISTORY, span=(0, 0))
    with pytest.raises(
        ValueError, match=r"row full of s-0 \(fast-serial\): 0 tokens were controlled.*check the controller"
    ):
        measured.measure(unit("fast-serial", LIMIT), nowhere, measured.random_segments((24,)))


def test_printed_equations_that_do_not_fit_are_a_gap(small_model: Small) -> None:
    class Full(Measurer):
        def _free_bytes(self) -> int:
            return 1 << 12

    model = small_model()
    controller = Reflector.draw(LAYERS, model.config.num_attention_heads, model.config.head_dim, seed=0)
    full = Full(model, controller, METHOD)
    segments = full.random_segments((24,))
    record = full.measure(unit("printed-serial", 24), HISTORY, segments)
    assert record == {
        "gap": "row full of s-0 (printed-serial): the equations as printed hold about 0.0 GiB, and 0.0 GiB are free"
    }
    assert "repetitions" in full.measure(unit("fast-serial", 24), HISTORY, segments)


@pytest.mark.parametrize(
    ("entries", "mebibytes"), [(2_048, 24.0), (8_192, 96.0), (32_768, 384.0), (80_700, 945.703125)]
)
def test_sizes_at_the_shape_of_qwen35_4b(entries: int, mebibytes: float) -> None:
    shape = CONFIGS["qwen3.5-4b"]
    states = torch.empty(2, 3, shape["num_key_value_heads"], entries, shape["head_dim"], dtype=torch.bfloat16)
    bank = PrefixBank(CONTROLLED_LAYERS, [Segment(CONTROLLED_LAYERS, *states)], entries)
    assert bank.nbytes == entries * 12_288 == mebibytes * 2**20


PEAK = """
import torch
from stair.stages.runtime.stopwatch import Stopwatch

watch = Stopwatch(torch.device("cpu"))
watch.start()
large = torch.ones(64 << 20, dtype=torch.uint8)
watch.mark()
with_it = watch.peak_bytes()
del large
watch.start()
watch.mark()
seconds = watch.seconds()
assert len(seconds) == 2 and seconds[0] == seconds[1] > 0
print(with_it - watch.peak_bytes())
"""


def test_the_peak_is_that_since_the_start() -> None:
    # In a process of its own: the allocator of a long-lived one may have the room already.
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 50 << 20
