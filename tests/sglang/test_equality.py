"""The real server's tokens: the same for the same seeds, those of the Transformers engine, drawn by the written law."""

from __future__ import annotations

import os
import random
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psutil
import pytest
import torch
from scipy.stats import chisquare
from transformers import PreTrainedModel

from stair.core import EngineIdentity
from stair.engines.base import Completion, Engine, Request, SamplingSettings
from stair.engines.sampling import token_probabilities
from stair.engines.sglang.client import Asker
from stair.engines.sglang.engine import SGLangEngine
from stair.engines.sglang.server import ServerFailed
from stair.engines.transformers import TransformersEngine
from tests.conftest import TOKENS, VOCABULARY
from tests.sglang.conftest import CONTEXT, ENDS

pytestmark = [pytest.mark.sglang, pytest.mark.timeout(300)]

INSTRUCT = SamplingSettings(temperature=0.7, top_p=0.8, top_k=20, truncation="joint")
THINKING = SamplingSettings(temperature=1.0, top_p=0.95, top_k=20, presence_penalty=1.5, truncation="joint")
GREEDY = SamplingSettings(temperature=0.0)
LAWS = {
    "plain": SamplingSettings(),
    "instruct": INSTRUCT,
    "thinking": THINKING,
    "greedy": GREEDY,
    "greedy, with a penalty": replace(GREEDY, presence_penalty=1.5),
}


def request(number: int, law: SamplingSettings, limit: int = 40, prompt: int | None = None, **changes: Any) -> Request:
    """A request with a random prompt, a function of its number alone."""
    source = random.Random(number)
    length = prompt or 3 + source.randrange(60)
    base = Request(
        key=f"request {number}",
        prompt_ids=tuple(source.randrange(TOKENS) for _ in range(length)),
        sampling=law,
        seed=source.getrandbits(62),
        max_new_tokens=limit,
        stop_ids=(*range(8), *ENDS),
    )
    return replace(base, **changes)


def mixed(count: int, **changes: Any) -> list[Request]:
    """Requests of all laws."""
    laws = list(LAWS.values())
    return [request(number, laws[number % len(laws)], **changes) for number in range(count)]


def ran(engine: Engine, requests: list[Request]) -> dict[str, Completion]:
    found = {completion.key: completion for completion in engine.run(requests)}
    assert len(found) == len(requests)
    return found


@contextmanager
def at_a_time(engine: SGLangEngine, width: int) -> Iterator[None]:
    """Another number of requests under way."""
    before, engine._width = engine._width, width
    try:
        yield
    finally:
        engine._width = before


def on_transformers(model: PreTrainedModel) -> TransformersEngine:
    return TransformersEngine(model, tokens=TOKENS, batch_width=8, cache_block=64)


@pytest.fixture(scope="module")
def undisturbed(engine: SGLangEngine) -> dict[str, Completion]:
    return ran(engine, mixed(60))


def test_the_engine_names_itself_and_the_ends_are_various(
    engine: SGLangEngine, undisturbed: dict[str, Completion]
) -> None:
    assert {completion.finish_reason for completion in undisturbed.values()} == {"stop", "length"}
    assert engine.identity == EngineIdentity("sglang", "0.5.23", "torch_native", "float32", "cpu")


@pytest.mark.parametrize("width", [1, 5])
def test_the_same_tokens_at_another_concurrency_and_in_another_order(
    engine: SGLangEngine, undisturbed: dict[str, Completion], width: int
) -> None:
    requests = mixed(60)[::-1]
    with at_a_time(engine, width):
        assert ran(engine, requests[:10] if width == 1 else requests).items() <= undisturbed.items()


def test_seeds_decide(engine: SGLangEngine) -> None:
    base = request(1, SamplingSettings(), prompt=20)
    seeds = [replace(base, key=f"seed {number}", seed=number << 40) for number in range(12)]
    found = ran(engine, seeds)
    assert len({completion.response_ids[:6] for completion in found.values()}) == 12


def test_greedy_tokens_are_those_of_the_transformers_engine(
    engine: SGLangEngine, small_model: Callable[..., PreTrainedModel]
) -> None:
    laws = [law for law in LAWS.values() if law.temperature == 0]
    requests = [request(number, laws[number % len(laws)], limit=60) for number in range(40)]
    expected = ran(on_transformers(small_model()), requests)
    found = ran(engine, requests)
    for key, completion in expected.items():
        assert found[key].response_ids == completion.response_ids
        assert found[key].finish_reason == completion.finish_reason
    assert len({completion.response_ids for completion in found.values()}) > 30


def test_prompts_at_the_edge_of_the_context_end_as_with_transformers(
    engine: SGLangEngine, small_model: Callable[..., PreTrainedModel]
) -> None:
    requests = [
        request(number, GREEDY, limit=limit, prompt=prompt, key=f"{prompt} {limit}", stop_ids=ENDS)
        for number, (prompt, limit) in enumerate(
            (prompt, limit)
            for prompt in (CONTEXT - 40, CONTEXT - 2, CONTEXT - 1, CONTEXT, CONTEXT + 1, 2 * CONTEXT)
            for limit in (1, 2, 40, 41, 2000)
        )
    ]
    expected = ran(on_transformers(small_model()), requests)
    found = ran(engine, requests)
    ended = Counter(completion.finish_reason for completion in found.values())
    assert ended["context"] > 15
    for key, completion in expected.items():
        assert (found[key].response_ids, found[key].finish_reason) == (
            completion.response_ids,
            completion.finish_reason,
        )


@pytest.mark.parametrize("name", ["instruct", "thinking"])
def test_the_servers_token_probabilities_are_the_written_law(
    engine: SGLangEngine, undisturbed: dict[str, Completion], small_model: Callable[..., PreTrainedModel], name: str
) -> None:
    """The server tells which tokens it drew from, and with which probabilities, at every step of a response."""
    model, asker = small_model(), Asker(CONTEXT, VOCABULARY, TOKENS)
    steps = 0
    for number in range(6):
        each = request(number, LAWS[name], limit=30)
        payload = asker.payload(each) | {"return_sampling_mask": True, "sampling_logprobs_mode": "support"}
        assert engine.server is not None
        answer = engine.server.generate(payload)
        ids, told = answer["output_ids"], answer["meta_info"]
        with torch.inference_mode():
            logits = model(torch.tensor([[*each.prompt_ids, *ids]])).logits[0]
        supports, logprobs = told["output_token_sampling_mask"], told["output_token_sampling_logprobs"]
        assert len(supports) == len(logprobs) == len(ids)
        for step, (support, logprob) in enumerate(zip(supports, logprobs, strict=True)):
            at = logits[len(each.prompt_ids) + step - 1]
            law = token_probabilities(at, ids[:step], each.prompt_ids, each.sampling, TOKENS)
            found = torch.zeros(VOCABULARY, dtype=torch.float64)
            found[torch.tensor(support)] = torch.tensor(logprob, dtype=torch.float64).exp()
            assert torch.allclose(found, law, atol=2e-5), (name, number, step)
            steps += 1
    assert steps > 60


@pytest.mark.parametrize("name", ["plain", "instruct", "thinking"])
def test_both_engines_draw_with_the_laws_frequencies(
    engine: SGLangEngine, undisturbed: dict[str, Completion], small_model: Callable[..., PreTrainedModel], name: str
) -> None:
    """First tokens of many seeds, against the law's probabilities of that prompt."""
    count, model = 400, small_model()
    base = request(5, LAWS[name], limit=1, prompt=25)
    draws = [replace(base, key=f"draw {number}", seed=number * 7919 + 13) for number in range(count)]
    with torch.inference_mode():
        logits = model(torch.tensor([base.prompt_ids])).logits[0, -1]
    law = token_probabilities(logits, [], base.prompt_ids, base.sampling, TOKENS)
    likely = (law * count >= 5).nonzero()[:, 0].tolist()
    assert len(likely) > 3
    expected = [float(law[token]) * count for token in likely]
    for each in (engine, on_transformers(model)):
        drawn = Counter(completion.response_ids[0] for completion in ran(each, draws).values())
        assert all(law[token] > 0 for token in drawn)
        seen = [drawn[token] for token in likely]
        rest = count - sum(expected)
        observed, wanted = [*seen, count - sum(seen)], [*expected, rest]
        if rest < 1e-6:
            observed, wanted = seen, expected
        assert chisquare(observed, wanted).pvalue > 1e-4, each.name


def test_what_the_server_would_refuse_or_die_of_does_not_reach_it(
    engine: SGLangEngine, undisturbed: dict[str, Completion]
) -> None:
    with pytest.raises(ValueError, match="min_p is"):
        ran(engine, [request(1, replace(THINKING, min_p=0.1))])
    asker = Asker(10 * CONTEXT, VOCABULARY, TOKENS)  # as if nobody limited lengths
    assert engine.server is not None
    with pytest.raises(ValueError, match="status 400"):
        engine.server.generate(asker.payload(request(1, GREEDY, limit=CONTEXT)))
    assert ran(engine, mixed(3)).items() <= undisturbed.items()


def test_a_full_cache_changes_no_response(engine: SGLangEngine, undisturbed: dict[str, Completion]) -> None:
    """SGLang restarts responses when its cache is full, and would forget their penalty.

    It begins a request if the cache has room for its prompt, so 16 of these grow out of the cache.
    """
    long = [request(number, THINKING, limit=120, prompt=100, stop_ids=ENDS) for number in range(24)]
    with at_a_time(engine, 5):
        expected = ran(engine, long)
        assert engine._width == 5
    assert sum(completion.usage.response_tokens for completion in expected.values()) > 1000
    with at_a_time(engine, 16):
        for _ in range(4):  # how many grow at once depends on the server's pace
            assert ran(engine, long) == expected
            if engine._width < 16:
                return
    pytest.fail("the cache was never full")


def test_a_server_whose_scheduler_is_killed_ends_the_run_and_leaves_no_process(
    engine: SGLangEngine, undisturbed: dict[str, Completion]
) -> None:
    """The last test of this server, in the middle of a run."""
    assert engine.server is not None
    server = psutil.Process(engine.server.process.pid)
    family = [server, *server.children(recursive=True)]
    assert len(family) > 2
    completions = engine.run(mixed(60))
    first = next(completions)
    found = {first.key: first}
    # The process that computes; the others have to notice.
    os.kill(max(family, key=lambda each: each.memory_info().rss).pid, signal.SIGKILL)
    with pytest.raises(ServerFailed, match="SGLang's server ended with exit code"):
        found.update((completion.key, completion) for completion in completions)
    found |= {completion.key: completion for completion in engine.ended()}
    assert found.items() <= undisturbed.items()
    engine.close()
    assert not psutil.wait_procs(family, timeout=10)[1]
