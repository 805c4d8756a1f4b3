"""Between the layers, and in a draw, the host never waits for a number or a copy of the device.

Everything runs on torch's device "meta". It has shapes and no numbers, so each wait for a GPU is an error here.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from stair.core import ReadSpecification
from stair.engines.base import Capture, Reconstruction, SamplingSettings
from stair.engines.sampling import BatchSampler
from stair.engines.transformers.batch import Batch
from stair.engines.transformers.passes import Passes, reconstruct_states
from stair.engines.transformers.prefill import Prefilled
from stair.method import Attachment, BankFree, Read
from stair.method.read import RowReadout
from stair.method.rope import Rotary
from stair.models.attention import NAME
from stair.models.prefix import Prefix
from stair.stages.training.student import last_hidden
from tests.conftest import LAYERS, TOKENS
from tests.engines.engine_cases import LAWS, random_bank, reflector, request
from tests.flash_attention import flash_model, use_flash_attention

META = torch.device("meta")
each = pytest.mark.parametrize(
    ("architecture", "attention"),
    [
        *(("qwen3", NAME), ("qwen3", "flash_attention_2"), ("llama", NAME)),
        *(("qwen3_5", NAME), ("qwen3_5", "sdpa"), ("qwen3_5", "flash_attention_3")),
    ],
)


@pytest.fixture
def model(architecture: str, attention: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    if attention.startswith("flash"):
        use_flash_attention(monkeypatch, attention)
    return flash_model(architecture, torch.bfloat16, attention).to(META)


@each
def test_a_prompt_in_chunks_and_a_step_behind_it(model: Any) -> None:
    attachment = Attachment(model, LAYERS)
    passes = Passes(model, attachment, 1, 64, META)
    prompt = request("a", 150, 4, capture=Capture(LAYERS, None))
    read = Read(None, BankFree(LAYERS, torch.zeros(len(LAYERS), 4, 16)), (60, 150))
    result = passes.run([prompt.prompt_ids], [read], keep=True)
    assert result.cache is not None
    batch = Batch(model, attachment, attachment.architecture, TOKENS, 2, 32)
    batch.begin(0, prompt, Prefilled(result.cache, 0, 0, result.logits[0], None))
    batch._drawn = torch.zeros(2, dtype=torch.long, device=META)
    batch.rows[0].ids.append(0)  # type: ignore[union-attr]
    batch.decode()


@each
def test_a_read_with_permuted_values(model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: nullcontext())  # it does not know this device
    passes = Passes(model, Attachment(model, LAYERS, backend="naive"), 1, 64, META)
    bank, specification = random_bank(11, 20, dtype=torch.bfloat16), ReadSpecification(permutation_seed=3)
    result = passes.run([range(150)], [Read(bank, reflector(), (60, 150), specification)], keep=False)
    assert result.receipts[0] is not None and result.receipts[0].controlled_tokens == 90


@each
def test_a_pass_of_training(model: Any, architecture: str) -> None:
    ids = torch.zeros(1, 70, dtype=torch.long, device=META)
    if architecture != "llama":  # it takes no masks by kind of layer
        assert last_hidden(model, ids, 60).shape == (10, 32)
    prefix = Prefix.empty(model).extended(range(40))
    assert last_hidden(model, ids, 60, prefix.cache(1)).shape == (10, 32)


@each
def test_a_prefix(model: Any) -> None:
    prefix = Prefix.empty(model).extended(range(40))
    assert len(prefix.extended(range(70)).ids) == 70


@each
def test_a_reconstruction_copies_when_all_layers_have_run(model: Any) -> None:
    ended: list[nn.Module] = []
    model.get_decoder().norm.register_forward_hook(lambda module, *_: ended.append(module))
    passes = Passes(model, Attachment(model, LAYERS), 1, 64, META)
    saved = Reconstruction("a", tuple(range(20, 90)), tuple(range(30, 50)), (), Capture(LAYERS, None))
    with pytest.raises(NotImplementedError, match="meta tensor"):
        reconstruct_states(passes, [saved], 500)
    assert len(ended) == 2, "one for each chunk"


def test_a_draw_by_every_law() -> None:
    laws = [*LAWS, SamplingSettings(top_p=0.9, min_p=0.1)]
    sampler = BatchSampler(len(laws), 40, 38, META)
    for row, law in enumerate(laws):
        sampler.start(row, [1, 2], law, seed=row)
    assert sampler.draw(torch.empty(len(laws), 40, device=META)).shape == (len(laws),)


class Copies(TorchDispatchMode):
    """Counts copies between devices."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        from_host = any(isinstance(one, torch.Tensor) and one.device.type == "cpu" and one.numel() for one in args)
        self.count += from_host and kwargs.get("device") == META
        return func(*args, **kwargs)


def test_a_row_finds_its_columns_in_a_later_chunk_without_a_copy() -> None:
    specification = ReadSpecification(permutation_seed=3)
    readout = RowReadout(Read(random_bank(11, 20), reflector(), (30, 90), specification), Rotary(16, 1e4), "auto", META)
    readout.prefetch(torch.float32)
    with Copies() as copies:
        for chunk, start in enumerate((0, 32, 64, 96)):
            readout.enter_chunk(chunk, torch.arange(start, start + 32))
    assert copies.count == 0
    assert readout.receipt.controlled_tokens == 60


def test_the_rows_lengths_are_filled_on_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    fused = pytest.importorskip("stair.method.reads.fused")
    expected = torch.tensor([30, 0, 7], dtype=torch.int32), torch.tensor([1e-6 / 30, 1e-6, 1e-6 / 7])

    def copied(*_: object, **__: object) -> Tensor:
        raise AssertionError("numbers of the host are copied")

    monkeypatch.setattr(torch, "tensor", copied)
    lengths, floors = fused.row_facts((30, 0, 7), 1e-6, torch.device("cpu"))
    assert torch.equal(lengths, expected[0]) and torch.equal(floors, expected[1])
