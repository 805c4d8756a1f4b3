"""The SGLang engine's parts that need no server: limits, payloads, answers."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from stair.engines.base import Capture, SamplingSettings
from stair.engines.sglang.client import Retracted
from stair.engines.sglang.supported import check_architecture, check_request, check_sampling
from tests.engines.sglang_cases import ASKER, LAW, answer, request

# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"min_p": 0.1}, "min_p is 0.1"),
        ({"repetition_penalty": 1.1}, "repetition_penalty is 1.1"),
        ({"presence_penalty": 2.5}, "presence_penalty is 2.5"),
        ({"truncation": "sequential"}, "jointly"),
    ],
)
def test_settings_that_sglang_cannot_draw_are_refused(change: dict[str, Any], said: str) -> None:
    check_sampling(LAW)
    with pytest.raises(ValueError, match=said):
        check_sampling(replace(LAW, **change))


def test_the_order_of_truncations_matters_only_where_there_are_two() -> None:
    for change in ({"top_k": 0}, {"top_p": 1.0}, {"temperature": 0.0}):
        check_sampling(replace(LAW, truncation="sequential", **change))


def test_the_hybrid_needs_a_gpu() -> None:
    check_architecture("qwen3_5", "cuda")
    check_architecture("qwen3", "cpu")
    with pytest.raises(ValueError, match=r"not qwen3_5 .*use the Transformers engine"):
        check_architecture("qwen3_5", "cpu")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"stop_ids": (0,)}, r"ends at \[1\]"),
        ({"capture": Capture((1,), None)}, "reads, captures"),
        ({"adapter": "some"}, "reads, captures"),
        ({"sampling": replace(LAW, min_p=0.5)}, "min_p is 0.5"),
    ],
)
def test_requests_that_the_server_cannot_answer_are_refused(change: dict[str, Any], said: str) -> None:
    check_request(request(), ends=[1])
    with pytest.raises(ValueError, match=said):
        check_request(request(**change), ends=[1])


# ---------------------------------------------------------------- payloads and answers


def test_a_payload_says_every_parameter() -> None:
    sent = ASKER.payload(request())
    assert sent["input_ids"] == list(range(100, 110))
    sampling = sent["sampling_params"]
    assert (sampling["temperature"], sampling["top_p"], sampling["top_k"]) == (1.0, 0.95, 20)
    assert (sampling["presence_penalty"], sampling["repetition_penalty"], sampling["min_p"]) == (1.5, 1.0, 0.0)
    assert (sampling["sampling_seed"], sampling["n"], sampling["stop_token_ids"]) == (5, 1, [0, 1])
    # Ids beyond the tokenizer cannot be drawn; no truncation is as many as there are.
    assert sampling["logit_bias"] == {str(token): -1e9 for token in range(300, 320)}
    assert ASKER.payload(request(sampling=SamplingSettings()))["sampling_params"]["top_k"] == 320
    assert replace(ASKER, tokens=320).payload(request())["sampling_params"]["logit_bias"] is None


def test_lengths_are_clamped_to_the_context() -> None:
    assert ASKER.payload(request(prompt=70, limit=30))["sampling_params"]["max_new_tokens"] == 30
    assert ASKER.payload(request(prompt=71, limit=30))["sampling_params"]["max_new_tokens"] == 29


def test_completions_end_as_the_law_says() -> None:
    stopped = ASKER.completion(request(), answer([7, 8, 1], "stop"))
    assert (stopped.response_ids, stopped.finish_reason, stopped.usage.response_tokens) == ((7, 8, 1), "stop", 3)
    assert ASKER.completion(request(), answer([7] * 20, "length")).finish_reason == "length"
    cut = ASKER.completion(request(prompt=90), answer([7] * 10, "length", prompt=90))
    assert cut.finish_reason == "context"


@pytest.mark.parametrize(
    "wrong",
    [
        answer([7] * 19, "length"),  # cut off by a cache that is too small
        answer([7, 8], "stop"),  # stopped at what is no stop id
        answer([7, 1, 8, 0], "stop"),  # went on behind a stop id
        answer([7, 300, 1], "stop"),  # an id beyond the tokenizer
        answer([7, 1], "stop", prompt=9),  # another prompt
    ],
)
def test_an_answer_that_cannot_be_right_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="unexpected response"):
        ASKER.completion(request(), wrong)


def test_a_response_that_is_broken_off_is_an_error() -> None:
    with pytest.raises(ValueError, match="aborted it: shutting down"):
        ASKER.completion(request(), answer([], "abort", reason={"type": "abort", "message": "shutting down"}))


def test_a_retracted_response_counts_only_without_a_penalty() -> None:
    retracted = answer([7, 1], "stop", num_retractions=1)
    with pytest.raises(Retracted):
        ASKER.completion(request(), retracted)
    plain = request(sampling=replace(LAW, presence_penalty=0.0))
    assert ASKER.completion(plain, retracted).response_ids == (7, 1)


def test_products_on_a_cpu_give_a_row_the_same_bits_in_every_batch() -> None:
    """In a process of its own: PyTorch's kernels are replaced, which round otherwise for one row than for three."""
    program = """
import sys, torch
sys.path.insert(0, sys.argv[1])
from sglang_plain_cpu_products import make_products_rowwise
torch.set_num_threads(1)
linear, made = torch.nn.functional.linear, torch.Generator().manual_seed(0)
cases = [tuple(torch.randn(size, generator=made) for size in ((100, k), (n, k), (n,))) for k, n in
         ((32, 96), (64, 64), (64, 192), (96, 300), (192, 64), (48, 37))]
before = [linear(x, w) for x, w, _ in cases]
make_products_rowwise()
make_products_rowwise()
with torch.inference_mode():
    for (x, w, b), plain in zip(cases, before, strict=True):
        whole, biased = linear(x, w), linear(x, w, b)
        torch.testing.assert_close(whole, plain)
        torch.testing.assert_close(biased, plain + b)
        for n in (*range(1, 20), 31, 32, 33, 49):
            for start in (0, 5, 50):
                assert torch.equal(linear(x[start : start + n], w), whole[start : start + n]), (x.shape, n)
                assert torch.equal(linear(x[start : start + n], w, b), biased[start : start + n]), (x.shape, n)
        assert torch.equal((x[:6].view(2, 3, -1) @ w.T).view(6, -1), whole[:6])
"""
    folder = Path(__file__).parents[2] / "envs" / "sglang_plain_cpu"
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
