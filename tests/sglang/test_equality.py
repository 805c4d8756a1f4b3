"""The real server's tokens: the same for the same seeds, those of the Transformers engine, drawn by the written law."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from typing import Any

import httpx2 as httpx
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
from stair.engines.transformers import TransformersEngine
from tests.conftest import TOKENS, VOCABULARY
from tests.sglang.conftest import CONTEXT, ENDS, StartEngine

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


def on_transformers(model: PreTrainedModel) -> TransformersEngine:
    return TransformersEngine(model, tokens=TOKENS, batch_width=8, cache_block=64)


@pytest.fixture(scope="module")
def undisturbed(engine: SGLangEngine) -> dict[str, Completion]:
    return ran(engine, mixed(60))


def test_what_was_seen_of_the_batch_is_known_and_the_ends_are_various(
    engine: SGLangEngine, undisturbed: dict[str, Completion]
) -> None:
    assert engine.capabilities.batch_invariant is True
    assert {completion.finish_reason for completion in undisturbed.values()} == {"stop", "length"}
    assert engine.identity == EngineIdentity("sglang", "0.5.23", "torch_native", "float32", "cpu")


@pytest.mark.parametrize("width", [1, 5])
def test_the_same_tokens_at_another_concurrency_and_in_another_order(
    engine: SGLangEngine, undisturbed: dict[str, Completion], width: int
) -> None:
    before, engine._width = engine._width, width
    try:
        requests = mixed(60)[::-1]
        assert ran(engine, requests[:10] if width == 1 else requests).items() <= undisturbed.items()
    finally:
        engine._width = before


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


def asked(engine: SGLangEngine, payload: dict[str, Any]) -> dict[str, Any]:
    """The running server's answer to a payload, as it comes."""

    async def ask() -> dict[str, Any]:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as client:
            assert engine.service.address is not None
            return await Asker.post(client, engine.service.address, payload)

    return asyncio.run(ask())


@pytest.mark.parametrize("name", ["instruct", "thinking"])
def test_the_servers_token_probabilities_are_the_written_law(
    engine: SGLangEngine, undisturbed: dict[str, Completion], small_model: Callable[..., PreTrainedModel], name: str
) -> None:
    """The server tells which tokens it drew from, and with which probabilities, at every step of a response."""
    model, asker = small_model(), Asker(CONTEXT, VOCABULARY, TOKENS)
    steps = 0
    for number in range(6):
        each = request(number, LAWS[name], limit=30)
        payload = asker.payload(each, return_sampling_mask=True, sampling_logprobs_mode="support")
        answer = asked(engine, payload)
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
    process = engine.service.process
    for bad in (request(1, THINKING, prompt_ids=(5, TOKENS)), request(1, replace(THINKING, min_p=0.1))):
        with pytest.raises(ValueError, match="request request 1"):
            ran(engine, [bad])
    asker = Asker(10 * CONTEXT, VOCABULARY, TOKENS)  # as if nobody clamped
    with pytest.raises(ValueError, match="status 400"):
        asked(engine, asker.payload(request(1, GREEDY, limit=CONTEXT)))
    assert ran(engine, mixed(3)).items() <= undisturbed.items()
    assert engine.service.process == process


def test_a_killed_server_is_started_again_and_gives_the_same_tokens(
    engine: SGLangEngine, undisturbed: dict[str, Completion]
) -> None:
    """In the middle of a run: what was under way is asked again, what had ended is not."""
    assert engine.service.process is not None
    before = psutil.Process(engine.service.process)
    family = before.children(recursive=True)
    assert len(family) > 2
    found = []
    for completion in engine.run(mixed(60)):
        found.append(completion)
        if len(found) == 10:
            # The part of the family that computes; the rest has to notice.
            os.kill(max(family, key=lambda each: each.memory_info().rss).pid, signal.SIGKILL)
    assert {completion.key: completion for completion in found} == undisturbed
    assert len(found) == 60
    assert engine.service.restarts == 1
    assert engine.service.process != before.pid
    _, alive = psutil.wait_procs([before, *family], timeout=10)
    assert not alive
    assert engine.capabilities.batch_invariant is True


@contextmanager
def thief(engine: SGLangEngine) -> Iterator[list[int]]:
    """Listens at the first port that the engine's server is started with, before the server does."""
    before, taken, over = set(ports_of_servers()), list[int](), threading.Event()

    def take() -> None:
        while not over.wait(0.05):
            for port in set(ports_of_servers()) - before:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(("127.0.0.1", port))
                listener.listen()
                taken.append(port)
                return

    with socket.socket() as listener:
        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield taken
        finally:
            over.set()
            thread.join()


def ports_of_servers() -> Iterator[int]:
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            words = process.cmdline()
            if "sglang.launch_server" in words and "guard.py" not in " ".join(words):
                yield int(words[words.index("--port") + 1])


def test_a_full_cache_and_a_taken_port(
    engine: SGLangEngine, undisturbed: dict[str, Completion], start_engine: StartEngine
) -> None:
    """SGLang begins responses anew when its cache is full, and would forget their penalty; the tokens are the same.

    The port that is tried first has a listener, and the next one is taken while the server loads.
    """
    long = [request(number, THINKING, limit=120, prompt=40, stop_ids=ENDS) for number in range(40)]
    expected = ran(engine, long)
    assert sum(completion.usage.response_tokens for completion in expected.values()) > 2000
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        # It takes in as many as it can: a request's prompt and limit must be free when it begins, but those before it are counted
        # as they are, so 16 of these at a time grow out of the cache. What a new server is looked at with, shorter prompts and 64
        # tokens at most, does not; after that it would take in one at a time.
        eager = ("--schedule-conservativeness", "0.01")
        with closing(start_engine(cache_tokens=1000, arguments=eager, port=port)) as other, thief(other) as stolen:
            assert ran(other, long) == expected
            assert other.service.asked_again > 0
            assert stolen and port not in stolen
            assert other.service.address not in [f"http://127.0.0.1:{each}" for each in (port, *stolen)]
            process = psutil.Process(other.service.process)
            family = [process, *process.children(recursive=True)]
        _, alive = psutil.wait_procs(family, timeout=10)
        assert not alive
