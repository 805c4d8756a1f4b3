"""The batched engine against plain generation: one response at a time, without any cache, in float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from transformers import PreTrainedModel

from stair.engines.base import Capture, Reconstruction, Request
from stair.method import Read, Segment
from tests.conftest import LAYERS, TOKENS
from tests.deviation import deviation
from tests.engines.engine_cases import GREEDY, LAWS, MARKER, engine, random_bank, reflector, request, run, various
from tests.engines.naive_engine import respond

Models = Callable[..., PreTrainedModel]
both = pytest.mark.parametrize("architecture", ["qwen3", "qwen3_5", "llama"])
# Gated DeltaNet computes in single precision whatever the model's, in chunks over a prompt and token by token after it.
EXACT = {"qwen3": 1e-12, "qwen3_5": 1e-5, "llama": 1e-12}


def kept(ids: tuple[int, ...], capture: Capture, stop_ids: tuple[int, ...]) -> int:
    """How many leading tokens give states to the bank, as appendix B.1 says it."""
    body = list(ids)
    if body[-1] in stop_ids:
        body.pop()
    if capture.end_of_thinking is not None and capture.end_of_thinking in body:
        return len(body) - 1 - body[::-1].index(capture.end_of_thinking)
    return min(len(body), len(ids) - 1)


@pytest.mark.parametrize(
    ("architecture", "law"),
    [*product(["qwen3"], LAWS), *product(["qwen3_5", "llama"], (LAWS[0], LAWS[3]))],  # a law sees the logits alone
)
def test_tokens_and_states_are_those_of_plain_generation(small_model: Models, architecture: str, law: object) -> None:
    model = small_model(architecture, torch.float64)
    requests = [
        replace(each, sampling=law, max_new_tokens=min(each.max_new_tokens, 14)) for each in various(torch.float64, 5)
    ]
    expected = {each.key: respond(model, each, LAYERS, tokens=TOKENS, context=512) for each in requests}
    found = [run(model, requests, prefill=prefill) for prefill in (1, 3)]
    for each, completions in product(requests, found):
        ids, reason, states = expected[each.key]
        completion = completions[each.key]
        assert completion.response_ids == ids
        assert completion.finish_reason == reason
        assert (completion.usage.prompt_tokens, completion.usage.response_tokens) == (len(each.prompt_ids), len(ids))
        if each.capture is None:
            assert completion.bank is None
            continue
        assert completion.bank is not None
        length = kept(ids, each.capture, each.stop_ids)
        stacked = (torch.stack([layer[part][:length].transpose(0, 1) for layer in states]) for part in (0, 1))
        assert deviation(completion.bank, Segment(LAYERS, *stacked)) < EXACT[architecture]


@both
@pytest.mark.parametrize("law", [LAWS[0], LAWS[3]], ids=["greedy", "thinking"])
def test_in_fp32_too_the_tokens_are_those_of_plain_generation(
    small_model: Models, architecture: str, law: object
) -> None:
    model = small_model(architecture)
    requests = [
        replace(each, sampling=law, max_new_tokens=min(each.max_new_tokens, 14)) for each in various(torch.float32, 5)
    ]
    found = run(model, requests)
    for each in requests:
        ids, reason, _ = respond(model, each, LAYERS, tokens=TOKENS, context=512)
        assert (found[each.key].response_ids, found[each.key].finish_reason) == (ids, reason)


@both
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.float64, None)], ids=["fp32", "fp64"])
def test_states_kept_while_decoding_are_those_of_exact_token_replay(
    small_model: Models, architecture: str, dtype: torch.dtype, bound: float | None
) -> None:
    model = small_model(architecture, dtype)
    one = engine(model)
    requests = {each.key: each for each in various(dtype)}
    compared = 0
    for completion in list(one.run(requests.values())):
        each = requests[completion.key]
        if each.capture is None or completion.bank is None:
            continue
        (reconstructed,) = one.reconstruct(
            [Reconstruction(each.key, each.prompt_ids, completion.response_ids, each.stop_ids, each.capture, each.read)]
        )
        assert reconstructed.keys.shape == completion.bank.keys.shape
        assert deviation(reconstructed, completion.bank) < (bound or EXACT[architecture])
        compared += reconstructed.tokens
    assert compared > 50


@both
def test_a_reconstruction_without_its_read_gives_other_states(small_model: Models, architecture: str) -> None:
    """The comparison above sees whether the auxiliary branch was in force during the reconstructed prompt."""
    one = engine(small_model(architecture))
    read = Read(random_bank(30), reflector(), span=(5, 20))
    each = request("read", 20, 10, read=read, stop_ids=(), sampling=GREEDY)
    (completion,) = one.run([each])
    assert completion.bank is not None and each.capture is not None
    with_read, without = (
        one.reconstruct([Reconstruction("r", each.prompt_ids, completion.response_ids, (), each.capture, which)])[0]
        for which in (read, None)
    )
    assert deviation(with_read, completion.bank) < 1e-5
    assert deviation(without, completion.bank) > 1e-3


@both
def test_the_last_prompt_token_is_controlled_and_the_response_is_not(small_model: Models, architecture: str) -> None:
    """A span of the last prompt token alone moves the first draw; a span that ends before it leaves its layer native."""
    model = small_model(architecture, torch.float64)
    bank = random_bank(40, dtype=torch.float64)
    native = request("native", 12, 6, sampling=GREEDY, stop_ids=())
    last = replace(native, key="last", read=Read(bank, reflector(), span=(11, 12)))
    found = run(model, [native, last])
    receipt = found["last"].receipt
    assert receipt is not None
    assert (receipt.controlled_tokens, receipt.bank_tokens) == (1, 40)
    assert receipt.readout_norm > 1e-2
    assert found["native"].receipt is None
    controlled = respond(model, last, LAYERS, tokens=TOKENS, context=512)
    assert found["last"].response_ids == controlled[0]
    assert found["last"].bank is not None and found["native"].bank is not None
    assert (
        deviation(found["last"].bank, found["native"].bank) > 1e-6
        or found["last"].response_ids != found["native"].response_ids
    )


def stopped(model: PreTrainedModel, **changes: object) -> tuple[Request, tuple[int, ...]]:
    """A greedy request without an end marker, and its first ten tokens."""
    base = request("base", 9, 10, sampling=GREEDY, stop_ids=(), **changes)
    return base, run(model, [base])["base"].response_ids


@both
def test_a_response_ends_at_a_stop_token_at_the_limit_or_with_the_context(
    small_model: Models, architecture: str
) -> None:
    model = small_model(architecture)
    base, ids = stopped(model)
    first_of_its_kind = next(number for number in range(3, 10) if ids[number] not in ids[:number])
    stop = replace(base, key="stop", stop_ids=(299, ids[first_of_its_kind]))
    found = run(model, [base, stop])
    assert (found["base"].finish_reason, len(ids)) == ("length", 10)
    assert found["stop"].finish_reason == "stop"
    assert found["stop"].response_ids == ids[: first_of_its_kind + 1], "the stop token is kept as the last"
    # A stop token at the limit is a stop.
    at_limit = replace(stop, max_new_tokens=first_of_its_kind + 1)
    assert run(model, [at_limit])["stop"].finish_reason == "stop"


@both
def test_the_context_ends_a_response_and_refuses_a_prompt_that_fills_it(small_model: Models, architecture: str) -> None:
    model = small_model(architecture)
    cases = [
        request(f"{prompt}", prompt, 20, stop_ids=(), capture=Capture(LAYERS, None)) for prompt in (505, 511, 512, 530)
    ]
    found = run(model, cases)
    assert {key: (each.finish_reason, len(each.response_ids)) for key, each in found.items()} == {
        "505": ("context", 7),
        "511": ("context", 1),
        "512": ("context", 0),
        "530": ("context", 0),
    }
    states = {key: each.bank.tokens for key, each in found.items() if each.bank is not None}
    assert states == {"505": 6, "511": 0, "512": 0, "530": 0}, "a response that never began leaves an empty segment"
    for each in cases[1:]:
        assert each.capture is not None
        ids = found[each.key].response_ids
        assert (
            engine(model).reconstruct([Reconstruction(each.key, each.prompt_ids, ids, (), each.capture)])[0].tokens == 0
        )


@both
@pytest.mark.parametrize("at", [0, 4])
def test_the_stop_tokens_state_is_never_captured(small_model: Models, architecture: str, at: int) -> None:
    model = small_model(architecture)
    base, ids = stopped(model)
    whole = run(model, [base])["base"].bank
    assert whole is not None
    assert whole.tokens == 9, "the token drawn last has no state"
    place = ids.index(ids[at])
    bank = run(model, [replace(base, stop_ids=(ids[at],))])["base"].bank
    assert bank is not None
    assert bank.tokens == place
    assert torch.equal(bank.keys, whole.keys[:, :, :place])


def test_in_thinking_mode_capture_ends_before_the_last_marker(small_model: Models) -> None:
    model = small_model("qwen3_5")
    base, ids = stopped(model)
    for position in (2, 5, 9):
        marker = ids[position]
        last = max(number for number in range(10) if ids[number] == marker)
        bank = run(model, [replace(base, capture=Capture(LAYERS, marker))])["base"].bank
        assert bank is not None and bank.tokens == min(last, 9)
    assert MARKER not in ids
    bank = run(model, [replace(base, capture=Capture(LAYERS, MARKER))])["base"].bank
    assert bank is not None and bank.tokens == 9


def test_ids_beyond_the_tokenizer_are_never_drawn(small_model: Models) -> None:
    """The models' output layer is padded beyond the tokenizer, with weights as great as the others'."""
    found = run(small_model("qwen3"), [request(f"r{n}", 5, 40, stop_ids=()) for n in range(8)])
    drawn = {token for completion in found.values() for token in completion.response_ids}
    assert max(drawn) < TOKENS
    assert len(drawn) > 100


def test_nan_logits_name_the_response(small_model: Models) -> None:
    model = small_model("qwen3")
    bank = random_bank(5)
    bank.segments[0].values.fill_(torch.nan)
    broken = request("broken", 8, 5, read=Read(bank, reflector(), span=(2, 8)))
    with pytest.raises(FloatingPointError, match=r"response broken: the model's logits became NaN or infinite"):
        run(model, [request("whole", 8, 5), broken])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_ids": (1, TOKENS)}, "token 300 is outside the vocabulary of 300"),
        ({"prompt_ids": (1, -1)}, "token -1 is outside the vocabulary"),
        ({"capture": Capture((1,), None)}, r"captures layers \(1,\), not \(1, 3\)"),
        ({"adapter": "lora"}, "is for the adapter lora, and this engine.s model carries none"),
    ],
)
def test_a_request_that_cannot_be_served_is_refused(
    small_model: Models, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(ValueError, match=f"request bad.*{message}"):
        run(small_model("qwen3"), [request("bad", 4, 4, **changes)])


def test_an_engine_without_layers_generates_and_refuses_to_capture(small_model: Models) -> None:
    model = small_model("qwen3")
    plain, capturing = request("plain", 6, 8, capture=None), request("capturing", 6, 8)
    (completion,) = engine(model, layers=()).run([plain])
    assert completion.response_ids == run(model, [plain])["plain"].response_ids
    with pytest.raises(ValueError, match="made without layers"):
        list(engine(model, layers=()).run([capturing]))
    with pytest.raises(ValueError, match="not a full-attention layer"):
        engine(small_model("qwen3_5"), layers=(0,))


@pytest.mark.parametrize(
    ("changes", "message"), [({"prompt_ids": ()}, "prompt is empty"), ({"max_new_tokens": 0}, "at least 1")]
)
def test_a_request_without_a_prompt_or_a_token_to_draw_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        request("bad", 4, 4, **changes)
